"""What a saved TorchScript model demands of a splitter, found by looking at the file: its graph, its attributes, its storages.

    model_kinds.py MODEL.pt...     prints the kinds of each

A blind cut is one at a quarter of the inlined graph; what it crosses is made before and used after it.
"""
import sys

import torch

VIEWS = {f"aten::{name}" for name in ("view", "select", "slice", "t", "transpose", "permute", "chunk", "split", "expand", "narrow", "squeeze", "unsqueeze",
                                      "detach", "alias", "view_as", "unbind", "as_strided", "flatten", "numpy_T")}
LISTS_OF_VIEWS = {"prim::ListUnpack", "aten::__getitem__"}

# Every kind, with what it means. The order is that of the table that random_graphs.py prints.
KINDS = {
    "scripted": "saved by torch.jit.script", "traced": "saved by torch.jit.trace",
    "several cross": "several values cross a blind cut", "int crosses": "", "float crosses": "", "bool crosses": "", "str crosses": "",
    "List[int] crosses": "", "List[Tensor] crosses": "", "Optional crosses": "", "Dict crosses": "", "Tuple crosses": "", "Future crosses": "",
    "object crosses": "an object of a class that the method makes", "view crosses": "a view and its base, or two views of one",
    "used by all layers": "computed once, used in three quarters of the graph or more",
    "input used late": "an argument whose first use is in the second half",
    "output made early": "a result that is made in the first half",
    "tie: two names": "one tensor under two names that are both used", "tie: unused name": "one of the names is never read",
    "tie: called often": "a weight that is read by three operators or more", "tie: view": "a weight that is a part of another's memory",
    "tie: bias": "a bias with two names, or used twice", "tie: buffer": "two buffers in one memory, or a buffer read by two operators",
    "add_": "", "relu_": "", "copy_": "", "list append": "", "dict set": "", "SetAttr": "", "write into a view": "", "write into an argument": "",
    "container filled later": "an empty list or dict that is filled after a blind cut", "written later": "a tensor that is written after a blind cut",
    "state: int": "", "state: Optional": "", "state: List[int]": "", "state: buffer": "a buffer that is written",
    "attribute: bool": "", "attribute: None": "", "attribute: int": "", "attribute: float": "", "attribute: str": "", "attribute: tuple": "",
    "attribute: list": "", "attribute: dict": "", "attribute: torchbind": "packed weights", "attribute: interface": "a submodule of an interface type",
    "training flag": "", "raise": "", "Uninitialized": "", "device baked in": "", "dtype cast": "", "tensor constant": "",
    "NumToTensor chain": "", "traced tuples": "tuples that are built and taken apart in a trace", "fork and wait": "",
    "loop": "", "nested ifs": "", "early return": "the result of a method is that of a branch that holds most of it",
    "loop around much": "a loop that holds a third of all nodes",
    "other dtypes": "bfloat16, half, complex or double", "random": "draws random numbers",
    "batch generalises": "another batch size than the example's runs", "batch baked in": "it does not",
}


def kindOf(type_):
    """The words for a value that is no tensor."""
    name = type_.kind()
    if name == "ListType":
        return {"IntType": "List[int]", "TensorType": "List[Tensor]"}.get(type_.getElementType().kind(), "")
    return {"IntType": "int", "FloatType": "float", "BoolType": "bool", "StringType": "str", "OptionalType": "Optional", "DictType": "Dict",
            "TupleType": "Tuple", "FutureType": "Future"}.get(name, "")


class Looked:
    """One pass over the inlined graph: every node with the place of the top-level operator that is or holds it."""

    def __init__(self, model):
        self.model = model
        self.graph = model.inlined_graph
        self.nodes = []  # (node, place, kinds of the nodes around it)
        self.made = {}  # value -> place; arguments -1
        self.maker = {}  # value -> node
        self.uses = {}  # value -> [(place, node)]
        self.types = {}
        self.operators = 0
        for value in self.graph.inputs():
            self._note(value, -1, None)
        for node in self.graph.nodes():
            if node.kind() not in ("prim::Constant", "prim::GetAttr"):
                self.operators += 1
            self._visit(node, self.operators, ())
        self.arguments = {value.debugName() for value in list(self.graph.inputs())[1:]}
        self.results = self._results()

    def _note(self, value, place, node):
        name = value.debugName()
        self.made[name], self.maker[name], self.types[name] = place, node, value.type()

    def _visit(self, node, place, around):
        self.nodes.append((node, place, around))
        for value in node.inputs():
            self.uses.setdefault(value.debugName(), []).append((place, node))
        for value in node.outputs():
            self._note(value, place, node)
        for block in list(node.blocks()) + ([node.g("Subgraph")] if node.hasAttribute("Subgraph") else []):
            for value in block.inputs():
                self._note(value, place, None)
            for inner in block.nodes():
                self._visit(inner, place, around + (node.kind(),))
            for value in block.outputs():
                self.uses.setdefault(value.debugName(), []).append((place, node))

    def _results(self):
        """The parts of what the method returns."""
        found, left = [], [value.debugName() for value in self.graph.outputs()]
        while left:
            name = left.pop()
            node = self.maker.get(name)
            if node is not None and node.kind() in ("prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct"):
                left += [value.debugName() for value in node.inputs()]
            else:
                found.append(name)
        return found

    def quarters(self):
        return [round(self.operators * i / 4) + 1 for i in (1, 2, 3)]  # boundaries before the operator of this place

    def crossing(self, cut):
        skipped = ("prim::Constant", "prim::GetAttr", "prim::Uninitialized")
        return [name for name, place in self.made.items() if 0 < place < cut and self.maker[name] is not None and self.maker[name].kind() not in skipped
                and any(used >= cut for used, _ in self.uses.get(name, []))]

    def base(self, name):
        """(what a chain of views starts from, how many views)"""
        steps = 0
        while (node := self.maker.get(name)) is not None:
            if node.kind() in VIEWS:
                steps += 1
            elif not (node.kind() in LISTS_OF_VIEWS and any(self._kind(value) in VIEWS for value in node.inputs())):
                break
            name = node.inputsAt(0).debugName()
        return name, steps

    def _kind(self, value):
        node = self.maker.get(value.debugName())
        return node.kind() if node is not None else ""

    def path(self, name):
        """Attribute path of a value that chains of GetAttr read from self, or None."""
        parts = []
        while (node := self.maker.get(name)) is not None and node.kind() == "prim::GetAttr":
            parts.append(node.s("name"))
            name = node.inputsAt(0).debugName()
        return ".".join(reversed(parts)) if parts and self.made.get(name) == -1 else None


# --- The kinds, a group each ----------------------------------------------------------------------------------------------------------------
def crossings(look):
    for cut in look.quarters():
        names = look.crossing(cut)
        if len(names) > 1:
            yield "several cross"
        bases = []
        for name in names:
            type_ = look.types[name]
            if type_.kind() == "TensorType":
                bases.append(look.base(name)[0])
            elif type_.kind() == "ClassType" and look.maker[name].kind() == "prim::CreateObject":
                yield "object crosses"
            elif words := kindOf(type_):
                yield words + " crosses"
            for place, node in look.uses[name]:
                if place >= cut and node.inputsSize() and node.inputsAt(0).debugName() == name and writes(node):
                    tensor = look.types[name].kind() == "TensorType"
                    empty = look.maker[name].kind() in ("prim::ListConstruct", "prim::DictConstruct") and not look.maker[name].inputsSize()
                    yield "written later" if tensor else "container filled later" if empty else "written later"
        if len(set(bases)) < len(bases):
            yield "view crosses"


def places(look):
    for name, place in look.made.items():
        if place > 0 and look.types[name].kind() == "TensorType" and look.maker[name] is not None and look.maker[name].kind() != "prim::GetAttr":
            if len({min(3, (used - 1) * 4 // look.operators) for used, _ in look.uses.get(name, [])}) >= 3:
                yield "used by all layers"
    for name in look.arguments:
        uses = [place for place, _ in look.uses.get(name, [])]
        if uses and min(uses) > look.operators / 2:
            yield "input used late"
    for name in look.results:
        if 0 < look.made.get(name, 0) <= look.operators / 2 and look.maker[name] is not None and look.maker[name].kind() != "prim::Constant":
            yield "output made early"


def ties(look, paths):
    """paths: attribute path of a tensor -> the nodes that read it."""
    parameters = dict(look.model.state_dict(keep_vars=True))
    same, memory = {}, {}
    for name, value in parameters.items():
        if isinstance(value, torch.Tensor) and value.numel():
            memory.setdefault(value.untyped_storage().data_ptr(), []).append(name)
            same.setdefault((value.data_ptr(), tuple(value.shape), tuple(value.stride())), []).append(name)
    isBuffer = {name: not isinstance(value, torch.nn.Parameter) and not value.requires_grad for name, value in parameters.items()}
    for names in same.values():
        used = [name for name in names if name in paths]
        if len(names) > 1 and not isBuffer[names[0]]:
            if len(used) > 1:
                yield "tie: two names"
            if len(used) < len(names) and used:
                yield "tie: unused name"
            if names[0].endswith("bias"):
                yield "tie: bias"
        if len(names) > 1 and isBuffer[names[0]]:
            yield "tie: buffer"
    for names in memory.values():
        if len({tuple(parameters[name].shape) for name in names}) > 1:
            yield "tie: buffer" if all(isBuffer[name] for name in names) else "tie: view"
    for name, readers in paths.items():
        if name in isBuffer and not isBuffer[name]:
            if len(readers) > 2:
                yield "tie: called often"
            if name.endswith("bias") and len(readers) > 1:
                yield "tie: bias"
        elif name in isBuffer and len(readers) > 1:
            yield "tie: buffer"


def writes(node):
    name = node.kind()
    return name in ("aten::append", "aten::_set_item", "aten::pop", "aten::insert", "aten::extend", "aten::index_put_") or (
        name.startswith("aten::") and name.endswith("_") and not name.endswith("__")) or name in ("aten::__iadd__",)


def mutation(look):
    for node, _, _ in look.nodes:
        if node.kind() == "prim::SetAttr":
            yield "SetAttr"
        if not writes(node):
            continue
        target = node.inputsAt(0).debugName()
        type_ = look.types[target].kind()
        if type_ == "DictType":
            yield "dict set"
        if type_ == "ListType" and node.kind() == "aten::append":
            yield "list append"
        if type_ != "TensorType":
            continue
        name = node.kind().split("::")[1]
        if name in ("add_", "relu_", "copy_"):
            yield name
        base, views = look.base(target)
        if views:
            yield "write into a view"
        if base in look.arguments:
            yield "write into an argument"
        if look.path(base):
            yield "state: buffer"


def attributes(look):
    reads, kinds = {}, {"BoolType": "bool", "IntType": "int", "FloatType": "float", "StringType": "str", "TupleType": "tuple", "ListType": "list",
                        "DictType": "dict"}
    for node, _, _ in look.nodes:
        if node.kind() == "prim::GetAttr":
            type_ = node.output().type()
            reads[node.s("name")] = type_
            if node.s("name") == "training":
                yield "training flag"
            elif type_.kind() in kinds:
                yield "attribute: " + kinds[type_.kind()]
            elif type_.kind() == "OptionalType" and valueAt(look.model, look.path(node.output().debugName())) is None:
                yield "attribute: None"
            elif type_.kind() == "NoneType":
                yield "attribute: None"
            elif type_.annotation_str.startswith("__torch__.torch.classes."):
                yield "attribute: torchbind"
            elif type_.kind() == "InterfaceType":
                yield "attribute: interface"
    for node, _, _ in look.nodes:
        if node.kind() == "prim::SetAttr":
            declared = reads.get(node.s("name"), list(node.inputs())[1].type())
            if declared.kind() == "OptionalType":
                yield "state: Optional"
            elif kindOf(declared) in ("int", "List[int]"):
                yield "state: " + kindOf(declared)
        if node.kind() == "aten::append" and look.path(node.inputsAt(0).debugName()):
            yield "state: List[int]"


def valueAt(model, path):
    for name in (path or "").split("."):
        model = getattr(model, name, None)
    return model


def operators(look, traced):
    chain = set()
    for node, _, around in look.nodes:
        kind = node.kind()
        if kind == "prim::RaiseException":
            yield "raise"
        elif kind == "prim::Uninitialized":
            yield "Uninitialized"
        elif kind == "prim::Constant":
            type_ = node.output().type()
            if type_.kind() == "DeviceObjType" and any(True for _ in look.uses.get(node.output().debugName(), [])):
                yield "device baked in"
            if type_.kind() == "TensorType":
                yield "tensor constant"
        elif kind in ("aten::to", "aten::_to_copy", "aten::type_as"):
            yield "dtype cast"
        elif kind in ("prim::NumToTensor", "aten::Int", "aten::ScalarImplicit"):
            chain.add(kind)
        elif kind == "prim::TupleUnpack" and traced:
            yield "traced tuples"
        elif kind in ("prim::fork", "aten::wait"):
            yield "fork and wait"
        elif kind == "prim::Loop":
            yield "loop"
        elif kind == "prim::If" and "prim::If" in around:
            yield "nested ifs"
        elif kind in ("aten::dropout", "aten::rand_like", "aten::bernoulli", "aten::feature_dropout"):
            yield "random"
    if {"prim::NumToTensor", "aten::Int"} <= chain:
        yield "NumToTensor chain"
    if any(inner(node) > len(look.nodes) / 4 for node, _, _ in look.nodes if node.kind() == "prim::Loop"):
        yield "loop around much"


def inner(node):
    return sum(1 + inner(one) for block in node.blocks() for one in block.nodes())


def earlyReturns(module):
    """A return inside a branch puts what follows into the other branch, whose result the method returns."""
    for _, one in module.named_modules():
        if not one._c._has_method("forward"):
            continue
        graph = one.graph
        makers = [value.node() for value in graph.outputs()]
        total = sum(1 + inner(node) for node in graph.nodes())
        if any(node.kind() == "prim::If" and inner(node) > total / 2 and not list(node.outputs())[0].uses()[1:] for node in makers):
            yield "early return"


def dtypes(look):
    found = {5, 7, 9, 10, 15}  # half, double, complex, bfloat16
    for node, _, _ in look.nodes:
        if node.kind() in ("aten::to", "aten::zeros") and any(value.type().kind() == "IntType" and value.toIValue() in found for value in node.inputs()):
            yield "other dtypes"
        if node.kind() == "aten::view_as_complex":
            yield "other dtypes"


def otherBatch(model, inputs):
    from random_models import BATCH

    other = [value[:BATCH - 1].clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    try:
        with torch.no_grad(), torch.jit.optimized_execution(False):
            model(*other)
    except RuntimeError:
        return "batch baked in"
    return "batch generalises"


def kindsOf(path, inputs=None):
    """The kinds of a saved model; with inputs also whether another batch size runs."""
    model = torch.jit.load(str(path))
    look = Looked(model)
    traced = any("torch/jit/_trace.py" in node.sourceRange() for node in model.graph.nodes())
    found = {"traced" if traced else "scripted"}
    paths = {}
    for node, _, _ in look.nodes:
        if node.kind() == "prim::GetAttr" and (name := look.path(node.output().debugName())):
            readers = [reader for _, reader in look.uses.get(node.output().debugName(), []) if reader.kind() != "prim::GetAttr"]
            if readers:
                paths.setdefault(name, []).extend(readers)
    for group in (crossings(look), places(look), ties(look, paths), mutation(look), attributes(look), operators(look, traced), earlyReturns(model), dtypes(look)):
        found.update(group)
    if inputs is not None:
        found.add(otherBatch(model, inputs))
    unknown = found - set(KINDS)
    assert not unknown, unknown
    return found


if __name__ == "__main__":
    for name in sys.argv[1:]:
        found = kindsOf(name)
        print(f"{name}: {', '.join(kind for kind in KINDS if kind in found)}")
