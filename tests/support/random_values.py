"""Demands of values that are no plain float32 tensors, for random models (random_models.Writer): other dtypes, quantised and empty tensors, shapes that
data decides, custom operators, and attributes that hold tensors or objects."""


# --- Dtypes ----------------------------------------------------------------------------------------------------------------------------------
def _as(dtype, changes):
    def plant(w):
        name, a = w.fresh("h"), w.pick()
        w.emit(f"{name} = {a}.to(torch.{dtype}) * 1.5")
        yield
        w.emit(w.rng.choice(changes).format(h=name))
        yield
        w.let("t", f"{name}.float() + {w.pick()}")
    return plant


bfloat = _as("bfloat16", ["{h} = torch.tanh({h})", "{h}.mul_(0.5)", "{h} = {h} + {h}.sum()"])
half = _as("float16", ["{h} = torch.tanh({h})", "{h}.mul_(0.5)", "{h} = {h}.clamp(-4, 4) + 1"])
double = _as("float64", ["{h} = torch.tanh({h})", "{h}.add_(0.1)", "{h} = {h} / 3"])


def complexCrosses(w):
    name = w.fresh("c")
    w.emit(f"{name} = torch.view_as_complex({w.pick()}.reshape(-1, 4, 2).contiguous())")
    yield
    if w.rng.random() < 0.5:
        w.emit(f"{name} = {name} * {name}.conj()")
    yield
    w.let("t", f"torch.view_as_real({name}.resolve_conj()).reshape(-1, 8) + {w.pick()}")


def quantised(w):
    name = w.fresh("z")
    scheme = w.rng.choice(["torch.quantize_per_tensor({a}, 0.05, 10, torch.quint8)", "torch.quantize_per_tensor({a}, 0.1, 0, torch.qint8)",
                           "torch.quantize_per_channel({a}, self.{s}, self.{z}, 1, torch.qint8)"])
    scales, zeros = w.attributeName("scales"), w.attributeName("zeros")
    if "self" in scheme:
        w.setup += [f'self.register_buffer("{scales}", torch.rand(8) + 0.1)', f'self.register_buffer("{zeros}", torch.zeros(8, dtype=torch.long))']
    w.emit(f"{name} = {scheme.format(a=w.pick(), s=scales, z=zeros)}")
    yield
    if "per_tensor" in scheme and w.rng.random() < 0.5:
        w.emit(f"{name} = torch.relu({name})")
    yield
    w.let("t", f"{name}.dequantize() + {w.pick()}")


def otherWeights(w):
    """Weights that are not float32."""
    dtype = w.rng.choice(["bfloat16", "float16", "float64"])
    name = w.attribute(f"nn.Parameter(torch.rand(8).to(torch.{dtype}))")
    w.let("t", f"({w.pick()}.to({name}.dtype) * {name}).float()")
    yield
    if w.rng.random() < 0.4:
        w.let("t", f"torch.where({name} > 0.5, {w.pick()}, {w.pick()})")


# --- Shapes ----------------------------------------------------------------------------------------------------------------------------------
def emptyTensor(w):
    name = w.fresh("e")
    if w.rng.random() < 0.3:
        w.setup.append(f"self.{name} = nn.Parameter(torch.zeros(0, 8))")
        w.let("t", f"torch.cat([{w.pick()}, self.{name}], 0)")
        yield
        return
    w.emit(f"{name} = {w.pick()}" + w.rng.choice(["[:, 0:0]", ".new_zeros([{n}, 0])".format(n=f"{w.pick()}.size(0)")]))
    yield
    yield
    w.let("t", f"torch.cat([{w.pick()}, {name}], 1)")
    w.let("t", f"{w.pick()} + {name}.sum()")


def shapeFromData(w):
    name, a = w.fresh("r"), w.pick()
    w.emit(f"{name} = " + w.rng.choice([f"{a}[{a}[:, 0] > 0]", f"torch.masked_select({a}, {a} > 0.25)", f"torch.nonzero({a} > 0)"]))
    yield
    if w.rng.random() < 0.5 and not w.traced:
        w.let("t", f"{w.pick()} * float({name}.size(0))")
    yield
    w.let("t", f"{w.pick()} + {name}.sum()")


def customOperator(w):
    """torchvision's, from --load-library."""
    kept, a = w.fresh("kept"), w.pick()
    w.needsLibrary = True
    w.emit(f"{kept} = torch.ops.torchvision.nms({a}[:, 0:4].abs().cumsum(1), {a}[:, 5], 0.5)")
    yield
    yield
    w.let("t", f"{w.pick()} + {w.pick()}[{kept}].mean()")


# --- Attributes --------------------------------------------------------------------------------------------------------------------------------
def tensorAttribute(w):
    """Neither parameter nor buffer."""
    name = w.attribute("torch.rand(8)")
    w.let("t", f"{w.pick()} + {name}")
    yield
    w.let("t", f"{w.pick()} * {name}")


def tensorsInAttribute(w):
    if w.rng.random() < 0.4:
        name, one, other = w.attribute("[torch.rand(8), torch.rand(8)]"), "[0]", "[-1]"
        w.fields.append(f"{name[5:]}: List[Tensor]")
    else:
        name, one, other = w.attribute('{"a": torch.rand(8), "b": torch.rand(1)}'), "['a']", "['b']"
        w.fields.append(f"{name[5:]}: Dict[str, Tensor]")
    w.let("t", f"{w.pick()} + {name}{one}")
    yield
    w.let("t", f"{w.pick()} * {name}{other}")


def givenAttribute(w):
    """An Optional that is there."""
    name = w.attribute("torch.rand(8)")
    w.fields.append(f"{name[5:]}: Optional[Tensor]")
    here = w.fresh("given")
    w.emit(f"{here} = {name}")
    yield
    a = w.pick()
    w.let("t", f"{a} if {here} is None else {a} * {here}")


def deviceAttribute(w):
    name = w.attribute("torch.device('cpu')")
    w.let("t", f"{w.pick()} + torch.ones(8, device={name})")
    yield


def objectAttribute(w):
    name = w.attribute("Box(torch.rand(8), 2)")
    w.let("t", f"{w.pick()} + {name}.total()")
    yield
    w.let("t", f"{w.pick()} * {name}.value")


def leavesALoop(w):
    w.let("t", f"{w.attribute('FirstOfMany()')}({w.pick()})")
    yield


def manyNames(w):
    """One weight under three names or four, all used."""
    names = [w.attribute("nn.Linear(8, 8)") for _ in range(w.rng.choice([3, 4]))]
    w.setup += [f"{name}.weight = {names[0]}.weight" for name in names[1:]]
    for name in names:
        w.let("t", f"{name}({w.pick()})")
        yield


BOTH = [bfloat, half, double, complexCrosses, quantised, otherWeights, emptyTensor, shapeFromData, customOperator, tensorAttribute, manyNames, quantised]
SCRIPTED = [tensorsInAttribute, tensorsInAttribute, givenAttribute, deviceAttribute, objectAttribute, leavesALoop]
