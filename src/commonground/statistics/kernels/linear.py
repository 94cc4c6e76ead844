"""Small linear algebra of one person's rows, without a library that rounds by place or raises on strange numbers."""

import math

import numpy as np

from commonground.compiled import subkernel
from commonground.statistics.kernels.lanes import LANES, item, load, multiply_add, pointer, splat, store, zeros
from commonground.statistics.kernels.person import FAST, TINY_RIDGE


@subkernel(error_model="numpy")
def solve_in_place(gram, rhs):  # type: ignore[no-untyped-def]
    """Cholesky without LAPACK, which would raise on one person's strange rows and stop everybody's training."""
    size = rhs.shape[0]
    for c in range(size):
        pivot, right = gram[c, c], rhs[c]
        for b in range(c):
            pivot -= gram[c, b] * gram[c, b]
            right -= gram[c, b] * rhs[b]
        if not pivot > 0.0:
            return False
        pivot = math.sqrt(pivot)
        gram[c, c], rhs[c] = pivot, right / pivot
        for q in range(c + 1, size):
            entry = gram[q, c]
            for b in range(c):
                entry -= gram[q, b] * gram[c, b]
            gram[q, c] = entry / pivot
    for c in range(size - 1, -1, -1):
        right = rhs[c]
        for b in range(c + 1, size):
            right -= gram[b, c] * rhs[b]
        rhs[c] = right / gram[c, c]
    return True


@subkernel(error_model="numpy")
def centre_in_place(rows, labels, m):  # type: ignore[no-untyped-def]
    """Take their means out of the columns of the first m rows, and out of their labels: an intercept of her own."""
    mean, means = 0.0, np.zeros(rows.shape[1])
    for i in range(m):
        mean += labels[i]
        for a in range(rows.shape[1]):
            means[a] += rows[i, a]
    mean /= m
    for a in range(rows.shape[1]):
        means[a] /= m
    for i in range(m):
        labels[i] -= mean
        for a in range(rows.shape[1]):
            rows[i, a] -= means[a]


@subkernel(fastmath=FAST, error_model="numpy")
def head_in_place(R, r, m, Ut, A, gram, v):  # type: ignore[no-untyped-def]
    """v = argmin ‖r − R U v‖² over the first m rows, with a tiny ridge; False where there is none. A = R U; Ut = Uᵀ."""
    k, d = Ut.shape
    for i in range(m):
        for a in range(k):
            row, direction, total = R[i], Ut[a], 0.0
            for c in range(d):
                total += row[c] * direction[c]
            A[i, a] = total
    trace = 0.0
    for a in range(k):  # inner loops store nothing: those that do are added up by where arrays lie
        total = 0.0
        for i in range(m):
            total += A[i, a] * r[i]
        v[a] = total
        for b in range(k):
            total = 0.0
            for i in range(m):
                total += A[i, a] * A[i, b]
            gram[a, b] = total
        trace += gram[a, a]
    for a in range(k):
        gram[a, a] += TINY_RIDGE * trace
    return solve_in_place(gram, v)


@subkernel(fastmath=FAST, error_model="numpy")
def moment_norm_squared(R, m, d):  # type: ignore[no-untyped-def]
    """‖RᵀR‖² = ‖RRᵀ‖² over the first m rows, from the smaller of the two."""
    total = 0.0
    if m <= d:
        for i in range(m):
            for q in range(i + 1):
                one, other, s = R[i], R[q], 0.0
                for c in range(d):
                    s += one[c] * other[c]
                total += s * s if q == i else 2.0 * s * s
    else:
        for c in range(d):
            for e in range(c + 1):
                s = 0.0
                for i in range(m):
                    s += R[i, c] * R[i, e]
                total += s * s if e == c else 2.0 * s * s
    return total


@subkernel(fastmath=FAST, error_model="numpy")
def add_moment(blocks, R, m, v, factors):  # type: ignore[no-untyped-def]
    """blocks[a, b] += v_a v_b · RᵀR over the first m rows, for a ≤ b, upper triangles (in whole LANES).

    Four rows and LANES columns of RᵀR at a time: they stay in registers until all blocks have them. Blocks are (width, width)
    and R has ``width`` columns, a multiple of LANES; those behind the features are zero. ``factors`` is room for the v_a v_b.
    """
    width, at = R.shape[1], 0
    for a in range(v.shape[0]):
        for b in range(a, v.shape[0]):
            factors[at] = v[a] * v[b]
            at += 1
    rows, to = pointer(R), pointer(blocks)
    for c in range(0, width, 4):
        for e in range(c // LANES * LANES, width, LANES):
            t0 = t1 = t2 = t3 = zeros(rows)
            for i in range(0, m * width, width):
                x = load(rows, i + e)
                t0 = multiply_add(splat(item(rows, i + c)), x, t0)
                t1 = multiply_add(splat(item(rows, i + c + 1)), x, t1)
                t2 = multiply_add(splat(item(rows, i + c + 2)), x, t2)
                t3 = multiply_add(splat(item(rows, i + c + 3)), x, t3)
            for block in range(at):
                f, place = splat(factors[block]), (block * width + c) * width + e
                store(to, place, multiply_add(f, t0, load(to, place)))
                store(to, place + width, multiply_add(f, t1, load(to, place + width)))
                store(to, place + 2 * width, multiply_add(f, t2, load(to, place + 2 * width)))
                store(to, place + 3 * width, multiply_add(f, t3, load(to, place + 3 * width)))
