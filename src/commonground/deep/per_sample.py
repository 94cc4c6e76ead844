"""The gradient of each record's loss, one row a record, in memory bounded by the microbatch.

Linear and convolution layers have a closed form: a layer's gradient for one record is its output's gradient times its
input (unfolded into patches for a convolution), so one backward pass to the layers' *outputs* and one batched product a
layer give all rows at once, and the usual weight gradients are never computed. Every other model goes through
``torch.func``: slower, and right for whatever treats records apart.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from commonground.deep.probe import Loss, made_up_records, refuse_mixing


class PerSampleGradients:
    """(records, parameters) matrices of gradients for the named parameters of a model.

    Columns are in the order of ``names``, each parameter flattened: ``flatten`` and ``unflatten`` say how.
    """

    def __init__(self, model: nn.Module, names: list[str], loss: Loss) -> None:
        self.model, self.names, self.loss = model, names, loss
        parameters = dict(model.named_parameters())
        self.shapes = [parameters[name].shape for name in names]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.layers = _closed_form_layers(model, names)
        self._checked = False

    @property
    def n_parameters(self) -> int:
        return sum(self.sizes)

    def __call__(self, X: Tensor, y: Tensor) -> Tensor:
        """(records, parameters); row i depends on record i and the parameters alone."""
        if not self._checked:
            self.probe(X, y)
        rows = None if self.layers is None else self._by_layers(X, y)
        return self._by_vmap(X, y) if rows is None else rows

    def probe(self, X: Tensor, y: Tensor) -> None:
        """Refuse a model that mixes records, and see whether the closed form is right for it, on made-up records like X's."""
        refuse_mixing(self.model, self.loss, X, y)
        self._checked = True
        if self.layers is None:
            return
        # A forward pass may use a layer twice, or fold records into another dimension.
        records, labels = made_up_records(X, y)
        slow = self._by_vmap(records, labels)
        try:
            fast = self._by_layers(records, labels)
        except RuntimeError:  # an activation in place overwrites what is watched
            fast = None
        if fast is None or not ((fast - slow).abs().amax(1) <= 1e-2 * slow.abs().amax(1)).all():
            self.layers = None

    def flatten(self, tensors: dict[str, Tensor]) -> Tensor:
        return torch.cat([tensors[name].reshape(-1) for name in self.names])

    def unflatten(self, flat: Tensor) -> dict[str, Tensor]:
        pieces = flat.split(self.sizes)
        return {n: piece.view(shape) for n, piece, shape in zip(self.names, pieces, self.shapes, strict=True)}

    def _by_layers(self, X: Tensor, y: Tensor) -> Tensor | None:
        assert self.layers is not None
        seen: dict[str, list[tuple[Tensor, Tensor]]] = {at: [] for at in self.layers}
        with _constant_parameters(self.model), _watching(self.layers, seen):
            losses = self.loss(self.model(X), y)
            if any(len(calls) != 1 or len(calls[0][1]) != len(X) for calls in seen.values()):
                return None
            outputs = [calls[0][1] for calls in seen.values()]
            slopes = torch.autograd.grad(losses.sum(), outputs, materialize_grads=True)
        rows = X.new_empty((len(X), self.n_parameters), dtype=slopes[0].dtype)
        place = dict(zip(self.names, rows.split(self.sizes, dim=1), strict=True))
        for (at, layer), slope in zip(self.layers.items(), slopes, strict=True):
            prefix = f"{at}." if at else ""
            _write_rows(layer, seen[at][0][0], slope, place.get(f"{prefix}weight"), place.get(f"{prefix}bias"))
        return rows

    def _by_vmap(self, X: Tensor, y: Tensor) -> Tensor:
        tensors = {name: p.detach() for name, p in self.model.named_parameters()}
        learned = {name: tensors.pop(name) for name in self.names}
        fixed = {**tensors, **dict(self.model.named_buffers())}

        def one_loss(learned: dict[str, Tensor], x: Tensor, label: Tensor) -> Tensor:
            return self.loss(functional_call(self.model, {**fixed, **learned}, (x[None],)), label[None])[0]

        found = vmap(grad(one_loss), in_dims=(None, 0, 0))(learned, X, y)
        return torch.cat([found[name].reshape(len(X), -1) for name in self.names], dim=1)


def _write_rows(layer: nn.Module, x: Tensor, slope: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    """One layer's columns: d loss_i / d W = Σ over places of slope_i ⊗ input_i."""
    n = len(x)
    if isinstance(layer, nn.Conv2d):
        if weight is not None:
            weight.copy_(_convolution_rows(layer, x, slope))
        if bias is not None:
            torch.sum(slope, (2, 3), out=bias)
        return
    slope, x = slope.reshape(n, -1, slope.shape[-1]), x.reshape(n, -1, x.shape[-1])
    if weight is not None:
        torch.bmm(slope.transpose(1, 2), x, out=weight.unflatten(1, (slope.shape[2], -1)))
    if bias is not None:
        torch.sum(slope, 1, out=bias)


def _convolution_rows(layer: nn.Conv2d, x: Tensor, slope: Tensor) -> Tensor:
    n = len(x)
    if x.is_cuda:  # patches and one batched product: cuDNN is slow with a group for each record
        return torch.bmm(slope.flatten(2), patches(layer, x)).reshape(n, -1)
    # The whole batch as one image with a group of channels for each record: three times faster than patches on a CPU.
    # Only its shape is read
    kernels = x.new_empty(1).expand(n * layer.out_channels, layer.in_channels, *layer.kernel_size)
    slopes, image = slope.reshape(1, -1, *slope.shape[2:]), x.reshape(1, -1, *x.shape[2:])
    how = layer.stride, layer.padding, layer.dilation, False, [0, 0], n, [False, True, False]
    gradients = torch.ops.aten.convolution_backward(slopes, image, kernels, None, *how)
    return gradients[1].reshape(n, -1)


def patches(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """(n, places, in · kh · kw), by one strided copy; ``F.unfold`` starts a kernel for each record."""
    rows, columns = layer.padding if isinstance(layer.padding, tuple) else (0, 0)
    windows = F.pad(x, (columns, columns, rows, rows))
    for axis in (0, 1):
        reach = layer.dilation[axis] * (layer.kernel_size[axis] - 1) + 1
        windows = windows.unfold(2 + axis, reach, layer.stride[axis])[..., :: layer.dilation[axis]]
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)  # from (n, in, places, places, kh, kw)


def output_size(layer: nn.Conv2d, x: Tensor) -> tuple[int, int]:
    rows, columns = (
        (x.shape[2 + axis] + 2 * int(layer.padding[axis]) - layer.dilation[axis] * (layer.kernel_size[axis] - 1) - 1)
        // layer.stride[axis]
        + 1
        for axis in (0, 1)
    )
    return rows, columns


def simple_convolution(layer: nn.Conv2d) -> bool:
    return layer.groups == 1 and layer.padding_mode == "zeros" and isinstance(layer.padding, tuple)


def _closed_form_layers(model: nn.Module, names: list[str]) -> dict[str, nn.Module] | None:
    """The layers that hold the named parameters, or None where one of them has no closed form here."""
    layers: dict[str, nn.Module] = {}
    for name in names:
        at = name.rpartition(".")[0]
        layer = model.get_submodule(at)
        if not (type(layer) is nn.Linear or (type(layer) is nn.Conv2d and simple_convolution(layer))):
            return None
        layers[at] = layer
    every = [id(p) for module in model.modules() for p in module.parameters(recurse=False)]
    if len(set(every)) != len(every):
        return None  # a parameter used in two places
    return layers


@contextmanager
def _watching(layers: dict[str, nn.Module], seen: dict[str, list[tuple[Tensor, Tensor]]]) -> Iterator[None]:
    def watch(at: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
        def hook(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
            output = output if output.requires_grad else output.requires_grad_()
            seen[at].append((given[0].detach(), output))
            return output

        return hook

    handles = [layer.register_forward_hook(watch(at)) for at, layer in layers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _constant_parameters(model: nn.Module) -> Iterator[None]:
    """The backward pass must reach the layers' outputs only."""
    wanted = [p for p in model.parameters() if p.requires_grad]
    for parameter in wanted:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)
