"""P4's network for images: two convolutions, then two parallel linear layers whose outputs are averaged."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class TwoBranchCNN(nn.Module):
    """conv1 → conv2 → (fc1 + fc2) / 2, with 5 × 5 convolutions as P4's parameter counts imply.

    ``fc1`` is the branch that P4's owners keep for themselves. It starts at zero, so that before anybody has fitted it the
    network is its shared part alone. Tanh keeps gradients of noisy weights bounded, and pays at small ε; P4 does not say
    what it used.

    Parameters
    ----------
    side : int, default=28
        Pixels along each side of an image.
    channels : (int, int), default=(16, 32)
        Of the two convolutions.
    classes : int, default=10
        How many outputs there are.
    activation : str, default="tanh"
        A function of ``torch``, by its name.
    centre, scale : float, default=0.0 and 1.0
        Public: what pixels are shifted and divided by.
    seed : int, default=0
        Of the initial parameters, which are public.

    Examples
    --------
    >>> model = TwoBranchCNN()
    >>> {name: sum(p.numel() for p in layer.parameters()) for name, layer in model.named_children()}
    {'conv1': 416, 'conv2': 12832, 'fc1': 15690, 'fc2': 15690}
    """

    def __init__(
        self,
        side: int = 28,
        channels: tuple[int, int] = (16, 32),
        classes: int = 10,
        *,
        activation: str = "tanh",
        centre: float = 0.0,
        scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        first, second = channels
        self.activation, self.centre, self.scale = getattr(torch, activation), centre, scale
        features = second * (side // 4) ** 2
        self.conv1 = nn.Conv2d(1, first, 5, padding=2)
        self.conv2 = nn.Conv2d(first, second, 5, padding=2)
        self.fc1 = nn.Linear(features, classes)
        self.fc2 = nn.Linear(features, classes)
        public = torch.Generator().manual_seed(seed)  # everybody may know where training starts
        for layer in (self.conv1, self.conv2, self.fc2):
            reach = 1 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -reach, reach, generator=public)
            nn.init.constant_(layer.get_parameter("bias"), 0.0)
        nn.init.zeros_(self.fc1.weight)
        nn.init.zeros_(self.fc1.bias)

    def features(self, images: Tensor) -> Tensor:
        """What both branches read: the two convolutions' output.

        Parameters
        ----------
        images : Tensor of shape (n, 1, side, side)

        Returns
        -------
        Tensor of shape (n, n_features)
        """
        images = (images - self.centre) / self.scale
        # Monotone, so pooling first gives the same, faster
        hidden = self.activation(F.max_pool2d(self.conv1(images), 2))
        return self.activation(F.max_pool2d(self.conv2(hidden), 2)).flatten(1)

    def head(self, features: Tensor) -> Tensor:
        """The mean of both branches.

        Parameters
        ----------
        features : Tensor of shape (n, n_features)

        Returns
        -------
        Tensor of shape (n, classes)
        """
        return (self.fc1(features) + self.fc2(features)) / 2

    def forward(self, images: Tensor) -> Tensor:
        """The network's outputs.

        Parameters
        ----------
        images : Tensor of shape (n, 1, side, side)

        Returns
        -------
        Tensor of shape (n, classes)
        """
        return self.head(self.features(images))
