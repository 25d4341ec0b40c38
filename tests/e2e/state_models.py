"""Models that keep memory between calls and share it: assigned, written, returned, under a condition."""
from typing import Optional

import torch
from torch import Tensor, nn


class Keeps(nn.Module):
    """Four layers, a buffer that is written and one that is assigned."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(4, 4) for _ in range(4))
        self.register_buffer("sum", torch.zeros(4))
        self.register_buffer("other", torch.zeros(4))


class WrittenIsReturned(Keeps):
    def forward(self, x):
        x = self.a(x)
        self.sum.add_(x.detach().sum(0))
        return self.d(self.c(self.b(x))), self.sum


class WrittenIsAssigned(Keeps):
    def forward(self, x):
        x = self.a(x) + self.other
        self.sum.add_(x.detach().sum(0))
        x = self.c(self.b(x)) + 1
        self.other = self.sum
        return self.d(x)


@torch.jit.script
class Sum:
    def __init__(self):
        self.sum = torch.zeros([4])


class AssignedInAnObject(Keeps):
    def __init__(self):
        super().__init__()
        self.kept = Sum()

    def forward(self, x):
        x = self.a(x) + self.kept.sum
        self.kept.sum = self.kept.sum + x.sum(0)
        return self.d(self.c(self.b(x)))


class AssignedIsReadLater(Keeps):
    def forward(self, x):
        x = self.a(x)
        self.sum.add_(x.detach().sum(0))
        x = self.c(self.b(x)) + self.other
        self.other = self.sum
        return self.d(x)


class ViewIsAssigned(Keeps):
    def forward(self, x):
        x = self.a(x)
        self.sum.add_(x.detach().sum(0))
        self.other = self.sum.view(4)
        return self.d(self.c(self.b(x))) + self.other


class AssignedIsWrittenLater(Keeps):
    def forward(self, x):
        x = self.a(x)
        y = x.detach().sum(0)
        self.other = y
        x = self.c(self.b(x)) + 1
        y.add_(1)
        return self.d(x) + self.other


class AddedAndReadFarBehind(Keeps):
    """Written under its own name and as an assignment to itself; what is read at the end is this run's."""

    def forward(self, x):
        x = self.a(x)
        self.sum += x.detach().sum(0)
        self.other.mul_(0.5).add_(1.0)
        x = self.c(self.b(x)) * self.sum
        return self.d(x) + self.other[None, :] * self.sum


class WrittenInABranchAndReadFarBehind(Keeps):
    def forward(self, x):
        x = self.a(x)
        if bool(x.sum() > 0):
            self.sum.add_(1.0)
        else:
            self.sum.sub_(0.5)
        x = self.c(self.b(x))
        if bool(x.sum() > 0):
            x = x + self.sum
        return self.d(x) - self.sum


class InputIsWrittenAndRead(Keeps):
    """Its batch is the second dimension: a micro-batch's strides are not those of a tensor of its own."""

    def forward(self, x):
        turned = x.t()
        h = self.a(turned)
        x.mul_(2.0)
        h = self.b(h) + turned
        x[0] = 1.0
        return self.d(self.c(h) + x.t())


class WritesItsConstant(nn.Module):
    """To be traced: a tensor that no module has becomes a constant of the text, and keeps what is written. A module or a buffer is called so too."""

    def __init__(self, asModules):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        self.kept = [torch.zeros(4)]
        self.register_buffer("constants_" if asModules else "constants", torch.rand(4))
        if asModules:
            self.constants = self.layers

    def forward(self, x):
        x = self.layers[0](x) * (self.constants_ if hasattr(self, "constants_") else self.constants)
        self.kept[0].add_(x.detach().sum(0))
        x = self.layers[1](x) + self.kept[0]
        return self.layers[3](self.layers[2](x)) - self.kept[0]


class InputIsWrittenSometimes(Keeps):
    def forward(self, x, whole):
        x = self.a(x)
        if bool(x.sum() > 0):
            whole.add_(1)
        return self.d(self.c(self.b(x)) + whole)


class ListIsWritten(Keeps):
    def forward(self, x: torch.Tensor, parts: list[torch.Tensor]):
        x = self.a(x)
        parts[0].add_(x)
        return self.d(self.c(self.b(x)) + parts[0])


class NumberHangsOnData(Keeps):
    def forward(self, x):
        large = int(x.detach().abs().max() > 5)
        x = self.a(x)
        return self.d(self.c(self.b(x))), large, x.shape[1]


class CountedInABranch(Keeps):
    """Branch and loop give a tensor and a number that is kept: the stage stores the number first, its other method returns the tensor first."""

    calls: int
    rounds: int

    def __init__(self):
        super().__init__()
        self.calls, self.rounds = 0, 0

    def forward(self, x):
        x = self.a(x)
        if bool(x.sum() > 0):
            y = x * 1.5
        else:
            self.calls += 1
            y = x * 2.0
        for i in range(x.size(0)):
            y = y * 0.5 + i
            self.rounds += 1
        return self.d(self.c(self.b(y))) + self.calls + self.rounds


class Scales(nn.Module):
    """Counts, and assigns a buffer anew."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x):
        self.calls += 1
        self.scale = self.scale * 1.5
        return x + self.scale * self.calls


class StepsAndScales(nn.Module):
    def __init__(self, scales):
        super().__init__()
        self.layer, self.scales = nn.Linear(4, 4), scales

    def forward(self, x):
        return self.scales(self.layer(x))


class AssignedInTwoModules(nn.Module):
    """One module in four: the saved ones begin with the same memory and assign each its own."""

    def __init__(self):
        super().__init__()
        scales = Scales()
        self.a, self.b, self.c, self.d = (StepsAndScales(scales) for _ in range(4))

    def forward(self, x):
        return self.d(self.c(self.b(self.a(x))))


class LessTheMean(nn.Module):
    """Of the batch."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x)
        return self.b(x - x.mean(0))


class NormOfBatch(nn.Module):
    """Keeps its training mode in the file."""
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x):
        return self.b(self.norm(self.a(x)))


class DrawnNoise(nn.Module):
    """Draws for every sample: nothing can be told."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x)
        return self.b(x + torch.rand_like(x))


class OfItsOwn(nn.Module):
    """The mean of each sample."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x)
        return self.b(x - x.mean(1, keepdim=True))


class SetToNothing(Keeps):
    """An attribute that holds a tensor when the model is saved, and is None after some calls."""

    last: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.last = torch.ones(4)

    def forward(self, x):
        x = self.a(x)
        last = self.last
        if last is not None:
            x = x + last
        if bool(x.sum() > 0):
            self.last = None
        else:
            self.last = x[0]
        return self.d(self.c(self.b(x)))


class SetToNothingAtOnce(Keeps):
    """The same, set to None before it is read, so that a branch returns the old value unread."""

    last: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.last = torch.ones(4)

    def forward(self, x):
        if bool(x[0, 0] > 0):
            self.last = None
        x = self.b(self.a(x))
        last = self.last
        if last is None:
            last = torch.zeros(4)
        self.last = last + 1
        return self.d(self.c(x + last))


class SetToNothingLater(Keeps):
    """The same after some calls, read in a later stage than the one that counts them."""

    last: Optional[Tensor]
    calls: int

    def __init__(self):
        super().__init__()
        self.last, self.calls = torch.ones(4), 0

    def forward(self, x):
        self.calls += 1
        x = self.d(self.c(self.b(self.a(x))))
        last = self.last
        if self.calls > 2:
            self.last = None
        return x if last is None else x + last
