"""P4's network for images: two convolutions, then two parallel linear layers whose outputs are averaged."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class TwoBranchCNN(nn.Module):
    """conv1 → conv2 → (fc1 + fc2) / 2, with 5 × 5 convolutions as P4's parameter counts imply.

    ``fc1`` is the branch that P4's owners keep for themselves. It starts at zero, so that before anybody has fitted it the
    network is its shared part alone. Tanh keeps gradients of noisy weights bounded, and pays at small ε; P4 does not say
    what it used.

    >>> model = TwoBranchCNN()
    >>> {name: sum(p.numel() for p in layer.parameters()) for name, layer in model.named_children()}
    {'conv1': 416, 'conv2': 12832, 'fc1': 15690, 'fc2': 15690}
    """

    def __init__(self, side: int = 28, channels: tuple[int, int] = (16, 32), classes: int = 10, seed: int = 0) -> None:
        super().__init__()
        first, second = channels
        with torch.random.fork_rng(devices=[]):  # the start is public and repeatable; nobody else's generator moves
            torch.manual_seed(seed)
            self.conv1 = nn.Conv2d(1, first, 5, padding=2)
            self.conv2 = nn.Conv2d(first, second, 5, padding=2)
            features = second * (side // 4) ** 2
            self.fc1 = nn.Linear(features, classes)
            self.fc2 = nn.Linear(features, classes)
        nn.init.zeros_(self.fc1.weight)
        nn.init.zeros_(self.fc1.bias)

    def features(self, images: Tensor) -> Tensor:
        hidden = torch.tanh(F.max_pool2d(self.conv1(images), 2))  # tanh is monotone: pooling first gives the same, for a quarter
        return torch.tanh(F.max_pool2d(self.conv2(hidden), 2)).flatten(1)

    def head(self, features: Tensor) -> Tensor:
        return (self.fc1(features) + self.fc2(features)) / 2

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))
