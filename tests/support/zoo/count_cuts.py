"""Counts how many stages a saved model can have at most: the numbers in table.csv. Shares nothing with pipec, and no pass of it.

    count_cuts.py DIRECTORY [NAME...]      prints NAME,STAGES for models made by zoo.py

PyTorch's own passes inline, fold training flags and constants, unroll loops and lower tuples. What is left at the top level is a graph of
operators: an edge where one needs what another makes, and edges both ways between operators that must stay in one stage. Its strongly
connected components, in a topological order, can be a stage each; no compiler can have more without taking an operator apart.

Containers cost nothing while their content is known: a list, tuple or dict that straight code fills and reads is followed by name. Operators must
stay together when
- one makes and the other uses what cannot travel: a string, a dict, an object, a future (of content that is not known),
- they touch a written attribute, or an assigned one, up to its last write: the next run reads what this one wrote,
- they touch memory of the run itself, up to its last write, and a write has no pure form or stands inside control flow.
"""
import os
import sys
from collections import defaultdict
from pathlib import Path

import torch

TRAVELS = {"TensorType", "IntType", "FloatType", "BoolType", "NoneType", "NumberType", "ComplexType"}
INNER = {"ListType", "TupleType", "OptionalType", "UnionType"}
MAKERS = {"prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct"}
EFFECTS = {"prim::Print", "prim::RaiseException", "aten::warn"}


# --- the normal form ----------------------------------------------------------------------------------------------------------------
def constantAttributes(graph, module):
    """Reads of numbers, strings and None that are never assigned become constants, as freezing does."""
    assigned = {node.s("name") for node in graph.findAllNodes("prim::SetAttr", True)}
    owners = {next(graph.inputs()).debugName(): module}
    for node in graph.findAllNodes("prim::GetAttr", True):
        owner = owners.get(node.inputsAt(0).debugName())
        if owner is None:
            continue
        try:
            value = owner.getattr(node.s("name"))
        except RuntimeError:
            continue  # an object of a class that only the model knows
        if isinstance(value, torch._C.ScriptModule):
            owners[node.output().debugName()] = value
        elif isinstance(value, (bool, int, float, str, type(None))) and node.s("name") not in assigned:
            graph.setInsertPoint(node)
            constant = graph.insertConstant(value)
            node.output().replaceAllUsesWith(constant)
    graph.setInsertPoint(graph.return_node())


def lowered(graph):
    """Without tuples; as it was where PyTorch cannot do that (detectors)."""
    try:
        copy = graph.copy()
        torch._C._jit_pass_lower_all_tuples(copy)
        return copy
    except RuntimeError:
        return graph


def foldTables(graph, module):
    """Look-ups by constant keys in dicts of plain values that are never written: names of layers, mostly."""
    owners = {next(graph.inputs()).debugName(): module}
    tables = {}
    for node in graph.findAllNodes("prim::GetAttr", True):
        owner = owners.get(node.inputsAt(0).debugName())
        try:
            value = owner.getattr(node.s("name")) if owner is not None else None
        except RuntimeError:
            continue
        if isinstance(value, torch._C.ScriptModule):
            owners[node.output().debugName()] = value
        elif isinstance(value, dict):
            tables[node.output().debugName()] = value
    for kind in ("aten::__contains__", "aten::__getitem__"):
        for node in graph.findAllNodes(kind, True):
            table = tables.get(node.inputsAt(0).debugName())
            if table is None or node.inputsAt(1).node().kind() != "prim::Constant":
                continue
            key = node.inputsAt(1).toIValue()
            answer = key in table if kind == "aten::__contains__" else table.get(key)
            if isinstance(answer, (bool, int, str)):
                graph.setInsertPoint(node)
                node.output().replaceAllUsesWith(graph.insertConstant(answer))
    graph.setInsertPoint(graph.return_node())


def foldRanks(graph, arguments):
    """The example shows ranks and dtypes; sizes, which other inputs may have otherwise, are forgotten again."""
    try:
        torch._C._jit_pass_complete_shape_analysis(graph, arguments, False)
    except RuntimeError:
        pass  # an operator that the analysis does not know

    def fact(node, read):
        tensor = node.inputsAt(0).type()
        known = read(tensor) if tensor.kind() == "TensorType" else None
        if known is not None:
            graph.setInsertPoint(node)
            node.output().replaceAllUsesWith(graph.insertConstant(known))

    for node in graph.findAllNodes("aten::dim", True):
        fact(node, lambda tensor: tensor.dim())
    for node in graph.findAllNodes("aten::is_floating_point", True):
        fact(node, lambda tensor: None if tensor.dtype() is None else tensor.dtype().is_floating_point)
    for node in graph.findAllNodes("aten::len", True):
        if node.inputsAt(0).node().kind() == "aten::size" and node.inputsAt(0).node().inputsSize() == 1:
            fact(node, lambda _: node.inputsAt(0).node().inputsAt(0).type().dim())
    graph.setInsertPoint(graph.return_node())
    torch._C._jit_pass_erase_shape_information(graph)


def withoutInterfaces(module, graph, method):
    """Calls on an interface go to the class that the module has: freezing knows it."""
    if not graph.findNode("prim::CallMethod", True):
        return graph
    return torch._C._freeze_module(module, [], True, True)._get_method(method).graph


def normalised(path, example, method):
    """The method's graph; its first input is the module."""
    module = torch.jit.load(path)._c
    graph = module._get_method(method).graph.copy()
    torch._C._jit_pass_inline(graph)
    graph = withoutInterfaces(module, graph, method)
    if not any("Future" in str(node.output().type()) for node in graph.findAllNodes("prim::ListConstruct", True)):
        torch._C._jit_pass_inline_fork_wait(graph)
    constantAttributes(graph, module)
    tensors = tuple(value for value in example)
    for _ in range(4):
        before = str(graph)
        torch._C._jit_pass_constant_propagation_immutable_types(graph)
        graph = lowered(graph)
        torch._C._jit_pass_constant_loop_unrolling(graph)
        torch._C._jit_pass_peephole(graph, False)
        foldTables(graph, module)
        foldRanks(graph, (module, *tensors))
        torch._C._jit_pass_cse(graph)
        torch._C._jit_pass_dce(graph)
        if str(graph) == before:
            break
    return graph


# --- the graph of operators ---------------------------------------------------------------------------------------------------------
class Held:
    """A container whose content is known: the values in order, or by constant key."""

    def __init__(self, content):
        self.content = content


class Memory:
    def __init__(self, kind):
        self.kind = kind        # "made", "argument" or "attribute"
        self.touches = []       # (operator, does it write, is there a pure form)


def travels(type_):
    kind = type_.kind()
    return kind in TRAVELS or kind in INNER and all(travels(inner) for inner in type_.containedTypes())


def hasPureForm(node):
    name = node.kind()
    if not name.startswith("aten::") or not name.endswith("_") or node.owningBlock() is None:
        return False
    if name == "aten::copy_":
        return True
    return any(not any(argument.is_write for argument in schema.arguments) for schema in torch._C._jit_get_schemas_for_operator(name[:-1]))


class Operators:
    def __init__(self, graph):
        self.count = 0
        self.edges = defaultdict(set)   # operator -> operators that need it
        self.made = {}                  # name of a value -> operator, or None for arguments and constants
        self.known = {}                 # name of a value -> Held, or another name of the value
        self.memory = {}                # name of a value -> Memory
        self.paths = {}                 # name of a module -> its path
        self.attributes = {}            # path -> Memory
        self.assigned = defaultdict(list)
        self.lastEffect = None
        inputs = list(graph.inputs())
        self.paths[inputs[0].debugName()] = ""
        for value in inputs[1:]:
            self.made[value.debugName()] = None
            self.memory[value.debugName()] = Memory("argument")
        self.results = {value.debugName() for value in graph.outputs()}
        for node in graph.nodes():
            self.visit(node)
        self.keepTogether()

    # Values that stand for others.
    def resolve(self, name):
        while isinstance(self.known.get(name), str):
            name = self.known[name]
        return name

    def leaves(self, name):
        name = self.resolve(name)
        if isinstance(self.known.get(name), Held):
            content = self.known[name].content
            return [leaf for part in (content.values() if isinstance(content, dict) else content) for leaf in self.leaves(part)]
        return [name]

    def visit(self, node):
        kind = node.kind()
        names = [self.resolve(value.debugName()) for value in node.inputs()]
        if kind == "prim::Constant":
            self.made[node.output().debugName()] = None
        elif kind == "prim::GetAttr" and names[0] in self.paths:
            self.readAttribute(node, self.path(node, names[0]))
        elif not self.follow(node, kind, names):
            self.operator(node, kind)

    def path(self, node, owner):
        return (self.paths[owner] + "." + node.s("name")).lstrip(".")

    def readAttribute(self, node, path):
        name = node.output().debugName()
        if "torch" in str(node.output().type()) and node.output().type().kind() == "ClassType":
            self.paths[name] = path
            return
        self.made[name] = None
        self.memory[name] = self.attributes.setdefault(path, Memory("attribute"))

    def constant(self, value):
        node = value.node()
        return node.output().toIValue() if node.kind() == "prim::Constant" else None

    def follow(self, node, kind, names):
        """Containers of known content; False when the node is an operator."""
        outputs = [value.debugName() for value in node.outputs()]
        inputs = list(node.inputs())
        if kind == "aten::wait":  # where the fork stands, its body can be computed
            self.known[outputs[0]] = names[0]
            return True
        if kind == "aten::dict" and not names:
            self.known[outputs[0]] = Held({})
            return True
        if kind in MAKERS:
            if kind == "prim::DictConstruct":
                keys = [self.constant(key) for key in inputs[::2]]
                if None in keys:
                    return False
                self.known[outputs[0]] = Held(dict(zip(keys, names[1::2])))
            else:
                self.known[outputs[0]] = Held(list(names))
            return True
        held = self.known.get(names[0]) if names else None
        if not isinstance(held, Held):
            return False
        content, listed = held.content, isinstance(held.content, list)
        at = self.constant(inputs[1]) if len(inputs) > 1 else None
        if kind in ("prim::TupleUnpack", "prim::ListUnpack") and len(content) == len(outputs):
            self.known.update(zip(outputs, content))
        elif kind == "aten::append" and listed:
            content.append(names[1])
            self.known[outputs[0]] = names[0]
        elif kind == "aten::insert" and listed and at is not None:
            content.insert(at, names[2])
        elif kind == "aten::pop" and listed and at is not None:
            self.known[outputs[0]] = content.pop(at)
        elif kind in ("aten::__getitem__", "prim::TupleIndex") and at is not None and (not listed or -len(content) <= at < len(content)):
            self.known[outputs[0]] = content[at]
        elif kind == "aten::_set_item" and at is not None:
            content[at] = names[2]
        elif kind in ("aten::keys", "aten::len") or kind == "aten::__contains__" and at is not None:
            self.made[outputs[0]] = None
        elif kind == "aten::values" and not listed:
            self.known[outputs[0]] = Held(list(content.values()))
        else:
            return False
        return True

    # Operators.
    def edge(self, before, after):
        if before is not None and before != after:
            self.edges[before].add(after)

    def operator(self, node, kind):
        me = self.count
        self.count += 1
        for name in self.usedBy(node):
            for leaf in self.leaves(name):
                self.edge(self.made.get(leaf), me)
        if kind in EFFECTS:
            self.edge(self.lastEffect, me)
            self.lastEffect = me
        self.touch(node, me)
        for value in node.outputs():
            name = value.debugName()
            self.made[name] = me
            if not travels(value.type()) and kind != "prim::fork":
                for use in value.uses():
                    self.assigned["value " + name].append(use.user)
                self.assigned["value " + name].append(me)

    def usedBy(self, node):
        """Names from outside that the node or anything inside of it uses."""
        inside = set()
        found = []

        def walk(inner):
            for value in inner.inputs():
                if value.debugName() not in inside:
                    found.append(value.debugName())
            for block in inner.blocks():
                inside.update(value.debugName() for value in block.inputs())
                for deeper in block.nodes():
                    walk(deeper)
                    inside.update(value.debugName() for value in deeper.outputs())
                found.extend(value.debugName() for value in block.outputs() if value.debugName() not in inside)
        walk(node)
        return [self.resolve(name) for name in found]

    def touch(self, node, me):
        written = self.writes(node, True)
        if node.kind() == "prim::SetAttr":
            owner = self.resolve(node.inputsAt(0).debugName())
            if owner in self.paths:
                written = {id(self.attributes.setdefault(self.path(node, owner), Memory("attribute"))): False}
        touched = {}
        for name in self.usedBy(node):
            for leaf in self.leaves(name):
                if leaf in self.memory:
                    touched[id(self.memory[leaf])] = self.memory[leaf]
        if node.kind() == "prim::SetAttr":
            for memory in self.attributes.values():
                if id(memory) in written:
                    touched[id(memory)] = memory
        for key, memory in touched.items():
            for before, wrote, _ in memory.touches:
                if wrote:
                    self.edge(before, me)
            memory.touches.append((me, key in written, written.get(key, False)))
        self.aliases(node)

    def writes(self, node, top):
        """id of each memory that the node writes -> whether a pure operator could do it."""
        result = {}
        schema = node.schema()
        if schema != "(no schema)":
            for value, argument in zip(node.inputs(), torch._C.parse_schema(schema).arguments):
                if argument.is_write or argument.alias_info is not None and argument.alias_info.is_write:
                    for leaf in self.leaves(self.resolve(value.debugName())):
                        if leaf in self.memory:
                            result[id(self.memory[leaf])] = top and hasPureForm(node)
        for block in node.blocks():
            for inner in block.nodes():
                for key in self.writes(inner, False):
                    result[key] = False
        return result

    def aliases(self, node):
        """Results that are views share the memory of what they show."""
        schema = node.schema()
        sets = {}
        parsed = torch._C.parse_schema(schema) if schema != "(no schema)" else None
        if parsed:
            for value, argument in zip(node.inputs(), parsed.arguments):
                for name in argument.alias_info.before_set if argument.alias_info else ():
                    sets[name] = value.debugName()
        for i, value in enumerate(node.outputs()):
            info = parsed.returns[i].alias_info if parsed and i < len(parsed.returns) else None
            shown = [sets[name] for name in info.before_set if name in sets] if info else []
            leaves = [leaf for name in shown for leaf in self.leaves(self.resolve(name)) if leaf in self.memory]
            memory = self.memory[leaves[0]] if leaves else Memory("made")
            if not leaves:
                memory.touches.append((self.count - 1, False, False))
            self.memory[value.debugName()] = memory

    def keepTogether(self):
        for memory in {id(memory): memory for memory in self.memory.values()}.values():
            if not any(wrote and not pure or wrote and memory.kind == "attribute" for _, wrote, pure in memory.touches):
                continue
            touches = memory.touches
            if memory.kind != "argument":
                last = max(i for i, (_, wrote, _) in enumerate(touches) if wrote)
                touches = touches[:last + 1]
            self.join([me for me, _, _ in touches])
        for users in self.assigned.values():
            self.join([self.topLevel(user) for user in users])

    def topLevel(self, user):
        if isinstance(user, int):
            return user
        outputs = list(user.outputs())
        return self.made.get(outputs[0].debugName()) if outputs else None

    def join(self, group):
        group = [me for me in group if me is not None]
        for a, b in zip(group, group[1:]):
            self.edge(a, b)
            self.edge(b, a)

    def components(self):
        """The number of strongly connected components (Tarjan, without recursion)."""
        index, low, onStack, stack, found = {}, {}, set(), [], 0
        for root in range(self.count):
            if root in index:
                continue
            work = [(root, iter(sorted(self.edges[root])))]
            index[root] = low[root] = len(index)
            stack.append(root)
            onStack.add(root)
            while work:
                node, successors = work[-1]
                for successor in successors:
                    if successor not in index:
                        index[successor] = low[successor] = len(index)
                        stack.append(successor)
                        onStack.add(successor)
                        work.append((successor, iter(sorted(self.edges[successor]))))
                        break
                    if successor in onStack:
                        low[node] = min(low[node], index[successor])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == index[node]:
                        found += 1
                        while True:
                            member = stack.pop()
                            onStack.discard(member)
                            if member == node:
                                break
        return found


def count(directory, name, method="forward"):
    example = torch.load(directory / f"{name}.inputs.pt", weights_only=False)
    example = tuple(example.values()) if isinstance(example, dict) else example
    return Operators(normalised(str(directory / f"{name}.pt"), example, method)).components()


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        import torchvision  # noqa: F401  its operators
    except ImportError:
        pass
    directory = Path(arguments[0])
    names = arguments[1:] or sorted(path.name[:-len(".inputs.pt")] for path in directory.glob("*.inputs.pt"))
    for name in names:
        print(f"{name},{count(directory, name)}", flush=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
