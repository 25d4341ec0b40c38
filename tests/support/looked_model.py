"""The inlined graph of a saved model, looked at once: where values are made and used, which are views of others, which are attributes."""
import torch

VIEWS = {f"aten::{name}" for name in ("view", "select", "slice", "t", "transpose", "permute", "chunk", "split", "expand", "narrow", "squeeze", "unsqueeze",
                                      "detach", "alias", "view_as", "unbind", "as_strided", "flatten", "numpy_T")}
LISTS_OF_VIEWS = {"prim::ListUnpack", "aten::__getitem__"}


def kindOf(type_):
    """The words for a value that is no tensor."""
    name = type_.kind()
    if name == "ListType":
        return {"IntType": "List[int]", "TensorType": "List[Tensor]"}.get(type_.getElementType().kind(), "")
    return {"IntType": "int", "FloatType": "float", "BoolType": "bool", "StringType": "str", "OptionalType": "Optional", "DictType": "Dict",
            "TupleType": "Tuple", "FutureType": "Future"}.get(name, "")


def writes(node):
    name = node.kind()
    return name in ("aten::append", "aten::_set_item", "aten::pop", "aten::insert", "aten::extend", "aten::index_put_") or (
        name.startswith("aten::") and name.endswith("_") and not name.endswith("__")) or name in ("aten::__iadd__",)


def valueAt(model, path):
    for name in (path or "").split("."):
        model = getattr(model, name, None)
    return model


def inside(node):
    for block in node.blocks():
        for one in block.nodes():
            yield one
            yield from inside(one)


def inner(node):
    return sum(1 for _ in inside(node))


class Looked:
    """One pass over the inlined graph: every node with the place of the top-level operator that is or holds it."""

    def __init__(self, model, method):
        self.model = model
        self.method = model._c._get_method(method)
        self.graph = self.method.inlined_graph
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
        self.weights = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
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

    def fixed(self, value, depth=0):
        """Whether constants and attributes alone make a value."""
        node = value.node()
        if node.kind() in ("prim::Constant", "prim::GetAttr"):
            return True
        known = ("prim::Param", "prim::If", "prim::Loop", "prim::CreateObject", "prim::Uninitialized")
        return depth < 20 and node.kind() not in known and node.inputsSize() > 0 and all(self.fixed(one, depth + 1) for one in node.inputs())

    def path(self, name):
        """Attribute path of a value that chains of GetAttr read from self, or None."""
        parts = []
        while (node := self.maker.get(name)) is not None and node.kind() == "prim::GetAttr":
            parts.append(node.s("name"))
            name = node.inputsAt(0).debugName()
        return ".".join(reversed(parts)) if parts and self.made.get(name) == -1 else None
