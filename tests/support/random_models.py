"""Random TorchScript models: graphs of operators with skips, shared modules, tied weights, writes in place, views, whole numbers, control
flow, state and random operators. The same seed gives the same model.

    random_models.py SEED [DIRECTORY]     writes random_SEED.py (the model's source), random_SEED.pt and random_SEED.inputs.pt

In a generated model t is a float tensor of 8 per sample, u of 4, n an int, b a bool tensor, l a list of t.
"""
import importlib.util
import random
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import List

import torch

BATCH = 4

HEADER = '''# Seed {seed} of random_models.py.
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        a, b = self.fc(x).chunk(2, 1)
        return a * torch.sigmoid(b), b


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


class Model(nn.Module):
    def __init__(self):
        super().__init__()
'''

# Class, its call with {m} for the module and {x} for a t, and what the call makes.
MODULES = {
    "nn.Linear(8, 8)": ("{m}({x})", "t"),
    "nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8))": ("{m}({x})", "t"),
    "Residual()": ("{m}({x})", "t"),
    "EarlyReturn()": ("{m}({x}, {deep})", "t"),
    "Gate()": ("{m}({x})", "tt"),
    "Counter()": ("{m}({x})", "t"),
    "Smooth()": ("{m}({x})", "t"),
    "nn.BatchNorm1d(8)": ("{m}({x})", "t"),
    "nn.Dropout(0.3)": ("{m}({x})", "t"),
    "nn.GRU(4, 4, batch_first=True)": ("{m}({x}.reshape(-1, 2, 4))[0].reshape(-1, 8)", "t"),
    "nn.LSTM(8, 8, batch_first=True)": ("{m}({x}.unsqueeze(1))[0].squeeze(1)", "t"),
    "nn.MultiheadAttention(8, 2, batch_first=True)": ("{m}({x}.unsqueeze(1), {y}.unsqueeze(1), {y}.unsqueeze(1))[0].squeeze(1)", "t"),
    "nn.Embedding(10, 8)": ("{m}(({x}.abs()[:, 0] * 3).long().clamp(0, 9))", "t"),
}

UNARY = ["torch.tanh({a})", "torch.relu({a})", "torch.sigmoid({a})", "F.gelu({a})", "-{a}", "{a}.abs()", "F.softmax({a}, 1)", "{a}.cumsum(1) * 0.5",
         "{a}.flip(1)", "{a}.roll(1, 1)", "{a}.sort(1)[0]", "({a}.double() * 1.5).float()", "{a}.t().contiguous().t()", "{a}.detach().clone()",
         "torch.where({a} > 0, {a}, {a} * 0.1)", "{a}.masked_fill({a} < -1, -1.0)", "F.layer_norm({a}, [8])", "{a}.round() * 0.5", "{a} / 3"]
BINARY = ["{a} + {b}", "{a} - {b}", "{a} * {b}", "torch.minimum({a}, {b})", "torch.where({a} > {b}, {a}, {b} * 0.5)", "torch.add({a}, {b}, alpha=2)",
          "torch.stack([{a}, {b}], 0).sum(0)", "torch.lerp({a}, {b}, 0.3)", "{a} + {b}.mean(1, keepdim=True)", "{a} / ({b}.abs() + 1.0)"]
INPLACE = ["{a}.relu_()", "{a}.add_({b})", "{a}.add_({b}, alpha=0.5)", "{a}.mul_(0.75)", "{a}[:, 0:4] = {b}[:, 4:8]", "{a}[:, 1:3].mul_(2.0)",
           "{a}[0] = {b}[0]", "{a}.copy_({b} * 0.5)", "{a}.clamp_(-2.0, 2.0)", "{a}.t()[2].fill_(0.25)", "{a} += {b}", "{a}.sub_({b}.detach())",
           "{a}.masked_fill_({a} > 1, 1.0)", "{a}.view(-1)[0:2] = 0.5"]
RANDOM = ["F.dropout({a}, 0.4, self.training)", "{a} + torch.rand_like({a})", "{a} * torch.bernoulli(torch.full_like({a}, 0.5))", "F.dropout({a}, 0.1, True)"]


@dataclass
class Model:
    seed: int
    source: Path
    path: Path
    inputs: Path
    random: bool  # has random operators: only pipec's own reference draws the same numbers
    markers: int  # places that the author marked


@dataclass
class Writer:
    """Writes the source of one model, line by line; pools hold the names of the values that are in scope."""

    rng: random.Random
    setup: List[str] = field(default_factory=list)
    lines: List[str] = field(default_factory=list)
    pools: dict = field(default_factory=lambda: {kind: [] for kind in "tunbl"})
    modules: List[tuple] = field(default_factory=list)
    depth: int = 2
    names: int = 0
    random: bool = False
    markers: int = 0
    canMark: bool = False

    def emit(self, line):
        self.lines.append("    " * self.depth + line)

    def fresh(self, kind):
        self.names += 1
        return f"{kind}{self.names}"

    def let(self, kind, expression):
        name = self.fresh(kind)
        self.emit(f"{name} = {expression}")
        self.pools[kind].append(name)
        return name

    def pick(self, kind="t"):
        """Mostly near values, sometimes one from far back: a skip."""
        pool = self.pools[kind]
        return self.rng.choice(pool[-3:] if self.rng.random() < 0.65 else pool)

    def has(self, kind):
        return bool(self.pools[kind])

    @contextmanager
    def block(self, head):
        """Values made inside are not seen outside."""
        saved = {kind: list(pool) for kind, pool in self.pools.items()}
        self.emit(head)
        self.depth += 1
        yield
        self.depth -= 1
        self.pools = saved


# --- Steps: each writes one operator or a few -------------------------------------------------------------------------------------------
def callModule(w):
    name, kind = w.rng.choice(w.modules)  # the same one again: a shared module
    call, makes = MODULES[kind]
    text = call.format(m=f"self.{name}", x=w.pick(), y=w.pick(), deep=w.rng.choice(["True", "False", "self.training", "k > 1"]))
    w.random |= "Dropout" in kind
    if makes == "t":
        w.let("t", text)
        return
    first, second = w.fresh("t"), w.fresh("t")
    w.emit(f"{first}, {second} = {text}")
    w.pools["t"] += [first, second]


def tiedWeight(w):
    linears = [name for name, kind in w.modules if kind == "nn.Linear(8, 8)"]
    weight = f"self.{w.rng.choice(linears)}.weight" if linears else "self.free"
    w.let("t", w.rng.choice([f"F.linear({w.pick()}, {weight})", f"{w.pick()} @ {weight}.t()", f"{w.pick()} @ self.free", f"{w.pick()} + {weight}[0]"]))


def unary(w):
    w.let("t", w.rng.choice(UNARY).format(a=w.pick()))


def binary(w):
    w.let("t", w.rng.choice(BINARY).format(a=w.pick(), b=w.pick()))


def inplace(w):
    target = w.pick()
    if w.rng.random() < 0.5:  # often on a value that nobody else sees yet
        target = w.let("t", f"{target} * 1.25")
    others = [name for name in w.pools["t"] if name != target]
    w.emit(w.rng.choice(INPLACE).format(a=target, b=w.rng.choice(others)))


def view(w):
    a = w.pick()
    choice = w.rng.randrange(6)
    if choice == 0:
        w.let("u", f"{a}[:, {w.rng.choice(['0:4', '4:8', '2:6', '::2'])}]")
    elif choice == 1:
        w.let("t", f"{a}.view(-1, 2, 4).transpose(1, 2).reshape({a}.size(0), 8)")
    elif choice == 2:
        first, second = w.fresh("u"), w.fresh("u")
        w.emit(f"{first}, {second} = {a}.chunk(2, 1)")
        w.pools["u"] += [first, second]
    elif choice == 3:
        w.let("t", f"{a}.view({a}.size(0), -1)")  # the same memory under another name
    elif choice == 4:
        w.let("u", f"{a}.view(-1, 4, 2).select(2, {w.rng.randrange(2)})")
    else:
        w.let("u", f"torch.topk({a}, 4, 1)[0]")


def joinHalves(w):
    if not w.has("u"):
        return view(w)
    w.let("t", f"torch.cat([{w.pick('u')}, {w.pick('u')}], 1)")


def changeHalf(w):
    if not w.has("u"):
        return view(w)
    w.emit(f"{w.pick('u')}.{w.rng.choice(['mul_(1.5)', 'add_(0.25)', 'tanh_()'])}")


def wholeNumber(w):
    sources = [f"{w.pick()}.size({w.rng.randrange(2)})", f"{w.pick()}.shape[0]", f"{w.pick()}.numel() // 8", "k"]
    if w.has("n"):
        sources += [f"{w.pick('n')} {w.rng.choice(['+', '*', '-'])} {w.rng.randrange(1, 4)}", f"{w.pick('n')} // 2 + k", f"max({w.pick('n')}, 2)"]
    w.let("n", w.rng.choice(sources))


def useNumber(w):
    if not w.has("n"):
        return wholeNumber(w)
    n, a = w.pick("n"), w.pick()
    w.let("t", w.rng.choice([f"{a} * float({n})", f"{a} + {n}", f"torch.zeros([{a}.size(0), 8]) + {a} * {n}", f"{a} * torch.full([8], 0.5 + {n})",
                             f"{a} if {n} > 3 else {a} * 2.0", f"{a}.roll({n}, 1)"]))


def predicate(w):
    w.let("b", w.rng.choice([f"{w.pick()} > {w.pick()}", f"{w.pick()} < 0.25"]))


def usePredicate(w):
    if not w.has("b"):
        return predicate(w)
    w.let("t", f"torch.where({w.pick('b')}, {w.pick()}, {w.pick()})")


def lists(w):
    if not w.has("l") or w.rng.random() < 0.4:
        name = w.fresh("l")
        w.emit(f"{name} = [{w.pick()}, {w.pick()}]")
        w.pools["l"].append(name)
        return
    values = w.pick("l")
    if w.rng.random() < 0.4:
        w.emit(f"{values}.append({w.pick()})")
    else:
        w.let("t", w.rng.choice([f"torch.stack({values}, 0).sum(0)", f"{values}[0] + {values}[-1]", f"torch.cat({values}, 1)[:, 0:8] * float(len({values}))"]))


def condition(w):
    choices = [f"bool({w.pick()}.sum() > 0)", f"float({w.pick()}.mean()) < 0.1", "self.training", f"{w.pick()}.size(0) > 3", "k > 1", "other is not None"]
    return w.rng.choice(choices)


def branch(w):
    name = w.fresh("t")
    for head in (f"if {condition(w)}:", "else:"):
        with w.block(head):
            steps(w, w.rng.randrange(3), nested=True)
            w.emit(f"{name} = {w.pick()} * {w.rng.choice(['0.5', '1.5'])}")
    w.pools["t"].append(name)


def loop(w):
    name = w.let("t", f"{w.pick()} * 0.5")
    i = w.fresh("i")
    trips = ["3", "2", "k", f"{w.pick()}.size(0)"] + ([f"min({w.pick('n')}, 4)"] if w.has("n") else [])
    gather = w.rng.random() < 0.3
    if gather:
        values = w.fresh("l")
        w.emit(f"{values}: List[Tensor] = [{name}]")
    with w.block(f"for {i} in range({w.rng.choice(trips)}):"):
        steps(w, w.rng.randrange(2), nested=True)
        w.emit(w.rng.choice([f"{name} = {name} * 0.5 + {w.pick()}", f"{name}.mul_(0.5)", f"{name} = torch.tanh({name} + {i})"]))
        if gather:
            w.emit(f"{values}.append({name})")
    if gather:
        w.pools["l"].append(values)


def whileLoop(w):
    name, i = w.let("t", f"{w.pick()} + 0.5"), w.fresh("i")
    w.emit(f"{i} = 0")
    with w.block(f"while {i} < 4 and bool({name}.abs().sum() < 40):"):
        w.emit(f"{name} = {name} * 1.5")
        w.emit(f"{i} += 1")


def optional(w):
    a = w.pick()
    name = w.fresh("t")
    w.emit(f"{name} = {a} if other is None else {a} + other")
    w.pools["t"].append(name)


def raising(w):
    if w.rng.random() < 0.5:
        w.emit(f"assert {w.pick()}.size(0) < 1000, \"too many\"")
        return
    with w.block(f"if {w.pick()}.size(1) > 64:"):
        w.emit('raise RuntimeError("too wide")')


def ownState(w):
    w.emit(w.rng.choice(["self.count += 1", f"self.trace.mul_(0.5).add_({w.pick()}.sum())", f"self.trace[0] = {w.pick()}.mean()"]))
    w.let("t", w.rng.choice([f"{w.pick()} + self.trace.sum()", f"{w.pick()} * float(self.count)"]))


def draw(w):
    w.random = True
    w.let("t", w.rng.choice(RANDOM).format(a=w.pick()))


def moduleList(w):
    name, m = w.let("t", f"{w.pick()} + 0.125"), w.fresh("m")
    with w.block(f"for {m} in self.stack:"):
        w.emit(f"{name} = {m}({name})")


STEPS = [(callModule, 10), (unary, 6), (binary, 6), (inplace, 6), (view, 4), (joinHalves, 3), (changeHalf, 2), (tiedWeight, 3), (wholeNumber, 3),
         (useNumber, 3), (predicate, 1), (usePredicate, 2), (lists, 3), (branch, 2), (loop, 1.5), (whileLoop, 0.4), (optional, 1), (raising, 0.7),
         (ownState, 0.7), (draw, 0.5), (moduleList, 0.7)]
INNER = [(unary, 3), (binary, 3), (inplace, 3), (callModule, 2), (useNumber, 1), (tiedWeight, 1), (view, 1), (branch, 0.3)]


def steps(w, count, nested=False):
    table = INNER if nested else STEPS
    for _ in range(count):
        w.rng.choices([step for step, _ in table], [weight for _, weight in table])[0](w)
        if not nested and w.canMark and w.rng.random() < 0.15:
            name = w.pick()
            w.emit(f"{name} = pipe_split({name})")
            w.markers += 1


# --- The result -----------------------------------------------------------------------------------------------------------------------------
def result(w):
    """(expression, its type)"""
    last = w.pools["t"][-1]
    parts = [last] + [w.pick() for _ in range(w.rng.randrange(1, 4))]
    choice = w.rng.randrange(8)
    if choice <= 2:
        return f"{last} + {parts[1]}", "Tensor"
    if choice == 3:
        extra = w.pick("n") if w.has("n") else "k"
        return f"({', '.join(parts)}, {extra})", f"Tuple[{'Tensor, ' * len(parts)}int]"
    if choice == 4:
        return f"[{', '.join(parts)}]", "List[Tensor]"
    if choice == 5:
        return "{" + ", ".join(f'"{chr(97 + i)}": {part}' for i, part in enumerate(parts)) + "}", "Dict[str, Tensor]"
    if choice == 6:
        return f"({last}, [{parts[1]}, {last} * 2], {{'x': {parts[-1]}}})", "Tuple[Tensor, List[Tensor], Dict[str, Tensor]]"
    half = w.pick("u") if w.has("u") else parts[1]
    return f"({last}, ({half}, bool({last}.sum() > 0)))", "Tuple[Tensor, Tuple[Tensor, bool]]"


def sourceOf(seed):
    w = Writer(random.Random(seed))
    for i in range(w.rng.randrange(2, 7)):
        kind = w.rng.choice(list(MODULES) + ["nn.Linear(8, 8)"] * 4)
        w.modules.append((f"m{i}", kind))
        w.setup.append(f"self.m{i} = {kind}")
    linears = [name for name, kind in w.modules if kind == "nn.Linear(8, 8)"]
    if len(linears) > 1 and w.rng.random() < 0.5:
        w.setup.append(f"self.{linears[-1]}.weight = self.{linears[0]}.weight")
    w.setup += ["self.free = nn.Parameter(torch.randn(8, 8) * 0.3)", 'self.register_buffer("trace", torch.zeros(3))', "self.count = 0",
                "self.stack = nn.ModuleList([nn.Linear(8, 8), nn.Tanh(), Residual()])"]
    w.canMark = w.rng.random() < 0.4
    w.pools["t"] += ["x", "y"]
    steps(w, w.rng.randrange(6, 30))
    expression, kind = result(w)
    w.emit(f"return {expression}")
    text = HEADER.format(seed=seed) + "".join(f"        {line}\n" for line in w.setup)
    text += f"\n    def forward(self, x: Tensor, y: Tensor, other: Optional[Tensor] = None, k: int = 2) -> {kind}:\n"
    return text + "\n".join(w.lines) + "\n", w


def write(seed, directory):
    """Makes the model of a seed. The generator's own mistakes (a model that PyTorch refuses) come out as PyTorch's exceptions."""
    text, w = sourceOf(seed)
    stem = directory / f"random_{seed}"
    source = stem.with_suffix(".py")
    source.write_text(text)
    spec = importlib.util.spec_from_file_location(stem.name, source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(seed)
    model = module.Model()
    model.train(w.rng.random() < 0.3)
    torch.jit.save(torch.jit.script(model), str(stem) + ".pt")
    inputs = [torch.randn(BATCH, 8), torch.randn(BATCH, 8), torch.randn(BATCH, 8) if w.rng.random() < 0.4 else None, w.rng.randrange(4)]
    torch.save(tuple(inputs), str(stem) + ".inputs.pt")
    return Model(seed, source, Path(str(stem) + ".pt"), Path(str(stem) + ".inputs.pt"), w.random or model.training, w.markers)


if __name__ == "__main__":
    made = write(int(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "."))
    print(f"{made.path}: {made.source}, inputs {made.inputs}, {made.markers} markers")
