"""What real models demand of a splitter and random operators seldom do: each function plants one demand in a model that is being written
(random_models.Writer). What stands after a `yield` is written some steps later, so that what was made before it crosses that part of the model.
"""
import random_signatures
import random_values
from random_parts import LINEAR


# --- Values other than tensors that live over a part of the model -------------------------------------------------------------------------
def dictCrosses(w):
    d = w.fresh("d")
    if w.rng.random() < 0.5:
        w.emit(f'{d} = {{"a": {w.pick()}, "b": {w.pick()}}}')
    else:
        w.emit(f"{d}: Dict[str, Tensor] = {{}}")
        w.emit(f'{d}["a"] = {w.pick()}')
    yield
    w.emit(f'{d}["c"] = {w.pick()}')
    w.let("t", w.rng.choice([f'{d}["a"] + {d}["c"]', f'{d}["a"] * float(len({d}))']))


def stringCrosses(w):
    s = w.fresh("s")
    w.emit(f'{s} = "tanh" if {w.condition()} else "relu"')
    yield
    a = w.pick()
    w.let("t", w.rng.choice([f'torch.tanh({a}) if {s} == "tanh" else torch.relu({a})', f"{a} + len({s})"]))


def futureCrosses(w):
    a, f = w.pick(), w.fresh("f")
    called = w.linear()
    w.emit(f"{f} = torch.jit.fork({called}, {a} * 1.0)")  # a copy, which is not written meanwhile
    yield
    w.let("t", f"torch.jit.wait({f}) + {w.pick()}")


def futuresInList(w):
    a, f = w.pick(), w.fresh("f")
    first, second = w.linear(), w.linear()
    w.emit(f"{f} = [torch.jit.fork({first}, {a} * 1.0), torch.jit.fork({second}, {w.pick()} * 1.0)]")
    yield
    w.let("t", f"torch.stack([torch.jit.wait(one) for one in {f}], 0).sum(0)")


def objectCrosses(w):
    o = w.fresh("o")
    w.emit(f"{o} = Box({w.pick()}, {w.rng.choice(['2', 'k'])})")
    yield
    w.let("t", f"{w.pick()} + {o}.total()")


def optionalCrosses(w):
    o = w.fresh("o")
    if w.rng.random() < 0.5:
        w.emit(f"{o}: Optional[Tensor] = None")
        with w.block(f"if {w.condition()}:"):
            w.emit(f"{o} = {w.pick()} * 2.0")
    else:
        w.emit(f"{o} = other if {w.condition()} else None")
    yield
    yield
    name, a = w.fresh("t"), w.pick()
    w.emit(f"{name} = {a} if {o} is None else {a} + {o}")
    w.made("t", name)


def intsCross(w):
    l, a = w.fresh("h"), w.pick()
    w.emit(f"{l} = " + w.rng.choice([f"[int({a}.sum()), k]", f"[int(v) for v in [{a}.mean(), {a}.max()]]", f"[k, {a}.size(0) + int({a}[0, 0])]"]))
    if w.rng.random() < 0.4:
        with w.block(f"if {w.condition()}:"):
            w.emit(f"{l}.append(3)")
    yield
    yield
    w.let("t", w.rng.choice([f"{w.pick()} * float({l}[0])", f"{w.pick()} + float(len({l}))", f"{w.pick()} + torch.tensor({l}).sum()"]))


def tensorsCross(w):
    l = w.fresh("l")
    w.emit(f"{l}: List[Tensor] = []")
    if w.rng.random() < 0.5:
        with w.block(f"for i in range({w.pick()}.size(0)):"):
            w.emit(f"{l}.append({w.pick()} * i)")
    else:
        w.emit(f"{l}.append({w.pick()})")
        with w.block(f"if {w.condition()}:"):
            w.emit(f"{l}.append({w.pick()})")
    yield
    yield
    w.let("t", w.rng.choice([f"torch.stack({l}, 0).sum(0)", f"{l}[0] + {l}[-1]", f"{w.pick()} * float(len({l}))"]))


def listFilledLater(w):
    l = w.fresh("l")
    w.emit(f"{l}: List[Tensor] = []")
    yield
    w.emit(f"{l}.append({w.pick()})")
    yield
    w.emit(f"{l}.append({w.pick()})")
    w.let("t", f"torch.stack({l}, 0).sum(0)")


def zerosFilledLater(w):
    z = w.fresh("z")
    w.emit(f"{z} = torch.zeros_like({w.pick()})")
    yield
    w.emit(w.rng.choice([f"{z}[:, 0:4] = {w.pick()}[:, 4:8]", f"{z}.copy_({w.pick()})", f"{z}[0] += {w.pick()}[0]"]))
    yield
    w.let("t", f"{w.pick()} + {z}")


def tupleCrosses(w):
    p = w.fresh("p")
    w.emit(f"{p} = ({w.pick()}, 1) if {w.condition()} else ({w.pick()}, k)")
    yield
    w.let("t", f"{p}[0] * {p}[1] + {w.pick()}")


def flagCrosses(w):
    flag = w.fresh("flag")
    w.emit(f"{flag} = " + w.rng.choice([f"bool({w.pick()}.sum() > 0)", f"float({w.pick()}.mean()) < 0.1",
                                        f"{w.pick()}.size(0) > 3 and bool({w.pick()}.max() > 1)"]))
    yield
    yield
    a = w.pick()
    w.let("t", w.rng.choice([f"{a} * 0.5 if {flag} else {a}", f"{a} + int({flag})"]))


def numberCrosses(w):
    n = w.fresh("q")
    w.emit(f"{n} = " + w.rng.choice([f"int({w.pick()}.abs().sum())", f"int({w.pick()}.argmax()) + k",
                                     f"{w.pick()}.size(0) * int({w.pick()}[0, 0] + 3)"]))
    yield
    yield
    w.let("t", w.rng.choice([f"{w.pick()} * (1.0 / float({n} + 1))", f"{w.pick()}.roll({n}, 1)", f"{w.pick()} + {n} % 3"]))


def fractionCrosses(w):
    n = w.fresh("q")
    w.emit(f"{n} = float({w.pick()}.abs().mean()) * 0.5")
    yield
    yield
    w.let("t", f"{w.pick()} * {n}")


def sizesCross(w):
    """Sizes of a tensor that itself does not go on."""
    n, a = w.fresh("q"), w.pick()
    w.emit(f"{n} = {w.rng.choice([f'{a}.size(0)', f'{a}.shape[0] * 2', f'{a}.numel() // 8'])}")
    yield
    yield
    w.let("t", w.rng.choice([f"{w.pick()} + torch.zeros([{n}, 1]).sum()", f"{w.pick()} * {n}", f"{w.pick()}.reshape({n}, -1).reshape(-1, 8)"]))


def viewsCross(w):
    """Two names of one memory over a part of the model."""
    a = w.let("t", f"{w.pick()} * 1.5")
    u = w.let("u", w.rng.choice([f"{a}[:, 0:4]", f"{a}.view(-1, 2, 4)[:, 1]", f"{a}.split(4, 1)[0]"]))
    yield
    yield
    w.let("t", f"torch.cat([{u}, {a}[:, 4:8]], 1) + {w.pick()}")
    w.let("t", f"{a} - {w.pick()}")


def halvesCross(w):
    first, second = w.fresh("u"), w.fresh("u")
    w.emit(f"{first}, {second} = {w.own()}.chunk(2, 1)")
    yield
    yield
    w.let("t", f"torch.cat([{second}, torch.tanh({first})], 1)")
    yield
    w.let("t", f"{w.pick()} + {first}.sum() - {second}.mean()")


def maskOfAllLayers(w):
    mask = w.fresh("mask")
    w.emit(f"{mask} = ({w.pick()} > 0.5).to({w.pick()}.dtype)")
    for _ in range(3):
        yield
        a = w.pick()
        w.let("t", w.rng.choice([f"{a} * {mask}", f"{a} + {mask} * 0.5", f"{a}.masked_fill({mask} > 0.5, 0.25)"]))


# --- Arguments, results --------------------------------------------------------------------------------------------------------------------
def lateInput(w):
    yield
    w.let("t", f"{w.pick()} + late * {w.pick()}")


def writtenInput(w):
    if w.rng.random() < 0.4:
        w.emit(w.rng.choice(["y.mul_(0.5)", "y[:, 2:4] = 0.25", "y.add_(x)"]))
        yield
        return
    yield
    w.emit(w.rng.choice(["late.mul_(0.5)", "late[:, 2:4] = 0.25", f"late.add_({w.pick()})"]))
    w.let("t", f"late + {w.pick()}")


def earlyOutput(w):
    w.early.append(w.let("t", f"{w.pick()} * 0.25"))
    yield


# --- Ties ----------------------------------------------------------------------------------------------------------------------------------
def _twice(w, first, second):
    w.let("t", f"{first.format(a=w.pick())}")
    yield
    w.let("t", f"{second.format(a=w.pick())}")


def tiedWeights(w):
    names = [w.attribute(LINEAR) for _ in range(w.rng.choice([2, 2, 3, 4]))]
    w.setup += [f"{name}.weight = {names[0]}.weight" for name in names[1:]]
    for name in names:
        w.let("t", f"{name}({w.pick()})")
        yield


def tiedOneName(w):
    """The other name is registered and not used, as traces have it."""
    first, second = w.attribute(LINEAR), w.attribute(LINEAR)
    w.setup.append(f"{second}.weight = {first}.weight")
    yield from _twice(w, first + "({a})", f"F.linear({{a}}, {first}.weight)")


def tiedBias(w):
    first, second = w.attribute(LINEAR), w.attribute(LINEAR)
    w.setup.append(f"{second}.bias = {first}.bias")
    yield from _twice(w, first + "({a})", second + "({a})")


def weightView(w):
    """A parameter that is a part of another one's memory."""
    first, part = w.attribute(LINEAR), w.attribute("None")
    w.setup[-1] = f"{part} = nn.Parameter({first}.weight.detach()[2:3])"
    yield from _twice(w, first + "({a})", f"{{a}} + {part}")


def sharedBuffer(w):
    first, second = w.attributeName(), w.attributeName()
    w.setup.append(f'self.register_buffer("{first}", torch.rand(8))')
    w.setup.append(f'self.register_buffer("{second}", self.{first}{w.rng.choice(["[2:3]"] if w.traced else ["", "", "[2:3]"])})')
    yield from _twice(w, f"{{a}} + self.{first}", f"{{a}} * self.{second}")


def calledOften(w):
    name = w.attribute(w.rng.choice([LINEAR, "Residual()", "nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8))"]))
    for _ in range(w.rng.choice([3, 3, 4, 8])):
        w.let("t", f"{name}({w.pick()})")
        yield


# --- State and attributes --------------------------------------------------------------------------------------------------------------------
def countingState(w):
    w.setup.append("self.count = 0")
    w.emit("self.count += 1")
    yield
    w.let("t", f"{w.pick()} * float(self.count)")


def optionalState(w):
    w.fields.append("last: Optional[Tensor]")
    w.setup.append("self.last = None")
    last = w.fresh("last")
    w.emit(f"{last} = self.last")
    a = w.pick()
    w.let("t", f"{a} if {last} is None else {a} + {last}")
    w.emit(f"self.last = {w.pick()}.mean(0)")
    yield


def listState(w):
    w.setup.append("self.history = [1, 2]")
    a = w.pick()
    w.emit(w.rng.choice([f"self.history = self.history + [{a}.size(0)]", f"self.history = [self.history[-1], int({a}.sum())]",
                         f"self.history.append({a}.size(0))"]))
    w.let("t", w.rng.choice([f"{w.pick()} + len(self.history)", f"{w.pick()} * float(self.history[-1])"]))
    yield


def bufferState(w):
    w.setup.append('self.register_buffer("trace", torch.zeros(3))')
    w.emit(w.rng.choice([f"self.trace.mul_(0.5).add_({w.pick()}.sum())", f"self.trace[0] = {w.pick()}.mean()", "self.trace.copy_(self.trace + 1.0)"]))
    w.let("t", f"{w.pick()} + self.trace.sum()")
    yield


# Name, type, values, and an expression that uses it as {m} on a t.
ATTRIBUTES = [("flag", "bool", ["True", "False"], "({a} * 2.0 if {m} else {a})"),
              ("nothing", "Optional[Tensor]", ["None"], "({a} if {m} is None else {a} * 2.0)"),
              ("whole", "int", ["3", "0"], "{a} + {m}"),
              ("scale", "float", ["0.5", "1e-3"], "{a} * {m}"),
              ("word", "str", ["'tanh'", "'none'"], "(torch.tanh({a}) if {m} == 'tanh' else {a})"),
              ("couple", "Tuple[int, float]", ["(1, 0.5)"], "{a} * {m}[1]"),
              ("widths", "List[int]", ["[8]", "[8, 2]"], "{a} + {m}[0]"),
              ("table", "Dict[str, float]", ["{'a': 0.5, 'b': 1.0}"], "{a} * {m}['a']"),
              ("names", "List[str]", ["['x', 'y']"], "{a} + len({m})"),
              ("given", "Optional[int]", ["None", "2"], "({a} if {m} is None else {a} * 2.0)"),
              ("pair", "Tuple[int, Tuple[bool, str]]", ["(2, (True, 'a'))"], "({a} + {m}[0] if {m}[1][0] else {a})"),
              ("nested", "Dict[str, List[int]]", ["{'x': [1, 2]}"], "{a} + len({m}['x'])")]


def attributes(w):
    for base, type_, values, use in w.rng.sample(ATTRIBUTES, 10):
        name = w.attributeName(base)
        w.fields.append(f"{name}: {type_}")
        w.setup.append(f"self.{name} = {w.rng.choice(values)}")
        w.let("t", use.format(a=w.pick(), m=f"self.{name}"))
        if w.rng.random() < 0.3:
            yield


def listAttributeLoop(w):
    w.setup.append("self.values = [0.5, 0.25, 1.5]")
    w.fields.append("values: List[float]")
    name = w.let("t", f"{w.pick()} + 0.5")
    with w.block("for value in self.values:"):
        w.emit(f"{name} = {name} * value + {w.pick()}")
    yield


def interfaceCall(w):
    name = w.attributeName("act")
    w.fields.append(f"{name}: Activation")
    w.setup.append(f"self.{name} = Scaled()")
    w.let("t", f"self.{name}.forward({w.pick()})")
    yield


def packedWeights(w):
    w.let("t", f"{w.attribute('torch.ao.nn.quantized.dynamic.Linear(8, 8)')}({w.pick()})")
    yield


def trainingFlag(w):
    w.let("t", f"{w.pick()} * (0.5 if self.training else 1.5)")
    yield


# --- Control flow ----------------------------------------------------------------------------------------------------------------------------
def raises(w):
    """A check, or a branch that makes no value: prim::Uninitialized."""
    if w.rng.random() < 0.3:
        w.emit(f'assert {w.pick()}.size(0) < 1000, "too many"')
        yield
        return
    name = w.fresh("t")
    with w.block(w.rng.choice([f"if {w.pick()}.size(1) < 64:", "if k < 50:", f"if bool({w.pick()}.abs().sum() < 1e30):"])):
        w.emit(f"{name} = {w.pick()} * 1.25")
    with w.block("else:"):
        w.emit('raise RuntimeError("too wide")')
    w.made("t", name)
    yield


def earlyReturn(w):
    w.let("t", f"{w.attribute('EarlyReturn()')}({w.pick()}, {w.rng.choice(['True', 'k > 1', 'self.training', 'bool(x.sum() > 0)'])})")
    yield
    w.let("t", f"{w.attribute('FirstRound()')}({w.pick()})")


def nestedBranches(w):
    name = w.let("t", f"{w.pick()} + 0.25")
    with w.block(f"if {w.condition()}:"):
        w.emit(f"{name} = torch.relu({name})")
        with w.block(f"if {w.condition()}:"):
            w.emit(f"{name} = {name} * 2.0 + {w.pick()}")
        with w.block("else:"):
            w.emit(f"{name} = -{name}")
    yield


def experts(w):
    name, gate = w.let("t", f"{w.pick()} * 0.0"), w.let("t", f"F.softmax({w.pick()}, 1)")
    for i in range(3):
        with w.block(f"if bool({gate}[:, {i}].sum() > {w.rng.choice(['0.3', '0.6'])}):"):
            w.emit(f"{name} = {name} + {w.linear()}({w.pick()}) * {gate}[:, {i}:{i + 1}]")
    yield


# --- Traces ------------------------------------------------------------------------------------------------------------------------------------
def sizeChain(w):
    n = w.fresh("q")
    w.emit(f"{n} = {w.rng.choice([f'{w.pick()}.shape[0] * 2', f'{w.pick()}.size(0) + {w.pick()}.size(1)', f'{w.pick()}.numel() // 8 * 2'])}")
    yield
    w.let("t", w.rng.choice([f"{w.pick()} + torch.zeros({n}, 1).sum()", f"{w.pick()}.reshape({w.pick()}.shape[0] * 2, 4).reshape(-1, 8)",
                             f"{w.pick()}.repeat(2, 1)[:{n} // 2][:{w.pick()}.shape[0]]", f"{w.pick()} + torch.arange({n}).sum()"]))


def tracedTuples(w):
    name, first, second = w.attribute(w.rng.choice(["Pair()"])), w.fresh("t"), w.fresh("t")
    w.emit(f"{first}, {second} = {name}(({w.pick()}, {w.pick()}))")
    yield
    w.made("t", first)
    w.made("t", second)
    third, fourth = w.fresh("t"), w.fresh("t")
    w.emit(f"{third}, {fourth} = {w.attribute('Gate()')}({w.pick()})")
    w.made("t", third)
    w.made("t", fourth)


def bakedTensor(w):
    w.let("t", w.rng.choice([f"{w.pick()} + OFFSETS", f"{w.pick()} * torch.tensor([0.5, 1.0] * 4)", f"torch.where(OFFSETS > 0.5, {w.pick()}, {w.pick()})"]))
    yield


def bakedDevice(w):
    a = w.pick()
    w.let("t", w.rng.choice([f"{a} + torch.ones(8, device={a}.device)", f"{a} * torch.arange(8, device={a}.device, dtype={a}.dtype)",
                             f"{a}.to('cpu') + torch.zeros({a}.shape, device='cpu')"]))
    yield


def bakedBatch(w):
    w.let("t", f"{w.pick()}.reshape({w.batch}, 2, 4).transpose(1, 2).reshape({w.batch}, 8)")
    yield


def scriptedInTrace(w):
    name = w.attribute(f"torch.jit.script({w.rng.choice(['FirstRound()', 'Counter()', 'Smooth()'])})")
    w.let("t", f"{name}({w.pick()})")
    yield


# --- Which go where; a function that stands twice is planted twice as often ------------------------------------------------------------------
BOTH = [viewsCross, halvesCross, maskOfAllLayers, lateInput, writtenInput, earlyOutput, tiedWeights, tiedOneName, tiedBias, weightView, sharedBuffer,
        calledOften, zerosFilledLater, bakedDevice, packedWeights] + [viewsCross, halvesCross]
SCRIPTED = [dictCrosses, stringCrosses, futureCrosses, futuresInList, objectCrosses, optionalCrosses, intsCross, tensorsCross, listFilledLater,
            tupleCrosses, flagCrosses, numberCrosses, fractionCrosses, sizesCross, countingState, optionalState, listState, bufferState, attributes,
            listAttributeLoop, interfaceCall, trainingFlag, raises, earlyReturn, nestedBranches, experts]
SCRIPTED += [dictCrosses, stringCrosses, futureCrosses, objectCrosses, optionalCrosses, fractionCrosses, optionalState, attributes]
TRACED = [sizeChain, tracedTuples, bakedTensor, bakedBatch, scriptedInTrace]
BOTH += random_signatures.BOTH + random_values.BOTH
SCRIPTED += random_signatures.SCRIPTED + random_values.SCRIPTED
