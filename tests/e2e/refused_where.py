"""Where a model is refused: each refusal of `pipe-opt --list-refusals` is made by a module inside of others, and names the line of the
author's file and the module's path. What has no line names the attribute; texts have lines of their own."""
import importlib.util
import json
import sys
from pathlib import Path

import torch
from torch import nn

import e2e

CASES = e2e.SOURCE / "tests" / "passes" / "refusals"
REFUSED = 4
OF_ATTRIBUTES = {"meta-tensor": r"inner\.inner\.scale", "reserved-name": r"pipec_forward\.weight"}  # a line is of code, and a weight has none
OF_OUTERMOST = {"reserved-name"}  # deeper inside it is a name like any other
OF_METHODS = {"result-without-form"}  # what the method returns, wherever it was made
OF_FILES = {"values-dtype", "parameters-of-one-memory", "trained-container", "parameter-in-container", "state-with-gradient",
            "state-of-weight"}  # of a file of inputs; of weights, which have no place in the code
OF_TEXTS = {"no-text-form", "type-of-model"}  # of pipe-opt, whose input is no model's file

# Of the cases that are no programs of Python.
PROGRAMS = {
    "marker-arguments": """
def pipe_split(x: Tensor, y: Tensor) -> Tensor:
    return x

class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return pipe_split(x.abs(), x)
""",
    "marker-computes": """
def pipe_split(x: Tensor) -> Tensor:
    return x * 2

class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return pipe_split(x.relu())
""",
    "marker-in-block": """
def pipe_split(x: Tensor) -> Tensor:
    return x

class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            x = pipe_split(x.neg()).abs()
        return x
""",
    "module-as-value": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.fc]
        return kept[0].forward(x)
""",
    "module-in-block": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            x = self.fc(x.neg())
        return x
""",
    "cut-not-possible": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        z = self.second(y)
        for i in range(int(x.sum())):
            y[i % x.size(0)].add_(1)
        return y + z
""",
    "too-few-places": """
class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.relu()
        for i in range(int(x.sum())):
            y[i % x.size(0)].add_(1)
        return y
"""}
CUTS = {"cut-not-possible": ["--at", "inner.inner.second"], "marker-in-block": ["--split", "markers"], "module-in-block": ["--at", "inner.inner.fc"], "too-few-places": ["--stages", 8, "--inputs", "f32[2,8]"],
        **dict.fromkeys(["grad-mode", "hidden-tensors", "graph-state"], ["--train", "--at", "inner.inner.b", "--inputs", "f32[4,4]"])}


class Outer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor):
        return self.inner(x.neg())


def saved(program):
    """What the program saves, wrapped twice."""
    name = program.stem.replace("-", "_") + "_program"
    spec = importlib.util.spec_from_file_location(name, program)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    before, sys.argv = sys.argv, [str(program), "made.pt"]
    try:
        spec.loader.exec_module(module)
    finally:
        sys.argv = before
    torch.jit.script(Outer(Outer(torch.jit.load("made.pt")))).save("outer.pt")
    return "outer.pt"


class Where(e2e.Case):
    def setUp(self):
        for name, text in PROGRAMS.items():
            head = "import sys\nimport torch\nfrom torch import Tensor, nn\n"
            Path(f"{name}.py").write_text(f"{head}{text}\ntorch.jit.script(Model()).save(sys.argv[1])\n")

    def test(self):
        rows = {row["name"] for row in json.loads(e2e.run("pipe-opt", "--list-refusals").out)["refusals"]}
        programs = {path.stem: path for path in [*CASES.glob("*.py"), *Path(".").glob("*.py")] if path.stem not in OF_FILES}
        self.assertEqual(rows - OF_TEXTS - OF_FILES, set(programs), "each refusal has a program here or in tests/passes/refusals")
        for row, program in sorted(programs.items()):
            with self.subTest(refusal=row):
                self.one(row, program)

    def one(self, row, program):
        wrapped = saved(program)
        model, cuts = "made.pt" if row in OF_OUTERMOST else wrapped, CUTS.get(row, ["--at", "inner"])
        said = self.pipec(REFUSED, "pipe-compile", model, *cuts, "--dry-run").err.split("\nhelp: ")[0]
        if row in OF_ATTRIBUTES:
            self.assertRegex(said, f"attribute {OF_ATTRIBUTES[row]}: ")
        elif row in OF_METHODS:
            self.assertRegex(said, rf"forward of outer.pt at {Path(__file__).name}:\d+")
        else:
            self.assertRegex(said, rf"(at|near) {program.name}:\d+ in inner\.inner\b")


if __name__ == "__main__":
    e2e.main()
