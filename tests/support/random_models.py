"""Random TorchScript models, scripted and traced: graphs of operators with skips, shared modules, writes in place, views, whole numbers and
control flow, and some demands of real models in each (random_demands.py). The same seed gives the same model.

    random_models.py SEED [DIRECTORY]     writes random_SEED.py (the model's source), random_SEED.pt and random_SEED.inputs.pt

In a generated model t is a float tensor of 8 per sample, u of 4, v a t turned round, n an int, b a bool tensor, l a list of t.
"""
import importlib.util
import random
import re
import sys
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import List

import torch

import random_demands
from model_inputs import BATCH, mapped
from random_parts import BINARY, HEADER, INPLACE, LINEAR, MODULES, RANDOM, UNARY

LIBRARY = Path(importlib.util.find_spec("torchvision").origin).with_name("_C.so")
torch.ops.load_library(LIBRARY)
ARGUMENTS = ("x", "y", "late")


@dataclass
class Model:
    seed: int
    source: Path
    path: Path
    inputs: Path
    random: bool  # has random operators: only pipec's own reference draws the same numbers
    markers: int  # places that the author marked
    calls: List[str]  # modules that are called outside of control flow, NAME#2 for a second call
    method: str  # which one to compile
    dims: List[str]  # --batch-dim, of pipe-compile and of pipe-run on the file
    wholes: List[str]  # arguments that every micro-batch gets whole: only an example tells
    library: List[str]  # --load-library, of every command

    def options(self):
        """What pipe-compile needs for it, and pipe-run on the file."""
        return self.given(self.dims)

    def optionsWithoutExample(self):
        dims = self.dims[1:] + [f"{name}=none" for name in self.wholes]
        return self.given(["--batch-dim", ",".join(dims)] if dims else [])

    def given(self, dims):
        return dims + self.library + (["--method", self.method] if self.method != "forward" else [])


@dataclass
class Writer:
    """Writes the source of one model, line by line; pools hold the names of the values that are in scope."""

    rng: random.Random
    traced: bool
    batch: int = BATCH
    fields: List[str] = field(default_factory=list)
    setup: List[str] = field(default_factory=list)
    lines: List[str] = field(default_factory=list)
    pools: dict = field(default_factory=lambda: {kind: [] for kind in "tunblv"})
    modules: List[tuple] = field(default_factory=list)
    unused: List[str] = field(default_factory=list)
    early: List[str] = field(default_factory=list)  # results of the model that are made early
    maybe: List[str] = field(default_factory=list)  # results that may be None
    arguments: List[tuple] = field(default_factory=list)  # besides ARGUMENTS: name, type, what makes an example
    keywords: List[tuple] = field(default_factory=list)  # after those with a default: name, type, default, what makes an example
    turned: List[str] = field(default_factory=list)  # arguments whose batch is the second dimension
    wholes: List[str] = field(default_factory=list)  # arguments without a batch
    modes: List[str] = field(default_factory=list)  # NAME.train() or NAME.eval() of single modules
    method: str = "forward"
    needsLibrary: bool = False
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
        self.made(kind, name)
        return name

    def made(self, kind, name):
        self.pools[kind].append(name)
        self.unused.append(name)

    def pick(self, kind="t"):
        """Mostly near values, sometimes one from far back: a skip. Often one that nothing has used, so that little is dead."""
        pool = self.pools[kind]
        waiting = [name for name in self.unused if name in pool]
        name = waiting[0] if waiting and self.rng.random() < 0.4 else self.rng.choice(pool[-3:] if self.rng.random() < 0.75 else pool)
        if name in self.unused:
            self.unused.remove(name)
        return name

    def own(self):
        """A value that may be written or viewed: no argument of the model."""
        name = self.pick()
        return self.let("t", f"{name} * 1.25") if name in ARGUMENTS else name

    def has(self, kind):
        return bool(self.pools[kind])

    def attributeName(self, base="p"):
        return self.fresh(base)

    def attribute(self, value):
        """A new attribute of the model, as `self.NAME`."""
        name = self.attributeName()
        self.setup.append(f"self.{name} = {value}")
        return f"self.{name}"

    def argument(self, base, type_, example):
        name = self.fresh(base)
        self.arguments.append((name, type_, example))
        return name

    def keyword(self, base, type_, default, example):
        name = self.fresh(base)
        self.keywords.append((name, type_, default, example))
        return name

    def example(self):
        return torch.randn(self.batch, 8)

    def linear(self):
        linears = [name for name, kind in self.modules if kind == LINEAR]
        return f"self.{self.rng.choice(linears)}" if linears else "F.relu"

    def condition(self):
        choices = [f"bool({self.pick()}.sum() > 0)", f"float({self.pick()}.mean()) < 0.1", f"bool({self.pick()}[0, 0] < 0)"]
        if self.rng.random() < 0.4:
            choices = ["self.training", f"{self.pick()}.size(0) > 3", "k > 1", "other is not None"]
        return self.rng.choice(choices)

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
    call, makes, _ = MODULES[kind]
    deep = w.rng.choice(["True", "False", "self.training", "k > 1"])
    text = call.format(m=f"self.{name}", x=w.pick(), y=w.pick(), deep=deep)
    w.random |= "Dropout" in kind
    if makes == "t":
        w.let("t", text)
        return
    first, second = w.fresh("t"), w.fresh("t")
    w.emit(f"{first}, {second} = {text}")
    w.made("t", first)
    w.made("t", second)


def tiedWeight(w):
    linears = [name for name, kind in w.modules if kind == LINEAR]
    weight = f"self.{w.rng.choice(linears)}.weight" if linears else "self.free"
    w.let("t", w.rng.choice([f"F.linear({w.pick()}, {weight})", f"{w.pick()} @ {weight}.t()", f"{w.pick()} @ self.free", f"{w.pick()} + {weight}[0]"]))


def unary(w):
    w.let("t", w.rng.choice(UNARY).format(a=w.pick()))


def binary(w):
    w.let("t", w.rng.choice(BINARY).format(a=w.pick(), b=w.pick()))


def inplace(w):
    target = w.own()
    if w.rng.random() < 0.65:  # often on a value without other uses so far
        target = w.let("t", f"{target} * 1.25")
    others = [name for name in w.pools["t"] if name != target]
    w.emit(w.rng.choice(INPLACE).format(a=target, b=w.rng.choice(others)))


def view(w):
    a = w.own()
    choice = w.rng.randrange(6)
    if choice == 0:
        w.let("u", f"{a}[:, {w.rng.choice(['0:4', '4:8', '2:6', '::2'])}]")
    elif choice == 1:
        w.let("t", f"{a}.view(-1, 2, 4).transpose(1, 2).reshape({a}.size(0), 8)")
    elif choice == 2:
        first, second = w.fresh("u"), w.fresh("u")
        w.emit(f"{first}, {second} = {a}.chunk(2, 1)")
        w.made("u", first)
        w.made("u", second)
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
    w.emit(f"{w.pools['u'][-1]}.{w.rng.choice(['mul_(1.5)', 'add_(0.25)', 'tanh_()'])}")


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


def branch(w):
    name = w.fresh("t")
    for head in (f"if {w.condition()}:", "else:"):
        with w.block(head):
            steps(w, w.rng.randrange(3), INNER)
            w.emit(f"{name} = {w.pick()} * {w.rng.choice(['0.5', '1.5'])}")
    w.made("t", name)


def loop(w):
    name = w.let("t", f"{w.pick()} * 0.5")
    i = w.fresh("i")
    trips = ["3", "2", "k", f"{w.pick()}.size(0)"] + ([f"min({w.pick('n')}, 4)"] if w.has("n") else [])
    gather = w.rng.random() < 0.3
    if gather:
        values = w.fresh("l")
        w.emit(f"{values}: List[Tensor] = [{name}]")
    with w.block(f"for {i} in range({w.rng.choice(trips)}):"):
        steps(w, w.rng.randrange(2), INNER)
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
    w.made("t", name)


def draw(w):
    w.random = True
    w.let("t", w.rng.choice(RANDOM).format(a=w.pick()))


def moduleList(w):
    name, m = w.let("t", f"{w.pick()} + 0.125"), w.fresh("m")
    with w.block(f"for {m} in self.stack:"):
        w.emit(f"{name} = {m}({name})")


TRACED = [(callModule, 10), (unary, 6), (binary, 6), (inplace, 4), (view, 4), (joinHalves, 3), (changeHalf, 0.7), (tiedWeight, 3), (usePredicate, 2),
          (lists, 1), (moduleList, 0.7), (draw, 0.15)]
SCRIPTED = TRACED + [(wholeNumber, 3), (useNumber, 3), (branch, 2), (loop, 1.5), (whileLoop, 0.4), (optional, 1), (lists, 2), (draw, 0.15)]
INNER = [(unary, 3), (binary, 3), (inplace, 3), (callModule, 2), (useNumber, 1), (tiedWeight, 1), (view, 1), (branch, 0.3)]


def steps(w, count, table):
    for _ in range(count):
        w.rng.choices([step for step, _ in table], [weight for _, weight in table])[0](w)


def mark(w):
    if w.canMark and w.rng.random() < 0.2:
        name = w.pick()
        w.emit(f"{name} = pipe_split({name})")
        w.markers += 1


def demands(w, length):
    """[(step before which it goes on, plant)]: what each plant writes after a yield stands a random part of the model later."""
    own = random_demands.TRACED if w.traced else random_demands.SCRIPTED
    chosen = w.rng.sample(random_demands.BOTH, w.rng.randrange(2, 5)) + w.rng.sample(own, w.rng.randrange(1, 4) if w.traced else w.rng.randrange(3, 7))
    return [[w.rng.randrange(0, max(1, length // 2)), plant(w)] for plant in dict.fromkeys(chosen)]


def body(w, length):
    """Steps, with the demands between them; those that are left over at the end go on there."""
    around = w.rng.randrange(3) if not w.traced and w.rng.random() < 0.13 else None
    if around is not None:
        length = min(length, 8)
    plants = demands(w, length)
    for at in range(length + 1):
        for entry in plants:
            while entry[0] <= at or at == length:
                if next(entry[1], entry) is entry:
                    entry[0] = length * 2
                    break
                entry[0] = at + w.rng.randrange(1, max(2, length // 2))
        if at == around:  # a loop that holds much of the model
            state = w.let("t", f"{w.pick()} * 0.5")
            with w.block(f"for {w.fresh('i')} in range({w.rng.choice(['2', '3', '3', 'k'])}):"):
                steps(w, w.rng.randrange(14, 24), INNER)
                w.emit(f"{state} = {state} + {w.pick()}")
        if at < length:
            steps(w, 1, TRACED if w.traced else SCRIPTED)
            mark(w)


# --- The result -----------------------------------------------------------------------------------------------------------------------------
def result(w):
    """(expression, its type)"""
    rest = [name for name in w.unused if name in w.pools["t"]]
    last = w.let("t", " + ".join(rest or [w.pools["t"][-1]]))
    parts = [last] + w.early + [w.pick() for _ in range(w.rng.randrange(1, 4))]
    if w.maybe:
        return f"({', '.join(parts + w.maybe)})", f"Tuple[{', '.join(['Tensor'] * len(parts) + ['Optional[Tensor]'] * len(w.maybe))}]"
    choice = w.rng.randrange(3 if w.early else 0, 8)
    if choice <= 2:
        return f"{last} + {parts[1]}", "Tensor"
    if choice == 3 and not w.traced:
        extra = w.pick("n") if w.has("n") else "k"
        return f"({', '.join(parts)}, {extra})", f"Tuple[{'Tensor, ' * len(parts)}int]"
    if choice <= 4:
        return f"[{', '.join(parts)}]", "List[Tensor]"
    if choice == 5:
        return "{" + ", ".join(f'"{chr(97 + i)}": {part}' for i, part in enumerate(parts)) + "}", "Dict[str, Tensor]"
    if choice == 6 or w.traced:
        return f"({last}, [{parts[1]}, {last} * 2], {{'x': {parts[-1]}}})", "Tuple[Tensor, List[Tensor], Dict[str, Tensor]]"
    half = w.pick("u") if w.has("u") else parts[1]
    return f"({last}, ({half}, bool({parts[1]}.sum() > 0)))", "Tuple[Tensor, Tuple[Tensor, bool]]"


def sourceOf(seed):
    rng = random.Random(seed)
    w = Writer(rng, traced=rng.random() < 0.35)
    for i in range(rng.randrange(2, 7)):
        kind = rng.choice([kind for kind, (_, _, traces) in MODULES.items() if traces or not w.traced] + [LINEAR] * 4)
        w.modules.append((f"m{i}", kind))
        w.setup.append(f"self.m{i} = {kind}")
    w.setup += ["self.free = nn.Parameter(torch.randn(8, 8) * 0.3)", "self.stack = nn.ModuleList([nn.Linear(8, 8), nn.Tanh(), Residual()])"]
    w.canMark = rng.random() < 0.3
    w.pools["t"] += ["x", "y"]
    body(w, rng.randrange(6, 26))
    expression, kind = result(w)
    w.emit(f"return {expression}")
    text = HEADER.format(seed=seed, fields="".join(f"    {line}\n" for line in w.fields))
    text += "".join(f"        {line}\n" for line in w.setup)
    if w.method != "forward":
        text += "\n    def forward(self, x: Tensor) -> Tensor:\n        return -x\n" + ("" if w.traced else "\n    @torch.jit.export")
    arguments = [f"{name}: Tensor" for name in ARGUMENTS] + [f"{name}: {type_}" for name, type_, _ in w.arguments]
    if not w.traced:
        arguments += ["other: Optional[Tensor] = None", "k: int = 2"] + [f"{name}: {type_} = {default}" for name, type_, default, _ in w.keywords]
    text += f"\n    def {w.method}(self, {', '.join(arguments)}) -> {kind}:\n"
    return text + "\n".join(w.lines) + "\n", w


def callsOf(w):
    """The calls of modules that stand outside of control flow, in program order, as --at names them."""
    seen, calls = {}, []
    modules = {line.split()[0] for line in w.setup if "(" in line and "nn.Parameter" not in line}
    for line in w.lines:
        for name in re.findall(r"self\.\w+(?=\()", line):
            seen[name] = seen.get(name, 0) + 1
            if name in modules and not line.startswith(" " * 9):
                calls.append(name[5:] + (f"#{seen[name]}" if seen[name] > 1 else ""))
    return calls


def write(seed, directory):
    """Makes the model of a seed. The generator's own mistakes (a model that PyTorch refuses) come out as PyTorch's exceptions."""
    text, w = sourceOf(seed)
    stem = directory / f"random_{seed}"
    source = stem.with_suffix(".py")
    source.write_text(text)
    spec = importlib.util.spec_from_file_location(stem.name, source)
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem.name] = module  # TorchScript reads the source of its classes
    spec.loader.exec_module(module)
    torch.manual_seed(seed)
    model = module.Model()
    model.train(w.rng.random() < 0.2)
    for mode in w.modes:
        eval("model." + mode)
    inputs = [torch.randn(BATCH, 8) for _ in ARGUMENTS] + [example() for _, _, example in w.arguments]
    if w.traced:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            example = tuple(mapped(value, torch.Tensor.clone) for value in inputs)
            traced = torch.jit.trace_module(model, {w.method: example}, check_trace=False, strict=False)
            torch.jit.save(traced, str(stem) + ".pt")
    else:
        torch.jit.save(torch.jit.script(model), str(stem) + ".pt")
        inputs += [torch.randn(BATCH, 8) if w.rng.random() < 0.4 else None, w.rng.randrange(4)]
    torch.save(given(w, inputs), str(stem) + ".inputs.pt")
    trains = any(one.training for one in model.modules())
    drawing = w.random or trains and "Multihead" in text
    dims, library = ["--batch-dim", ",".join(f"{name}=1" for name in w.turned)], ["--load-library", str(LIBRARY)]
    return Model(seed, source, Path(str(stem) + ".pt"), Path(str(stem) + ".inputs.pt"), drawing, w.markers, callsOf(w), w.method,
                 dims if w.turned else [], w.wholes, library if w.needsLibrary else [])


def given(w, inputs):
    """What the inputs file holds: a tuple, or a dict by name, where arguments with defaults may be left out."""
    if w.traced or not w.keywords and w.rng.random() < 0.8:
        return tuple(inputs)
    named = dict(zip(list(ARGUMENTS) + [name for name, _, _ in w.arguments] + ["other", "k"], inputs))
    named.update((name, example()) for name, _, _, example in w.keywords)
    left = w.rng.sample(["other", "k"] + [name for name, _, _, _ in w.keywords], w.rng.randrange(3))
    return {name: value for name, value in named.items() if name not in left}


if __name__ == "__main__":
    made = write(int(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "."))
    print(f"{made.path}: {made.source}, inputs {made.inputs}, {made.markers} markers")
