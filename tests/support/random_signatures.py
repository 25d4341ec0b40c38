"""Demands of a model's signature for random models (random_models.Writer): arguments of all kinds, results, methods, modes of modules."""
import torch

ROWS = 8


# --- Arguments -----------------------------------------------------------------------------------------------------------------------------
def listArgument(w):
    name = w.argument("many", "List[Tensor]", lambda: [w.example(), w.example(), w.example()])
    w.let("t", f"{w.pick()} + {name}[0]")
    yield
    w.let("t", w.rng.choice([f"{w.pick()} * {name}[1]", f"torch.stack({name}, 0).sum(0)", f"{name}[-1] - {w.pick()}"]))


def tupleArgument(w):
    if w.traced:
        name = w.argument("both", "Tuple[Tensor, Tensor]", lambda: (w.example(), w.example()))
    else:
        name = w.argument("both", "Tuple[Tensor, int]", lambda: (w.example(), 2))
    yield
    w.let("t", f"{w.pick()} + {name}[0] * {name}[1]")


def dictArgument(w):
    name = w.argument("named", "Dict[str, Tensor]", lambda: {"a": w.example(), "b": w.example()})
    w.let("t", f"{w.pick()} * {name}['b']")
    yield
    w.let("t", f"{w.pick()} + {name}['a']" + ("" if w.traced or w.rng.random() < 0.5 else f" * float(len({name}))"))


def wholeArgument(w):
    """One that is given whole to every micro-batch."""
    shape = w.rng.choice([(ROWS,), (ROWS, ROWS), (1, ROWS)])
    name = w.argument("table", "Tensor", lambda: torch.randn(shape))
    w.wholes.append(name)
    yield
    w.let("t", w.rng.choice([f"{w.pick()} + {name}", f"{w.pick()} * {name}"]) if shape != (ROWS, ROWS) else f"{w.pick()} @ {name}")


def turnedArgument(w):
    """One whose batch is its second dimension."""
    name = w.argument("turned", "Tensor", lambda: w.example().t().contiguous())
    w.turned.append(name)
    w.let("t", f"{w.pick()} + {name}.t()")
    yield
    w.let("t", w.rng.choice([f"{w.pick()} * {name}.sum(0).unsqueeze(1)", f"({name} + {w.pick()}.t()).t()"]))


def sequenceArgument(w):
    """One with another dimension that may vary; the model has a loop over it, an attention or a sum."""
    name = w.argument("steps", "Tensor", lambda: torch.randn(w.batch, 6, ROWS))
    choice = w.rng.randrange(3)
    if choice == 0 and not w.traced:
        state = w.let("t", f"{w.pick()} * 0.5")
        with w.block(f"for i in range({name}.size(1)):"):
            w.emit(f"{state} = torch.tanh({state} + {name}[:, i])")
    elif choice == 1:
        scores = w.fresh("s")
        w.emit(f"{scores} = torch.softmax(torch.matmul({name}, {w.pick()}.unsqueeze(2)), 1)")
        yield
        w.let("t", f"({name} * {scores}).sum(1)")
    else:
        w.let("t", f"{name}.cumsum(1)[:, -1] + {w.pick()}")
    yield
    w.let("t", f"{w.pick()} + {name}.mean(1)")


def keyword(w):
    """By name in the inputs: TorchScript does not save what is by name only."""
    name = w.keyword("share", "float", "0.5", lambda: 0.25)
    yield
    w.let("t", f"{w.pick()} * {name}")
    if w.rng.random() < 0.5:
        flag = w.keyword("deep", "bool", "False", lambda: True)
        w.let("t", f"torch.tanh({w.pick()}) if {flag} else {w.pick()} * 0.5")


def plainArgument(w):
    type_, value, use = w.rng.choice([("float", 0.5, "{a} * {m}"), ("bool", True, "({a} * 0.5 if {m} else {a})"), ("str", "tanh", "(torch.tanh({a}) if {m} == 'tanh' else {a})"),
                                      ("List[int]", [8, 2], "{a} + {m}[-1]")])
    name = w.argument("plain", type_, lambda: value)
    w.let("t", use.format(a=w.pick(), m=name))
    yield
    w.let("t", use.format(a=w.pick(), m=name))


# --- Results -------------------------------------------------------------------------------------------------------------------------------
def turnedResult(w):
    w.early.append(w.let("v", f"({w.pick()} * 0.75).t()"))
    yield


def maybeResult(w):
    """A result that may be None."""
    name = w.fresh("o")
    w.emit(f"{name}: Optional[Tensor] = None")
    with w.block(f"if {w.condition()}:"):
        w.emit(f"{name} = {w.pick()} * 0.5")
    w.maybe.append(name)
    yield


# --- Methods and modes -----------------------------------------------------------------------------------------------------------------------
def anotherMethod(w):
    w.method = w.rng.choice(["encode", "step"])
    yield


def modesOfModules(w):
    """Some modules train, others do not."""
    name = w.attributeName("norm")
    w.setup.append(f"self.{name} = nn.BatchNorm1d(8)")
    w.modes.append(f"{name}.{w.rng.choice(['train', 'train', 'train', 'eval'])}()")
    w.let("t", f"self.{name}({w.pick()})")
    for one, kind in w.modules:
        if w.rng.random() < 0.3 and not kind.startswith("torch.ao"):
            w.modes.append(f"{one}.eval()")
    yield


BOTH = [listArgument, tupleArgument, dictArgument, wholeArgument, turnedArgument, sequenceArgument, turnedResult, anotherMethod, modesOfModules]
SCRIPTED = [keyword, plainArgument, maybeResult]
