"""Models whose code reads the flag `training`, or seems to."""
from typing import Dict, List, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def drop_path(x: Tensor, rate: float, training: bool) -> Tensor:
    if rate == 0.0 or not training:
        return x
    keep = 1 - rate
    return x.div(keep) * (torch.rand([x.size(0), 1]) + keep).floor()


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)


class Around(nn.Module):
    """A module between two layers."""

    def __init__(self, inner):
        super().__init__()
        self.a, self.inner, self.b = nn.Linear(8, 8), inner, nn.Linear(8, 8)

    def forward(self, x):
        return self.b(self.inner(self.a(x)))


class StochasticDepth(Linear):
    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        y = self.fc(x)
        if not self.training or self.rate == 0.0:
            return x + y
        return x + y * torch.empty([x.size(0), 1]).bernoulli_(1 - self.rate)


class DropPath(nn.Module):
    def __init__(self, rate: Optional[float]):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        rate = self.rate
        return x if rate is None else drop_path(x, rate, self.training)


class Noise(nn.Module):
    def forward(self, x):
        if self.training:
            x = x + torch.randn_like(x)
        return x


class Gate(nn.Module):
    def forward(self, x):
        gate = torch.sigmoid(x)
        if not self.training:
            gate = (gate > 0.5).float()
        return x * gate


class ScaledNoise(nn.Module):
    def forward(self, x):
        return x + torch.ones(8) * (0.1 * float(self.training))


class FunctionalDropout(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5, training=self.training)


class Selects(Linear):
    def forward(self, x):
        y = self.fc(x)
        return x * 2 if self.training or bool(x.sum() > 1e9) else y


class Counts(Linear):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        if self.training:
            self.calls += 1
        return self.fc(x)


class OwnNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x):
        if self.training:
            average = x.mean(0)
            self.average.mul_(0.9).add_(average * 0.1)
        else:
            average = self.average
        return x - average


class Doubles(nn.Module):
    def forward(self, x, often: bool):
        return x * 2 if often else x


class HandsOver(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Doubles()

    def forward(self, x):
        return self.part(x, self.training)


class Extra(Linear):
    def forward(self, x) -> Dict[str, Tensor]:
        result = {"y": self.fc(x)}
        if self.training:
            result["extra"] = x * 2
        return result


class Attention(nn.Module):
    def __init__(self, dropout: float, weights: bool):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=dropout, batch_first=True)
        self.weights = weights

    def forward(self, x):
        x = x.unsqueeze(1)
        y, _ = self.attention(x, x, x, need_weights=self.weights)
        return y.squeeze(1)


class Unused(Linear):
    """Has modules that forward does not call."""

    def __init__(self):
        super().__init__()
        self.aux = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        self.depth, self.uses_aux = 3, False

    def forward(self, x):
        x = self.fc(x)
        if self.uses_aux and self.depth > 2:
            x = self.aux(x)
        return x


class Checks(Linear):
    """Tests its input and prints in training mode, and computes the same."""

    def forward(self, x):
        if self.training and x.dim() != 2:
            raise ValueError("expected a matrix")
        if self.training:
            print("training")
        return self.fc(x)


class NoRate(Linear):
    def forward(self, x):
        if self.training:
            x = F.dropout(x, 0.0, self.training)
        return self.fc(x)


class FillsWithNan(Linear):
    """A constant that does not equal itself."""

    def forward(self, x):
        return self.fc(x).masked_fill(x > 3, float("nan"))


class Samples(Linear):
    """Draws in both modes."""

    def forward(self, x):
        return self.fc(x) + torch.randn_like(x)


class ListOfParts(nn.Module):
    def __init__(self):
        super().__init__()
        rates: List[Optional[float]] = [0.0, None, 0.5]
        self.parts = nn.ModuleList([DropPath(rate) for rate in rates])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x
