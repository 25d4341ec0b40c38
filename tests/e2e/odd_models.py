"""Small models for single tests; each is saved by the test that needs it."""
import warnings
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class OnlyStep(nn.Module):
    """No forward, but another method."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 8), nn.Linear(8, 4)

    @torch.jit.export
    def step(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)))


class SharedBlock(nn.Module):
    """A block that is called twice: two places, one weight."""

    def __init__(self):
        super().__init__()
        self.first, self.block, self.between, self.last = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.block(self.first(x)))
        return self.last(self.block(self.between(x)))


class Identities(nn.Module):
    """Modules of which nothing is left."""

    def __init__(self):
        super().__init__()
        self.a, self.nothing, self.b, self.after = nn.Linear(32, 32), nn.Identity(), nn.Linear(32, 32), nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.b(self.nothing(self.a(x))))


class FusedLayer(nn.Module):
    """In eval mode one operator computes all of `middle`, so the modules in it are gone."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(32, 32), nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(self.first(x)))


class WritesInALoop(nn.Module):
    """`middle` stands between a value and writes into its rows, as many as the data says."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        whole = self.first(x)
        y = self.middle(whole)
        for i in range(int(x.abs().sum()) % 3 + 1):
            whole[i % x.size(0)].add_(1.0)
        return self.last(whole * y)


class CallsInALoop(nn.Module):
    """Nearly all work is in a loop whose rounds the data counts."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for i in range(int(x.abs().sum()) % 3 + 20):
            x = self.middle(x.relu())
        return self.last(x).relu().neg().abs()


class TinyLoss(nn.Module):
    """A message takes longer than all of its operators."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[module for _ in range(4) for module in (nn.Linear(8, 8), nn.Tanh())])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).pow(2).mean().reshape(1)


class LeavesEarly(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        if bool(y.sum() > 0):
            return y.relu()
        for i in range(int(y.abs().sum()) % 3 + 1):
            if bool(y[0, i] > 0):
                return y - 1.0
        return self.two(y) + x


class ReturnsEarly(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([LeavesEarly() for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if bool(x.sum() > 0):
            x = self.middle(torch.relu(x))
        return self.last(x)


class LeavesBeforeMost(Branches):
    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if bool(x.sum() > 0):
            return x
        return self.last(self.middle(torch.relu(x)))


class BranchesOfModules(nn.Module):
    """Modules that are the first in their branch or loop."""

    def __init__(self):
        super().__init__()
        self.first, self.yes, self.no, self.round, self.last = (nn.Linear(32, 32) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if bool(x.sum() > 0):
            x = self.yes(x)
        else:
            x = self.no(x)
        for i in range(int(x.abs().sum()) % 3 + 1):
            x = self.round(x).tanh()
        return self.last(x)


class BranchesFirst(nn.Module):
    """Nothing is before the branch."""

    def __init__(self):
        super().__init__()
        self.yes, self.no, self.middle, self.last = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor, flag: bool) -> Tensor:
        if flag:
            x = self.yes(x)
        else:
            x = self.no(x)
        return self.last(self.middle(x).relu())


class WritesInPlace(nn.Module):
    """`middle` stands between a value and a write into a part of it: no stage can begin there, for what was written would not come back."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        whole = self.first(x)
        part = whole[:, :16]
        y = self.middle(whole)
        part.add_(y.sum())
        return self.last(whole * y)


class WritesIntoParts(nn.Module):
    """Every layer writes into parts of two values that live to the end; views of them, made first, show it. Stages begin between any two layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        total, y = torch.zeros_like(x), x.clone()
        flat, turned = y.view(-1), total.t()
        for i, layer in enumerate(self.layers):
            y[:, i::2] += layer(y)[:, i::2].relu_()
            flat.mul_(0.5)
            total[:, ::2] = y[:, 1::2]
            turned[i] = 0.25
            total.select(1, 3).masked_fill_(y[:, 0] > 0, -1.0)
            total.add_(y[0], alpha=0.1)
        y[:, 0].fill_(1.0)
        return total, flat.view(y.size(0), -1).sum(1), y.t_()


class NamedFeatures(nn.Module):
    """A dict by name and a list, filled, changed and looked through at places that are known: no cut has to keep them together."""

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.side = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor) -> Tuple[Tensor, Dict[str, Tensor]]:
        features: Dict[str, Tensor] = {}
        for i, layer in enumerate(self.body):
            x = torch.relu(layer(x))
            features["c" + str(i)] = x
        out: Dict[str, Tensor] = {}
        last = x
        kept: List[Tensor] = []
        values = list(features.values())
        for i, layer in enumerate(self.side):
            last = last + layer(values[i])
            out["s" + str(i)] = last
            kept.insert(0, last)
        for name, value in features.items():
            out[name] = value * 2
        out["s0"] = out["s0"] * 2
        kept[1] = x
        kept += [last]
        if "c3" in features and len(features) == 4:
            x = torch.cat(kept, 1)
        return x, out


class Counter(nn.Module):
    """A buffer that is read and written: all of it belongs to one stage, and later calls see it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 32)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        self.calls.add_(1)
        return self.last(x * self.calls)


class Point(NamedTuple):
    where: Tensor
    how_many: int


class Defaults(nn.Module):
    """Arguments of every kind that can have a default."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor, scale: float = 0.1, times: int = 3, tail: bool = True, word: str = "plus", more: Optional[Tensor] = None,
                pair: Tuple[int, float] = (1, 0.5), inner: Tuple[Tuple[int, int], str] = ((1, 2), "in")) -> Tensor:
        x = self.a(x) * scale * pair[1] + pair[0] + inner[0][1]
        if more is not None:
            x = x + more
        x = self.b(x) * times
        if tail:
            x = x + 1 if word == "plus" else x - 1
        return x


class ComplexAndDevice(nn.Module):
    """Defaults that no values file and no JSON has."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor, where: torch.device = torch.device("cpu"), turn: complex = 1 - 0.5j) -> Tensor:
        x = self.a(x) + torch.ones(16, device=where)
        return self.b(x).to(where) * turn


class Trees(nn.Module):
    """A result that is a tree: leaves from several stages, one of them twice, one that is no tensor."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor, pair: Tuple[Tensor, List[Tensor]]) -> Tuple[Dict[str, Tensor], List[Tensor], Point]:
        first = torch.relu(self.a(x + pair[0]))
        second = torch.tanh(self.b(first + pair[1][0]))
        third = self.c(second * pair[1][1])
        return {"third": third, "first": first}, [second, first], Point(third + 1, 7)


class ListsInsideATuple(nn.Module):
    """Lists and dicts that a tuple or each other hold, one of which nothing can split."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor], Tuple[Tensor, Dict[str, List[Tensor]]], List[int]]:
        first = self.a(x)
        second = self.b(first)
        return second, [first, x], (first, {"both": [second, first], "twice": [second, second]}), [1, 2]


class NewDtypes(nn.Module):
    """Tensors of dtypes that torch.save has another form for, between others; keys that are numbers."""

    def __init__(self):
        super().__init__()
        self.b = nn.Linear(8, 8)

    def forward(self, x: Tensor, counts: Tensor) -> Tuple[Tensor, List[Tensor], Dict[int, Tensor], Tensor, str]:
        y = self.b(x)
        more = counts + 1
        return (y, [y.to(torch.float8_e4m3fn), y.to(torch.float8_e5m2).t()], {3: more.to(torch.uint16), -1: more.to(torch.uint64)},
                counts.to(torch.uint32), "text")


class DrawsAreOff(nn.Module):
    """Between two dropouts that draw: some that are off, in branches too."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = functional.dropout(self.a(x), 0.5, True)
        if bool(x.sum() > 0):
            x = functional.dropout(x, 0.5, False) + 1
        else:
            x = functional.dropout(x, 0.0, True) * 2
        x = functional.dropout(self.b(x), 0.5, True)
        x = functional.dropout(self.c(x), 0.0, True)
        return self.d(functional.dropout(x, 0.5, True))


class DrawsBesideAFork(nn.Module):
    """Draws in a forked call and after it, and writes into a result that has no other use."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(16, 16) for _ in range(3))
        self.drop = nn.Dropout(0.5)

    def noisy(self, x: Tensor) -> Tensor:
        return functional.dropout(self.a(x), 0.5, True)

    def forward(self, x: Tensor) -> Tensor:
        future = torch.jit.fork(self.noisy, x)
        unused = self.drop(x)
        unused[:, 0] *= 2.0
        y = self.b(functional.dropout(x, 0.5, True))
        return self.c(torch.jit.wait(future) + functional.dropout(y, 0.5, True))


class DrawsInVain(nn.Module):
    """Calls that draw and whose results are unused, one of them beside a check: they still run, which changes later draws."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(16, 16) for _ in range(3))
        self.drop = nn.Dropout(0.5)

    def checked(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 1e9):
            raise RuntimeError("too large")
        return functional.dropout(x, 0.25, True)

    def forward(self, x: Tensor) -> Tensor:
        unused = self.drop(self.a(x)) * 2.0
        named = {"x": x}
        named["y"] = self.checked(x)
        y = self.b(self.drop(x))
        last = named["x"] + self.drop(y)
        return self.c(functional.dropout(y, 0.5, True))


class ReturnsOutOfALoop(nn.Module):
    """What the loop found, or nothing: only with the flag that says so."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(8, 8) for _ in range(3))

    def find(self, x: Tensor) -> Tensor:
        for i in range(3):
            x = x * 2 + i
            if bool(x.sum() > 60.0):
                return self.a(x)
        return -x

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.find(x))
        if x.size(1) < 64:
            z = self.b(y)
        else:
            raise RuntimeError("too wide")
        return self.c(z + y)


class Head(nn.Module):
    """Holds another module's weight under a name of its own."""

    def __init__(self, weight: nn.Parameter):
        super().__init__()
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight)


class PartOfAWeight(nn.Module):
    """A weight with two names, and another that is its first half: read in the stage of the second, and of the first."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.LayerNorm(6)
        self.again.weight = self.first.weight
        self.part = nn.Parameter(self.first.weight.detach()[:3])

    def forward(self, x):
        x = self.again(torch.relu(self.first(x)))
        return nn.functional.linear(self.last(x), self.part)


class TiedHead(nn.Module):
    """One tensor with two names, both used: by an embedding and by an output head."""

    def __init__(self):
        super().__init__()
        self.embedding, self.middle = nn.Embedding(40, 16), nn.Linear(16, 16)
        self.head = Head(self.embedding.weight)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.middle(self.embedding(ids))))


class SqueezeDecides(nn.Module):
    """A branch on the rank of what squeeze() leaves: another one for a batch of one sample."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        if h.squeeze().dim() == 1:
            h = h * 100
        return self.b(h)


class DataDecides(nn.Module):
    """A branch on the rank of what a mask leaves: it differs from sample to sample."""

    def __init__(self):
        super().__init__()
        self.b = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(x)
        if h[h[:, 0] > 0].squeeze().dim() == 1:
            h = h * 100
        return self.b(h)


class Mixed(nn.Module):
    """What behaves otherwise in training."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.drop, self.b = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.drop(self.norm(self.a(x))))


class Warns(nn.Module):
    """LibTorch numbers warnings anew whenever it reads a file."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        if bool(x.sum() > 0):
            warnings.warn("the sum is positive")
        warnings.warn("between the layers")
        return self.b(x)


class HeldByAList(nn.Module):
    """What one round of a loop leaves in a list, the next one reads after a write."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, rounds: int) -> Tensor:
        h = self.a(x)
        held = [h]
        total = torch.zeros_like(h)
        for _ in range(rounds):
            total = total + held[0]
            y = held[-1] * 0.5
            held.append(y)
            y.relu_()
            h.tanh_()
        return self.b(total + held[-1])


class SizeAfterOut(nn.Module):
    """An out= call gives its tensor another size and rank: what was read before does not hold after."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        y = torch.empty([1])
        before = y.size(0) + y.numel()
        torch.mul(x, 2.0, out=y)
        after = y.size(0) + y.numel()
        if y.dim() == 1:
            y = y * 100
        return self.b(y * before + after)


class SilentAliases(nn.Module):
    """Operators that return their very input where there is nothing to do, and a write into what they return."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        g = torch.conj_physical(h)
        g.mul_(2.0)
        h = h + 1.0
        f = torch._cast_Float(h)
        f.add_(3.0)
        return self.b(h + g)


class BoolDecidesDtype(nn.Module):
    """An argument says which dtype a tensor has."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, wide: bool) -> Tensor:
        h = self.a(x)
        h = h.to(torch.float64 if wide else torch.float32)
        if h.dtype == torch.float64:
            h = h * 100
        return self.b(h.to(torch.float32))


class ElementDecidesRank(nn.Module):
    """The elements of a list have ranks of their own."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, more: List[Tensor]) -> Tensor:
        h = self.a(x)
        if more[0].dim() == 2:
            h = h * 100
        return self.b(h + more[0].sum())


class DtypeThroughADict(nn.Module):
    """What a dict holds, and a write by a tensor of another dtype."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, named: Dict[str, Tensor], twice: bool) -> Tensor:
        h = self.a(x)
        more = named["more"]
        if twice:
            more = more.double()
        h.add_(more)
        if more.dtype == torch.float64:
            h = h * 100
        return self.b(h)


class UnsqueezedWhenAsked(nn.Module):
    """A branch gives a tensor another rank in place."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, deeper: bool) -> Tensor:
        h = self.a(x)
        if deeper:
            h.unsqueeze_(0)
        if h.dim() == 3:
            h = h[0] * 100
        return self.b(h)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rnn, self.last = nn.Linear(32, 32), nn.LSTM(32, 32, batch_first=True), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.rnn(self.first(x))[0])


class BakedView(nn.Module):
    """Traced: a number of Python in place of the batch."""
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        samples = len(x)
        return self.b(self.a(x).view(samples, 2, 4).transpose(1, 2).reshape(samples, 8))


class BakedZeros(BakedView):
    def forward(self, x):
        return self.b(self.a(x) + torch.zeros(len(x), 8))


class BakedFlat(BakedView):
    """With another batch only the product of matrices fails, which says shapes as 4x4."""

    def forward(self, x):
        return self.b(self.a(x).view(int(x.size(0)), 4, -1).flatten(1))


class BakedState(nn.Module):
    """LibTorch's LSTM does not look whether its state is for as many samples."""

    def __init__(self):
        super().__init__()
        self.a, self.rnn, self.b = nn.Linear(8, 8), nn.LSTM(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        state = torch.zeros(1, len(x), 8)
        return self.b(self.rnn(self.a(x).unsqueeze(0), (state, state))[0].squeeze(0))


class WantsThree(nn.Module):
    """Refuses batches by itself, deep inside."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def check(self, x: Tensor) -> None:
        if x.size(0) != 3:
            raise ValueError("expected three samples, got " + str(x.size(0)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        self.check(x)
        return self.b(x)


class WithState(nn.Module):
    """A recurrent layer whose state has its samples along dimension 1."""

    def __init__(self):
        super().__init__()
        self.rnn, self.b = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 8)

    def forward(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        y, state = self.rnn(x, state)
        return self.b(y), state


class WithTwoStates(WithState):
    """The state as two arguments."""

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.rnn(x, (h, c))
        return self.b(y), h, c


class StepsFirst(nn.Module):
    """Steps, then samples; a state of two layers, and a mask with the samples first."""

    def __init__(self):
        super().__init__()
        self.rnn, self.b = nn.GRU(8, 8, 2), nn.Linear(8, 8)

    def forward(self, x: Tensor, h: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
        y, h = self.rnn(x, h)
        return self.b(y * mask.t().unsqueeze(-1)), h


class SamplesByRows(nn.Module):
    """A matrix whose rows are no samples, though there may be as many."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        return self.a(x) @ w.t()


class WaysByArguments(nn.Module):
    """Layers that are chosen by a flag, a mode and a number, by whether a mask is given, and by data."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.ways = nn.ModuleList(nn.Linear(8, 8) for _ in range(5))

    def forward(self, x: Tensor, flag: bool, mode: Optional[str] = None, k: int = 2, mask: Optional[Tensor] = None) -> Tensor:
        x = self.a(x)
        if flag:
            x = self.ways[0](x)
        else:
            x = x.relu()
        if mode is not None and mode == "wide" or k > 3:
            x = self.ways[1](x).relu()
        for _ in range(k):
            x = self.ways[2](x)
        if mask is not None:
            x = self.ways[3](x) * mask
        if k > 1 and bool(x.sum() > 0):
            x = self.ways[4](x)
        return self.b(x)


class WayByGrownList(nn.Module):
    """A list of numbers is an argument, but data that it takes in decide."""

    def __init__(self):
        super().__init__()
        self.a, self.way, self.b = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, seen: List[int]) -> Tensor:
        x = self.a(x)
        seen.append(int(x.sum() > 0))
        if seen[-1] == 1:
            x = self.way(x)
        return self.b(x)


class RowsPerSample(nn.Module):
    """Two rows of `y` per sample of `x`."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(4, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.b(self.a(x).relu() + self.c(y).view(-1, 2, 8).sum(1))


class TableAndSamples(nn.Module):
    """The table may have as many rows as there are samples."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(4, 4)

    def forward(self, table: Tensor, x: Tensor) -> Tensor:
        return self.b(self.a(x) @ table.t())


class Talks(nn.Module):
    """Prints while it runs."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        print("half way", x.size(0))
        return self.b(x)


class Forks(nn.Module):
    """Futures in a list, in a dict, in an optional, made in a loop whose length is not known, and by what is forked itself."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def inner(self, x: Tensor) -> Tensor:
        return torch.jit.wait(torch.jit.fork(self.a, x)) + 1

    def forward(self, x: Tensor, more: bool = True) -> Tensor:
        last: Optional[torch.jit.Future[Tensor]] = None
        if more:
            last = torch.jit.fork(self.inner, x)
        pairs: List[Tuple[int, torch.jit.Future[Tensor]]] = []
        named: Dict[str, torch.jit.Future[Tensor]] = {}
        for i in range(x.size(0)):
            named[str(i)] = torch.jit.fork(self.inner, x)
            pairs.append((i, torch.jit.fork(self.a, x)))
        y = x
        for name in named:
            y = y + torch.jit.wait(named[name])
        for i, future in pairs:
            y = y + torch.jit.wait(future) * i
        if last is not None:
            y = y + torch.jit.wait(last)
        return self.b(y)


class ReturnsADevice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Dict[str, Tuple[Tensor, torch.device]]:
        x = self.b(self.a(x))
        return {"out": (x, x.device)}


class ReturnsAFuture(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor):
        return self.a(x), torch.jit.fork(self.b, x)


class DropsTwice(nn.Module):
    """One module under two names: scripted before, as scripting the whole would make two of it."""

    def __init__(self):
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(8, 8), torch.jit.script(nn.Dropout(0.5)), nn.Linear(8, 8)
        self.again = self.drop

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.b(self.drop(self.a(x))))


class WholeNumber(nn.Module):
    """Gives back the numbers that it is given."""
    def forward(self, x: torch.Tensor, number: int, more: List[int]):
        return x + 0.0, torch.full([], number, dtype=torch.int64), more


class TwoWays(nn.Module):
    """Branches on its own flag as a whole: both ways have their layers, sizes and a list, and one keeps a skip that the other has not."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 32)
        self.ways = nn.ModuleList([nn.Linear(32, 32) for _ in range(4)])
        self.others = nn.ModuleList([nn.Linear(32, 32) for _ in range(8)])

    def forward(self, x, fast: bool):
        x = self.first(x)
        if fast:
            kept = x.relu()
            rows = x.size(0)
            for way in self.ways:
                x = way(x).relu()
            x = x + kept.view(rows, 32)
        else:
            for other in self.others:
                x = other(x).tanh() * 0.5
        return self.last(x)


class Weighted(nn.Module):
    """A weight per sample."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, weight):
        return self.b(torch.relu(self.a(x)) * weight)


class EvenBatches(nn.Module):
    """Takes pairs of samples."""
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        pairs = self.a(x).view(x.size(0) // 2, 2, 8)
        return self.b((pairs - pairs.mean(1, keepdim=True)).view(x.size(0), 8))
