"""Models of our own that the tests compile; models.py saves them. Small, but each with something that a pipeline compiler must keep."""
from typing import List

import torch
from torch import Tensor, nn


def lively(module: nn.Module):
    """Weights that keep the size of activations: with PyTorch's defaults what a deep stack computes hardly depends on its input."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")


class Mlp(nn.Module):
    """A plain chain, with one weight-free activation between the layers."""

    def __init__(self, width: int = 64, layers: int = 16):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, 10)
        lively(self)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


@torch.jit.script
def pipe_split(x: torch.Tensor) -> torch.Tensor:
    return x


class MlpWithMarkers(nn.Module):
    """Four stages, marked by the author with the function that the README tells users to paste."""

    def __init__(self, width: int = 64):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.second = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.third = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.last = nn.Linear(width, 10)
        lively(self)

    def forward(self, x: Tensor) -> Tensor:
        a = pipe_split(self.first(x))
        b = pipe_split(self.second(a))
        c = pipe_split(self.third(b) + a)  # `a` jumps over the second stage
        return self.last(c)


def convolutions(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class Unet(nn.Module):
    """Skip connections from the first stages to the last ones; activations in place."""

    def __init__(self, width: int = 8, depth: int = 4, classes: int = 3):
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        self.stem = convolutions(3, width)
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(convolutions(a, b) for a, b in zip(widths, widths[1:]))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in reversed(list(zip(widths, widths[1:]))))
        self.up = nn.ModuleList(convolutions(2 * a, a) for a in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)
        lively(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        skips: List[Tensor] = []
        for block in self.down:
            skips.append(x)
            x = block(self.pool(x))
        for grow, block in zip(self.grow, self.up):
            x = block(torch.cat([skips.pop(), grow(x)], dim=1))
        return self.head(x)


class Lstm(nn.Module):
    """Recurrent layers as modules of their own; each makes its zero state from the batch size of its input."""

    def __init__(self, width: int = 48, layers: int = 9, vocabulary: int = 500):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            y, _ = layer(x)
            x = x + y
        return self.head(self.norm(x))
