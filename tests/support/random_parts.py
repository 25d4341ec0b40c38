"""What random models (random_models.py) are made of: the modules that they call and the texts of single operators."""

HEADER = '''# Seed {seed} of random_models.py.
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

OFFSETS = torch.arange(8.0) * 0.125


@torch.jit.script
def pipe_split(x: torch.Tensor) -> torch.Tensor:
    return x


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc, self.act = nn.LayerNorm(8), nn.Linear(8, 8), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.act(self.fc(self.norm(x)))


class EarlyReturn(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor, deep: bool) -> Tensor:
        if not deep:
            return torch.tanh(x)
        y = self.fc(x)
        if bool(y.mean() > 0):
            return y.clamp(-2.0, 2.0)
        return y - x


class FirstRound(nn.Module):
    """Returns out of a loop."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(3):
            x = x * 0.5 + i
            if bool(x.sum() > 4.0):
                return self.fc(x)
        return -x


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        a, b = self.fc(x).chunk(2, 1)
        return a * torch.sigmoid(b), b


class Pair(nn.Module):
    """Takes a tuple and returns one."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, both: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tensor]:
        return self.fc(both[0]), both[1] + both[0]


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(8))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.total.add_(x.mean(0))
        return x + self.total / float(self.calls)


class Smooth(nn.Module):
    mean: Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        return x - self.mean


@torch.jit.interface
class Activation(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(8) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x) * self.scale


@torch.jit.script
class Box:
    def __init__(self, value: Tensor, times: int):
        self.value = value
        self.times = times

    def total(self) -> Tensor:
        return self.value * float(self.times)


class FirstOfMany(nn.Module):
    """Leaves a loop in its middle."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(4):
            if i == 2 and bool(x.mean() > 0):
                continue
            x = x * 0.75 + i
            if bool(x.sum() > 6.0):
                break
        return self.fc(x)


class Model(nn.Module):
{fields}
    def __init__(self):
        super().__init__()
'''

# Class, its call with {m} for the module and {x} for a t, what the call makes, and whether it may be traced as it is.
LINEAR = "nn.Linear(8, 8)"
MODULES = {
    LINEAR: ("{m}({x})", "t", True),
    "nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8))": ("{m}({x})", "t", True),
    "Residual()": ("{m}({x})", "t", True),
    "EarlyReturn()": ("{m}({x}, {deep})", "t", False),
    "FirstRound()": ("{m}({x})", "t", False),
    "Gate()": ("{m}({x})", "tt", True),
    "Pair()": ("{m}(({x}, {y}))", "tt", True),
    "Counter()": ("{m}({x})", "t", False),
    "Smooth()": ("{m}({x})", "t", False),
    "nn.BatchNorm1d(8)": ("{m}({x})", "t", True),
    "nn.Dropout(0.3)": ("{m}({x})", "t", True),
    "nn.GRU(4, 4, batch_first=True)": ("{m}({x}.reshape(-1, 2, 4))[0].reshape(-1, 8)", "t", True),
    "nn.LSTM(8, 8, batch_first=True)": ("{m}({x}.unsqueeze(1))[0].squeeze(1)", "t", True),
    "nn.MultiheadAttention(8, 2, batch_first=True)": ("{m}({x}.unsqueeze(1), {y}.unsqueeze(1), {y}.unsqueeze(1))[0].squeeze(1)", "t", True),
    "nn.Embedding(10, 8)": ("{m}(({x}.abs()[:, 0] * 3).long().clamp(0, 9))", "t", True),
    "torch.ao.nn.quantized.dynamic.Linear(8, 8)": ("{m}({x})", "t", True),
}

UNARY = ["torch.tanh({a})", "torch.relu({a})", "torch.sigmoid({a})", "F.gelu({a})", "-{a}", "{a}.abs()", "F.softmax({a}, 1)", "{a}.cumsum(1) * 0.5",
         "{a}.flip(1)", "{a}.roll(1, 1)", "{a}.sort(1)[0]", "({a}.double() * 1.5).float()", "{a}.t().contiguous().t()", "{a}.detach().clone()",
         "torch.where({a} > 0, {a}, {a} * 0.1)", "{a}.masked_fill({a} < -1, -1.0)", "F.layer_norm({a}, [8])", "{a}.round() * 0.5", "{a} / 3",
         "({a}.to(torch.bfloat16) * 1.5).float()", "{a}.half().to(torch.float32)", "torch.cat([{a}, {a}[:, 8:]], 1)",
         "torch.view_as_real(torch.view_as_complex({a}.reshape(-1, 4, 2).contiguous()) * 1j).reshape(-1, 8)", "({a} * 8).to(torch.int64).float()",
         "{a} + torch.zeros(8, device=torch.device('cpu'), dtype=torch.float64).to({a}.dtype)"]
BINARY = ["{a} + {b}", "{a} - {b}", "{a} * {b}", "torch.minimum({a}, {b})", "torch.where({a} > {b}, {a}, {b} * 0.5)", "torch.add({a}, {b}, alpha=2)",
          "torch.stack([{a}, {b}], 0).sum(0)", "torch.lerp({a}, {b}, 0.3)", "{a} + {b}.mean(1, keepdim=True)", "{a} / ({b}.abs() + 1.0)"]
INPLACE = ["{a}.relu_()", "{a}.add_({b})", "{a}.add_({b}, alpha=0.5)", "{a}.mul_(0.75)", "{a}[:, 0:4] = {b}[:, 4:8]", "{a}[:, 1:3].mul_(2.0)",
           "{a}[0] = {b}[0]", "{a}.copy_({b} * 0.5)", "{a}.clamp_(-2.0, 2.0)", "{a}.t()[2].fill_(0.25)", "{a} += {b}", "{a}.sub_({b}.detach())",
           "{a}.masked_fill_({a} > 1, 1.0)", "{a}.reshape(-1)[0:2] = 0.5"]
RANDOM = ["F.dropout({a}, 0.4, self.training)", "{a} + torch.rand_like({a})", "{a} * torch.bernoulli(torch.full_like({a}, 0.5))", "F.dropout({a}, 0.1, True)"]
