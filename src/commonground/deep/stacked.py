"""Many copies of one network side by side, each with its own parameters (a leading dimension) and its own rows."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from commonground.deep.per_sample import output_size, patches, simple_convolution

_BEFORE_RECORDING = 3  # updates during which a GPU's libraries choose their algorithms

Parameters = dict[str, Tensor]


class Repeated:
    """An update to be made many times. On a GPU it is recorded once and played back: kernel by kernel it waits for Python.

    It must read and write the same tensors every time, and say itself (in one of them) how far it has come.
    """

    def __init__(self, update: Callable[[], None], on_gpu: bool) -> None:
        self.update, self.to_record = update, on_gpu

    def __call__(self, times: int) -> None:
        if self.to_record and times > _BEFORE_RECORDING:
            self.to_record = False
            self._record()
            times -= _BEFORE_RECORDING
        for _ in range(times):
            self.update()

    def _record(self) -> None:
        here, beside = torch.cuda.current_stream(), torch.cuda.Stream()
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            for _ in range(_BEFORE_RECORDING):
                self.update()
        here.wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.update()
            self.update = graph.replay
        except RuntimeError:  # a model or loss that asks the GPU for numbers midway cannot be recorded
            torch.cuda.set_stream(here)  # a recording that fails leaves its own
            torch.cuda.synchronize()


class _PatchConv2d(nn.Conv2d):
    """A convolution as a product with patches: with a copy of the weights for each owner, much faster on a GPU."""

    def forward(self, x: Tensor) -> Tensor:
        found = patches(self, x).flatten(0, 1) @ self.weight.flatten(1).T  # (n · places, out): one product an owner
        found = found if self.bias is None else found + self.bias
        return found.unflatten(0, (len(x), *output_size(self, x))).permute(0, 3, 1, 2)


def with_patches(model: nn.Module) -> nn.Module:
    """The same network with convolutions as a stack on a GPU is fastest with."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if type(module) is nn.Conv2d and simple_convolution(module):
            module.__class__ = _PatchConv2d
    return model


def stacked_call(module: nn.Module, fixed: Parameters, stacked: Parameters, X: Tensor) -> Tensor:
    """(copies, rows, …) outputs: copy j's rows through copy j's parameters; ``fixed`` are everybody's."""
    if not stacked:
        flat: Tensor = functional_call(module, fixed, (X.flatten(0, 1),))
        return flat.unflatten(0, X.shape[:2])
    others = {p: value for p, value in fixed.items() if p not in stacked}
    if len(X) == 1:  # one of them, without the detour
        alone: Tensor = functional_call(module, {**others, **{p: value[0] for p, value in stacked.items()}}, (X[0],))
        return alone[None]

    def one(mine: Parameters, x: Tensor) -> Tensor:
        answer: Tensor = functional_call(module, {**others, **mine}, (x,))
        return answer

    outputs: Tensor = vmap(one, in_dims=(0, 0))(stacked, X)
    return outputs
