"""Eight numbers side by side: the few vector instructions that the compiled kernels are made of.

A person has few rows and few columns: loops of 10 to 50 steps, of which LLVM's vectoriser leaves most to scalar code. So the
inner loops are written on ``Lanes``, which LLVM keeps in one register of the processor (or in two or four, where they are
shorter), and on bare pointers: counting references to arrays would cost more than the sums. LLVM's vector types work on any
processor. A pointer is taken only from an array that the caller holds, and a load behind the end of a row is masked.
"""

import inspect

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.extending import intrinsic, register_model

LANES = 8

_I32 = ir.IntType(32)


class Lanes(types.Type):
    """LANES floats of one type, side by side."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, ir.VectorType(manager.lookup(lanes.dtype).get_data_type(), LANES))


def _instruction(result_type, emit):
    """A function for compiled code out of ``emit``, which writes LLVM instructions for the values of its arguments."""

    def typed(typing_context, *arg_types):
        def code(context, builder, signature, args):
            result = emit(builder, *args)
            return context.get_dummy_value() if signature.return_type == types.void else result

        return result_type(*arg_types)(*arg_types), code

    typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]  # how many arguments there are
    return intrinsic(typed)


def _call(builder, name, result_type, *args):
    function_type = ir.FunctionType(result_type, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), args)


def _suffix(vector):  # by which LLVM tells apart the versions of its own functions
    return f"v{LANES}f{64 if vector.element == ir.DoubleType() else 32}"


def _address(builder, pointer, start, kind):
    return builder.bitcast(builder.gep(pointer, [start]), kind.as_pointer())


def _shuffle(builder, a, b, which):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(which)), which))


def _splat(builder, scalar):
    first = builder.insert_element(ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined), scalar, _I32(0))
    return _shuffle(builder, first, first, [0] * LANES)


def _zeros(builder, pointer):
    return ir.Constant(ir.VectorType(pointer.type.pointee, LANES), [0.0] * LANES)


def _convert(builder, lanes, element):
    if lanes.type.element == element:
        return lanes
    convert = builder.fpext if element == ir.DoubleType() else builder.fptrunc
    return convert(lanes, ir.VectorType(element, LANES))


def _load(builder, pointer, start):
    return builder.load(_address(builder, pointer, start, ir.VectorType(pointer.type.pointee, LANES)), align=1)


def _load_first(builder, pointer, start, n):
    zeros = _zeros(builder, pointer)
    numbers = ir.Constant(ir.VectorType(_I32, LANES), list(range(LANES)))
    mask = builder.icmp_signed("<", numbers, _splat(builder, builder.trunc(n, _I32)))
    address = _address(builder, pointer, start, zeros.type)
    return _call(builder, f"llvm.masked.load.{_suffix(zeros.type)}.p0", zeros.type, address, _I32(1), mask, zeros)


def _store(builder, pointer, start, lanes):
    lanes = _convert(builder, lanes, pointer.type.pointee)
    builder.store(lanes, _address(builder, pointer, start, lanes.type), align=1)


def _store_halves(builder, pointer, start, start_2, lanes):
    lanes = _convert(builder, lanes, pointer.type.pointee)
    for at, which in ((start, [0, 1, 2, 3]), (start_2, [4, 5, 6, 7])):
        half = _shuffle(builder, lanes, lanes, which)
        builder.store(half, _address(builder, pointer, at, half.type), align=1)


def _totals(builder, s0, s1, s2, s3, s4, s5, s6, s7):
    lanes = [s0, s1, s2, s3, s4, s5, s6, s7]
    # Pairwise, so that eight sums take 7 additions and 14 shuffles, each one instruction on x86.
    for left, right in (
        ([0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]),
        ([0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]),
        ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]),
    ):
        pairs = zip(lanes[::2], lanes[1::2], strict=True)
        lanes = [builder.fadd(_shuffle(builder, a, b, left), _shuffle(builder, a, b, right)) for a, b in pairs]
    return lanes[0]


def _total(builder, a):
    element = a.type.element
    return _call(builder, f"llvm.vector.reduce.fadd.{_suffix(a.type)}", element, element(0.0), a)


def _inverse_root(builder, a):
    root = _call(builder, f"llvm.sqrt.{_suffix(a.type)}", a.type, a)
    return builder.fdiv(ir.Constant(a.type, [1.0] * LANES), root)


def _larger(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _prefetch(builder, pointer, start):
    address = _address(builder, pointer, start, ir.IntType(8))
    _call(builder, "llvm.prefetch.p0", ir.VoidType(), address, _I32(0), _I32(2), _I32(1))  # read, level 2, data


@intrinsic
def pointer(typing_context, array):
    """To the first number of an array; only of one in C order is it known where the others are."""
    if array.layout != "C":
        raise TypingError("pointer of an array that is not C-contiguous: call np.ascontiguousarray before")

    def code(context, builder, signature, args):
        return context.make_array(array)(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), code


_same, _element, _nothing = lambda a, *_: a, lambda a, *_: a.dtype, lambda *_: types.void
_lanes_of, _doubles = lambda a, *_: Lanes(a.dtype), lambda *_: Lanes(types.float64)

item = _instruction(_element, lambda builder, pointer, i: builder.load(builder.gep(pointer, [i])))
put = _instruction(_nothing, lambda builder, pointer, i, value: builder.store(value, builder.gep(pointer, [i])))
shifted = _instruction(_same, lambda builder, pointer, n: builder.gep(pointer, [n]))
load = _instruction(_lanes_of, _load)
load_first = _instruction(_lanes_of, _load_first)  # n lanes, and zeros: what is behind the end of a row is not read
store = _instruction(_nothing, _store)
store_halves = _instruction(_nothing, _store_halves)  # four lanes here, four lanes there
zeros = _instruction(_lanes_of, _zeros)  # of the type a pointer points to
splat = _instruction(lambda scalar: Lanes(scalar), _splat)
doubles = _instruction(_doubles, lambda builder, a: _convert(builder, a, ir.DoubleType()))
multiply = _instruction(_same, lambda builder, a, b: builder.fmul(a, b))
multiply_add = _instruction(_same, lambda builder, a, b, c: builder.fadd(builder.fmul(a, b), c))  # fused by "contract"
subtract_product = _instruction(_same, lambda builder, c, a, b: builder.fsub(c, builder.fmul(a, b)))
subtract = _instruction(_same, lambda builder, a, b: builder.fsub(a, b))
divide = _instruction(_same, lambda builder, a, b: builder.fdiv(a, b))
larger = _instruction(_same, _larger)
inverse_root = _instruction(_same, _inverse_root)
totals = _instruction(_same, _totals)  # of eight Lanes: lane i of the result is the sum over the i-th
total = _instruction(_element, _total)  # of the lanes of one
prefetch = _instruction(_nothing, _prefetch)
