"""Small programs on which real models once failed, cut down to what they stumbled over."""
from typing import Any, Dict, List, Optional, Tuple

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
    """Masks that the caller leaves out: a branch makes one of its own, writes it, and it meets the argument behind the branch."""

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


class ClampsInPlace(nn.Module):
    """Quantised relu6 writes into its argument when a flag says so, and no schema tells; the argument is read again at the end."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(2, 2, 1) for _ in range(3))
        self.clamp = nn.ReLU6(inplace=True)
        self.quantise, self.dequantise = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.qconfig = torch.ao.quantization.get_default_qconfig("fbgemm")

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        x = self.a(self.quantise(x))
        y = self.clamp(x)
        return self.dequantise(self.c(self.b(y))), self.dequantise(x)


def clampsInPlace():
    module = torch.ao.quantization.prepare(ClampsInPlace().eval())
    module(torch.randn(8, 2, 3, 3) * 30)
    return torch.ao.quantization.convert(module)


class WritesWhatDropoutReturned(nn.Module):
    """Not in training dropout returns what it is given; LibTorch takes that for a new tensor, and drops the write when it reads a file."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        for _ in range(2):
            self.drop(y).add_(x, alpha=0.5)
            y = self.b(y) + self.drop(torch.relu(y)).mul_(2.0)
        return y


class OneResultPerSample(nn.Module):
    """As detectors return them: a list as long as the batch, of tensors of any length."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> List[Dict[str, Tensor]]:
        x = self.b(torch.relu(self.a(x)))
        found: List[Dict[str, Tensor]] = []
        for i in range(x.size(0)):
            labels = (x[i] > 0).nonzero().squeeze(1)
            found.append({"labels": labels, "scores": x[i][labels]})
        return found


class ReturnsItsState(nn.Module):
    """Results that the next micro-batch writes into: a buffer, a view of it, and a list that grows."""

    names: List[str]

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("sum", torch.zeros(4))
        self.names = []

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, List[str]]:
        x = self.a(x)
        self.sum.add_(x.sum(0))
        self.names.append("call")
        return self.b(x), self.sum, self.sum[1:3], self.names


class NamesItsParts(nn.Module):
    """Blocks for profilers, and autocast, which only LibTorch's graph optimiser applies to a script."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autograd.profiler.record_function("first"):
            x = self.a(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.b(torch.relu(x))
        return y.float() + self.b(x)


@torch.jit.script
class Span:
    def __init__(self, begin: Tensor, number: int, steps: List[int], mask: Optional[Tensor]):
        self.begin, self.number, self.steps, self.mask = begin, number, steps, mask


@torch.jit.script
class Spans:
    def __init__(self, first: Span, second: Span):
        self.first, self.second = first, second
        self.both = [first, second]


class HandsOnObjects(nn.Module):
    """Objects in tuples, lists, dicts, branches, loops and attributes; nothing is assigned to them any more."""
    last: Optional[Span]
    known: List[Span]

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.span = Span(torch.ones(4), 1, [1], None)
        self.same = self.span
        self.last = None
        self.known = [Span(torch.arange(4.0), 2, [2, 3], torch.ones(4)), self.span]

    def made(self, x: Tensor) -> Tuple[Spans, int]:
        if bool(x.sum() > 0):
            return Spans(Span(x, 3, [4], x > 0), self.known[0]), 1
        return Spans(self.known[1], Span(-x, 4, [5, 6], None)), 2

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        x = self.a(x)
        spans, n = self.made(x)
        before = self.span
        self.span = Span(self.span.begin + x.detach().sum(0), before.number + 1, before.steps + [n], None)
        named = {"first": spans.first, "second": spans.second, "before": before, "same": self.same}
        chosen = spans.both[n - 1] if "first" in named else before
        for i in range(n):
            chosen = named["before"] if i > 0 else spans.both[-1]
        x = torch.relu(self.b(x)) + chosen.begin
        last = self.last
        if last is not None:
            x = x + last.begin.mean()
            mask = last.mask
            if mask is not None:
                x = x * mask.sum()
        self.last = Span(x.detach().mean(0), 5, [n], x.detach().mean(0) > 0)
        total = 0
        for span in named.values():
            for step in span.steps:
                total += step
        begins = {span.number: span.begin * len(span.steps) for span in spans.both}
        return self.c(x) + self.span.begin + begins[2 if n == 1 else 4], total


class TakesPictures(nn.Module):
    """A list with an entry per sample, each with a fixed first dimension: as detectors take them."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)

    def forward(self, pictures: List[Tensor]) -> List[Tensor]:
        seen = [torch.relu(self.a(picture.unsqueeze(0))) for picture in pictures]
        return [self.b(one).mean(dim=[0, 2, 3]) for one in seen]


class TakesFeatures(nn.Module):
    """A list with an entry per feature, of any number, and a batch that a constant fixes."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, xs: List[Tensor]) -> Tensor:
        y = self.a(xs[0]).reshape(4, 4)
        for x in xs:
            y = y + x
        return self.b(y)


class HasAModuleOfConstants(nn.Module):
    """Traced: weights that are called as the tensors of the method's text are."""

    def __init__(self):
        super().__init__()
        self.constants = nn.ParameterList([torch.full((4,), 3.0), torch.full((4,), 5.0)])
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x) * self.constants[0] + torch.tensor([1.0, 2.0, 3.0, 4.0])
        return self.b(x) * self.constants[1] + torch.tensor([0.1, 0.2, 0.3, 0.4])


@torch.jit.script
class Seen:
    def __init__(self, sum: Tensor, steps: List[int]):
        self.sum, self.steps = sum, steps


class GrowsListsInContainers(nn.Module):
    """Lists of attributes grow where another list, a dict or a loop has handed them on, and under the name of another attribute."""

    kept: Dict[str, List[int]]
    known: List[Seen]

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.p, self.q, self.r, self.first, self.second, self.calls = [1], [1], [1], [1], [1, 2], 0
        self.kept = {"a": [1]}
        self.known = [Seen(torch.ones(4), [1])]

    def forward(self, x: Tensor) -> Tensor:
        n = len(self.p) + 2 * len(self.q) + 3 * len(self.r) + 5 * len(self.kept["a"]) + 7 * len(self.known[0].steps) + 11 * len(self.second)
        for steps in [self.p, self.q]:
            steps.append(n)
        named = {"q": self.q}
        named["q"].append(n)
        several: List[List[int]] = []
        several.append(self.r)
        several[0].append(n)
        self.kept["a"].append(n)
        self.known[0].steps.append(n)
        if self.calls == 0:
            self.first = self.second
        self.calls += 1
        self.first.append(n)
        return self.b(torch.relu(self.a(x * n)))


class GrowsListsBetweenModules(nn.Module):
    """What is taken out of a dict, of a tuple in a list, grows: a cut in between would send a copy of it. A cache as decoders have them."""

    kept: Dict[str, List[int]]
    known: List[Seen]
    keys: Dict[str, List[Tensor]]

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.kept = {"a": [1]}
        self.known = [Seen(torch.ones(4), [1])]
        self.keys = {"k": [torch.ones(4)]}

    def forward(self, x: Tensor) -> Tensor:
        kept, known, keys = self.kept["a"], self.known[0], self.keys["k"]
        x = self.a(x)
        kept.append(2)
        known.steps.append(2)
        keys.append(x.detach().mean(0))
        x = self.b(x) * (len(self.kept["a"]) + 3 * len(self.known[0].steps)) + torch.stack(self.keys["k"]).sum(0)
        return self.d(torch.relu(self.c(x)))


class WritesTensorsInContainers(nn.Module):
    """Tensors in a list of an attribute, and of objects in one, are written in place."""

    sums: List[Tensor]
    known: List[Seen]

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.sums = [torch.zeros(4), torch.ones(4)]
        self.known = [Seen(torch.ones(4), [1])]

    def forward(self, x: Tensor) -> Tensor:
        self.sums[0].add_(x.detach().mean(0))
        self.known[0].sum.add_(self.sums[0])
        x = self.a(x) + self.sums[0] + self.known[0].sum
        return self.b(torch.relu(x))


class KeepsTensorsInLists(nn.Module):
    """A cache per layer in a list, sums by name, and a queue: parts of their tensors are written in place, some in branches."""

    caches: List[Tensor]
    sums: Dict[str, List[Tensor]]
    queue: List[Tensor]

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.caches = [torch.zeros(8, 4) for _ in range(2)]
        self.sums = {"x": [torch.zeros(4), torch.ones(1)], "y": [torch.zeros(4), torch.ones(1)]}
        self.queue = [torch.zeros(4)]

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        n = x.size(0)
        self.caches[0][:n] += self.a(x)
        x = torch.relu(self.a(x)) + self.caches[0][:n]
        sums = self.sums["x" if bool(x.sum() > 0) else "y"]
        sums[0].mul_(0.5).add_(x.mean(0))
        sums[1].add_(1)
        x = torch.relu(self.b(x)) * sums[1]
        self.caches[1].t()[0].add_(x.sum())
        self.queue.append(x.mean(0))
        for kept in self.queue:
            kept.clamp_(max=0.25)
        if len(self.queue) > 2:
            self.queue.pop(0)
        return self.c(x) + self.caches[1][:n] + self.queue[0] + self.sums["x"][0]


class AsksObjectsForTheirClass(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        things: List[Any] = []
        things.append(Seen(x, [1, 2]))
        things.append(2)
        thing = things[0]
        n = 1
        if isinstance(thing, Seen):
            n = len(thing.steps)
        return self.b(self.a(x)) * n
