"""Small programs on which real models once failed, cut down to what they stumbled over."""
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn


class MultipliesInALoop(nn.Module):
    """Products inside a loop that stays whole, while other values wait on the interpreter's stack."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, keys: Tensor) -> Tuple[Tensor, Tensor]:
        state = self.a(x)
        outs: List[Tensor] = []
        for i in range(keys.size(1)):
            weight = torch.softmax(torch.bmm(keys, state.unsqueeze(2)).squeeze(2), 1)
            state = torch.tanh(self.b(torch.bmm(weight.unsqueeze(1), keys).squeeze(1) * (i + 1)))
            outs.append(state)
        return self.b(state), torch.stack(outs, 1)


class WritesAConstant(nn.Module):
    """Traced: a tensor of the method's text is written, and keeps it; another has a view with another shape."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.tables = [torch.zeros(4), torch.arange(4.0)]

    def forward(self, x):
        x = self.a(x)
        self.tables[0].add_(x.detach().sum(0))
        row = self.tables[1].detach()
        row.unsqueeze_(0)
        return self.c(torch.relu(self.b(x)) + row) + self.tables[0]


class TreeOfResults(nn.Module):
    """Lists and dicts inside a tuple, each part made somewhere else."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor], Dict[str, List[Tensor]]]:
        hidden: List[Tensor] = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            hidden.append(x)
        return x, [hidden[0], hidden[1]], {"last": [hidden[2]], "all": [hidden[3], hidden[0]]}


class MaybeAResult(nn.Module):
    """An optional result; and a write somewhere, which has the unsplit model read copies of its inputs."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.cell = nn.Linear(6, 16), nn.Linear(24, 5), nn.LSTMCell(22, 24)

    def forward(self, x: Tensor, deterministic: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
        h = torch.tanh(self.a(x))
        h, c = self.cell(torch.cat([x, h.sub_(0.1)], 1))
        y = self.b(h)
        if deterministic:
            return y, None
        return y, y * c.sum(1, keepdim=True)


class EncoderWithoutMask(nn.Module):
    """Masks that nobody gives: a branch makes one of its own, writes it, and it meets the argument behind the branch."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        return self.encoder(x, mask)


class WritesInTraining(nn.Module):
    """A buffer that only training writes, read in two places."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("mean", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.a(x * self.mean))
        if self.training:
            self.mean.lerp_(x.mean(0), 0.1)
        return self.b(x) - self.mean


class WritesAnOptionalArgument(nn.Module):
    """An argument that no micro-batch has for itself is written under a condition, and read in a later stage."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, cache: Optional[Tensor]) -> Tensor:
        x = self.a(x)
        if cache is not None:
            cache.add_(x)
        x = self.b(x)
        if cache is not None:
            x = x + cache
        return x


class WritesAnArgumentsElement(nn.Module):
    """The same of an element of a tuple."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, cache: Tuple[Tensor, Tensor]) -> Tensor:
        x = self.a(x)
        if bool(x.sum() < 1e9):
            cache[0].add_(x)
        return self.b(x) + cache[0]


@torch.jit.script
class Config:
    def __init__(self, training: bool):
        self.training = training


class HasAnObjectThatTrains(nn.Module):
    """The object's flag is its own: eval() leaves it, and so does --infer."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.config = nn.Linear(4, 4), nn.Linear(4, 4), Config(True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        if self.config.training:
            x = x * 2
        return self.b(x)
