"""What a saved TorchScript model demands of a splitter, found by looking at the file: its graph, its attributes, its storages.

    model_kinds.py MODEL.pt...     prints the kinds of each

A blind cut is one at a quarter of the inlined graph; what it crosses is made before and used after it.
"""
import sys

import torch

from looked_model import Looked, inner, inside, kindOf, valueAt, writes
from model_inputs import batchDim, call, fewer, mapped, shorter, tensors

# Every kind, with what it means. The order is that of the table that random_graphs.py prints.
KINDS = {
    "scripted": "saved by torch.jit.script", "traced": "saved by torch.jit.trace",
    "several cross": "several values cross a blind cut", "int crosses": "", "float crosses": "", "bool crosses": "", "str crosses": "",
    "List[int] crosses": "", "List[Tensor] crosses": "", "Optional crosses": "", "Dict crosses": "", "Tuple crosses": "", "Future crosses": "",
    "object crosses": "an object of a class that the method makes", "view crosses": "a view and its base, or two views of one",
    "size crosses alone": "a size of a tensor that itself does not cross", "quantised crosses": "", "Uninitialized crosses": "what an early return left open",
    "used by all layers": "computed once, used in three quarters of the graph or more",
    "input used late": "an argument whose first use is in the second half",
    "output made early": "a result that is made in the first half",
    "argument: number": "int, float, bool or str", "argument: Optional": "", "argument: list": "", "argument: tuple": "", "argument: dict": "",
    "argument not split": "a tensor without the batch", "argument turned": "its batch is not the first dimension",
    "default argument": "one with a default value", "given by name": "", "another length": "a dimension besides the batch may be another one",
    "result: tuple": "", "result: list": "", "result: dict": "", "result: number": "", "result: Optional": "", "result turned": "",
    "another method": "not forward", "called twice apart": "a module that is called again after others",
    "tie: two names": "one tensor under two names that are both used", "tie: three names": "or more", "tie: unused name": "one of the names is never read",
    "tie: called often": "a weight that is read by three operators or more", "tie: view": "a weight that is a part of another's memory",
    "tie: bias": "a bias with two names, or used twice", "tie: buffer": "two buffers in one memory, or a buffer read by two operators",
    "add_": "", "relu_": "", "copy_": "", "list append": "", "dict set": "", "SetAttr": "", "write into a view": "", "write into an argument": "",
    "container filled later": "an empty list or dict that is filled after a blind cut", "written later": "a tensor that is written after a blind cut",
    "state: int": "", "state: Optional": "", "state: List[int]": "", "state: Tensor": "", "state: buffer": "a buffer that is written",
    "state: batch norm": "running statistics that are written", "mixed modes": "some modules train, others do not",
    "attribute: bool": "", "attribute: None": "", "attribute: int": "", "attribute: float": "", "attribute: str": "", "attribute: tuple": "",
    "attribute: list": "", "attribute: dict": "", "attribute: torchbind": "packed weights", "attribute: interface": "a submodule of an interface type",
    "attribute: Tensor": "neither parameter nor buffer", "attribute: List[Tensor]": "", "attribute: Dict[str, Tensor]": "", "attribute: device": "",
    "attribute: object": "of a class of the model's", "weight of another dtype": "not float32",
    "training flag": "", "raise": "", "Uninitialized": "", "device baked in": "", "dtype cast": "", "tensor constant": "",
    "NumToTensor chain": "", "traced tuples": "tuples that are built and taken apart in a trace", "fork and wait": "",
    "if: fixed": "attributes and constants decide", "if: data": "", "module in a branch": "that data decides, as an expert's", "nested ifs": "",
    "loop: fixed": "attributes and constants say how often", "loop: data": "", "loop over a list": "that is an attribute", "while": "", "break": "",
    "early return": "the result of a method is that of a branch that holds most of it",
    "loop around much": "a loop that holds a third of all nodes",
    "bfloat16": "", "half": "", "double": "", "complex": "", "empty tensor": "", "shape from data": "", "custom operator": "from --load-library",
    "random": "draws random numbers",
    "batch generalises": "another batch size than the example's runs", "batch baked in": "it does not",
}


# --- The kinds, a group each ----------------------------------------------------------------------------------------------------------------
def crossings(look):
    for cut in look.quarters():
        names = look.crossing(cut)
        if any(node.kind() == "prim::Uninitialized" and place < cut and any(used >= cut for used, _ in look.uses.get(node.output().debugName(), []))
               for node, place, _ in look.nodes):
            yield "Uninitialized crosses"
        if len(names) > 1:
            yield "several cross"
        bases = []
        for name in names:
            type_ = look.types[name]
            if type_.kind() == "TensorType":
                bases.append(look.base(name)[0])
                if look.maker[name].kind().startswith("aten::quantize_per_"):
                    yield "quantised crosses"
            elif type_.kind() == "ClassType" and look.maker[name].kind() == "prim::CreateObject":
                yield "object crosses"
            elif words := kindOf(type_):
                yield words + " crosses"
                if look.maker[name].kind() == "aten::size" and not {look.maker[name].inputsAt(0).debugName()} & (set(names) | look.arguments):
                    yield "size crosses alone"
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


def signature(look):
    arguments = {"IntType": "number", "FloatType": "number", "BoolType": "number", "StringType": "number", "OptionalType": "Optional", "ListType": "list",
                 "TupleType": "tuple", "DictType": "dict"}
    for argument in look.method.schema.arguments[1:]:
        if (kind := argument.type.kind()) in arguments:
            yield "argument: " + arguments[kind]
        if argument.has_default_value():
            yield "default argument"
    left = [value.type for value in look.method.schema.returns]
    while left:
        type_ = left.pop()
        if kind := {"TupleType": "tuple", "ListType": "list", "DictType": "dict", "OptionalType": "Optional"}.get(type_.kind()):
            yield "result: " + kind
        elif type_.kind() in ("IntType", "BoolType", "FloatType"):
            yield "result: number"
        left += type_.elements() if type_.kind() == "TupleType" else []
    if look.method.name != "forward":
        yield "another method"


def calls(look):
    """Modules that the method's own text calls twice, with another call or operator between."""
    last, path, step = {}, {}, 0
    for node in look.method.graph.nodes():
        if node.kind() == "prim::GetAttr":
            path[node.output().debugName()] = path.get(node.inputsAt(0).debugName(), "") + "." + node.s("name")
        elif node.kind() == "prim::CallMethod":
            step += 1
            called = path.get(node.inputsAt(0).debugName(), "")
            if step - last.get(called, step) > 1:
                yield "called twice apart"
            last[called] = step
        elif node.kind() != "prim::Constant":
            step += 1


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
            if len(used) > 2:
                yield "tie: three names"
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
        if path := look.path(base):
            yield "state: batch norm" if path.endswith("num_batches_tracked") else "state: buffer"


def attributes(look):
    reads, kinds = {}, {"BoolType": "bool", "IntType": "int", "FloatType": "float", "StringType": "str", "TupleType": "tuple", "ListType": "list",
                        "DictType": "dict"}
    for node, _, _ in look.nodes:
        if node.kind() == "prim::GetAttr":
            type_, path = node.output().type(), look.path(node.output().debugName())
            reads[node.s("name")] = type_
            if node.s("name") == "training":
                yield "training flag"
            elif type_.annotation_str in ("List[Tensor]", "Dict[str, Tensor]"):
                yield "attribute: " + type_.annotation_str
            elif type_.kind() in kinds:
                yield "attribute: " + kinds[type_.kind()]
            elif type_.kind() == "DeviceObjType":
                yield "attribute: device"
            elif type_.kind() == "TensorType" and path and path not in look.weights:
                yield "attribute: Tensor"
            elif type_.kind() == "OptionalType" and valueAt(look.model, path) is None:
                yield "attribute: None"
            elif type_.kind() == "NoneType":
                yield "attribute: None"
            elif type_.annotation_str.startswith("__torch__.torch.classes."):
                yield "attribute: torchbind"
            elif type_.kind() == "InterfaceType":
                yield "attribute: interface"
            elif type_.kind() == "ClassType" and path and not isinstance(valueAt(look.model, path), torch.nn.Module):
                yield "attribute: object"
    if any(value.dtype.is_floating_point and value.dtype != torch.float32 or value.is_complex() for value in look.weights.values()):
        yield "weight of another dtype"
    if any(value.numel() == 0 for value in look.weights.values()):
        yield "empty tensor"
    if len({one.training for _, one in look.model.named_modules() if getattr(one, "training", None) is not None}) > 1:
        yield "mixed modes"
    for node, _, _ in look.nodes:
        if node.kind() == "prim::SetAttr":
            declared = reads.get(node.s("name"), list(node.inputs())[1].type())
            if declared.kind() == "OptionalType":
                yield "state: Optional"
            elif kindOf(declared) in ("int", "List[int]"):
                yield "state: " + kindOf(declared)
            elif declared.kind() == "TensorType":
                yield "state: Tensor"
        if node.kind() == "aten::append" and look.path(node.inputsAt(0).debugName()):
            yield "state: List[int]"


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
            yield from loops(look, node)
        elif kind == "prim::If":
            fixed = look.fixed(node.inputsAt(0))
            yield "if: fixed" if fixed else "if: data"
            if "prim::If" in around:
                yield "nested ifs"
            if not fixed and any(look.path(value.debugName()) for one in inside(node) for value in one.inputs() if value.type().kind() == "TensorType"):
                yield "module in a branch"
        elif kind in ("aten::nonzero", "aten::masked_select") or kind == "aten::index" and data(look, node):
            yield "shape from data"
        elif not kind.startswith(("aten::", "prim::", "quantized::", "pipec::")):
            yield "custom operator"
        elif kind in ("aten::dropout", "aten::rand_like", "aten::bernoulli", "aten::feature_dropout"):
            yield "random"
    if {"prim::NumToTensor", "aten::Int"} <= chain:
        yield "NumToTensor chain"
    if any(inner(node) > len(look.nodes) / 4 for node, _, _ in look.nodes if node.kind() == "prim::Loop"):
        yield "loop around much"


def loops(look, node):
    """A loop with a break is saved as one without end whose condition is a conjunction."""
    count, goesOn = node.inputsAt(0), next(next(node.blocks()).outputs())
    if count.node().kind() == "prim::Constant" and count.toIValue() > 2**62:
        yield "break" if goesOn.node().kind() == "aten::__and__" else "while"
    else:
        yield "loop: fixed" if look.fixed(count) else "loop: data"
    while count.node().kind() in ("prim::min", "aten::len"):
        made = count.node()
        if made.kind() == "aten::len" and look.path(made.inputsAt(0).debugName()):
            yield "loop over a list"
        lists = list(made.inputsAt(0).node().inputs()) if made.kind() == "prim::min" else []
        count = lists[0] if lists else made.inputsAt(0)


def data(look, node):
    """Whether an index is by a mask, which says how many elements there are."""
    masks = ("aten::gt", "aten::lt", "aten::ge", "aten::le", "aten::eq", "aten::ne", "aten::logical_and", "aten::logical_not")
    return any(value.node().kind() in masks for value in node.inputsAt(1).node().inputs())


def fixedSizes(node):
    """The sizes that an operator is given as constants."""
    sizes = [value.toIValue() for value in node.inputs() if value.node().kind() == "prim::Constant"]
    lists = [value.node() for value in node.inputs() if value.node().kind() == "prim::ListConstruct"]
    return [size for size in sizes if isinstance(size, list)] + [[value.toIValue() for value in made.inputs() if value.node().kind() == "prim::Constant"]
                                                                 for made in lists]


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
    codes = {5: "half", 7: "double", 9: "complex", 10: "complex", 15: "bfloat16"}
    for node, _, _ in look.nodes:
        if node.kind() in ("aten::to", "aten::zeros", "aten::ones", "aten::arange"):
            for value in node.inputs():
                if value.type().kind() == "IntType" and value.node().kind() == "prim::Constant" and value.toIValue() in codes:
                    yield codes[value.toIValue()]
        if node.kind() in ("aten::view_as_complex", "aten::complex", "aten::polar"):
            yield "complex"
        if node.kind() in ("aten::zeros", "aten::empty", "aten::new_zeros", "aten::new_empty") and any(0 in sizes for sizes in fixedSizes(node)):
            yield "empty tensor"
        if node.kind() == "aten::slice" and [value.toIValue() for value in list(node.inputs())[2:4]] == [0, 0]:
            yield "empty tensor"


# --- What only a run shows --------------------------------------------------------------------------------------------------------------------
def runs(method, inputs):
    given = tensors(inputs)
    if isinstance(inputs, dict):
        yield "given by name"
    if any(batchDim(value) is None for value in given):
        yield "argument not split"
    if any(batchDim(value) not in (None, 0) for value in given):
        yield "argument turned"
    results = tensors(call(method, mapped(inputs, torch.Tensor.clone)))
    if any(batchDim(value) not in (None, 0) for value in results):
        yield "result turned"
    for what, change in (("batch generalises", fewer), ("another length", shorter)):
        if what == "another length" and not any(value.dim() == 3 for value in given):
            continue
        try:
            call(method, mapped(inputs, change))
            yield what
        except RuntimeError:
            if what == "batch generalises":
                yield "batch baked in"


def kindsOf(path, inputs=None, method="forward"):
    """The kinds of a method of a saved model; with inputs also those that only a run shows."""
    model = torch.jit.load(str(path))
    look = Looked(model, method)
    traced = any("torch/jit/_trace.py" in node.sourceRange() for node in look.method.graph.nodes())
    found = {"traced" if traced else "scripted"}
    paths = {}
    for node, _, _ in look.nodes:
        if node.kind() == "prim::GetAttr" and (name := look.path(node.output().debugName())):
            readers = [reader for _, reader in look.uses.get(node.output().debugName(), []) if reader.kind() != "prim::GetAttr"]
            if readers:
                paths.setdefault(name, []).extend(readers)
    for group in (crossings(look), places(look), signature(look), calls(look), ties(look, paths), mutation(look), attributes(look), operators(look, traced),
                  earlyReturns(model), dtypes(look)):
        found.update(group)
    if inputs is not None:
        found.update(runs(getattr(model, method), inputs))
    unknown = found - set(KINDS)
    assert not unknown, unknown
    return found


if __name__ == "__main__":
    for name in sys.argv[1:]:
        found = kindsOf(name)
        print(f"{name}: {', '.join(kind for kind in KINDS if kind in found)}")
