"""pipe_split in every form: where the stages begin, the same numbers, and what is refused."""
import re
from pathlib import Path

import torch

import e2e
import marker_models

INPUTS = "f32[4,32]"
OPERATOR_LIBRARY = e2e.BIN.resolve().parent / "lib" / "libpipec_ops.so"


class Forms(e2e.Case):
    def save(self, build):
        torch.manual_seed(7)
        path = Path(f"{build.__name__}.pt")
        build().save(str(path))
        return path

    def threeStages(self, build, boundaries, *options):
        """Compiles without --stages; `boundaries` are the modules that each stage begins and ends with."""
        model = self.save(build)
        for inputs in ([], ["--inputs", INPUTS]):  # given cuts need no inputs
            plan = self.compiled(model, f"{model.stem}.pipe", *inputs, *options)
            self.assertEqual([(stage["first_module"], stage["last_module"]) for stage in plan["stages"]], boundaries)
        torch.save(torch.randn(4, 32), "in.pt")
        expected, = e2e.reference(torch.jit.load(model), [torch.load("in.pt")], 1)
        torch.save(expected, "expected.pt")
        for runs in (f"{model.stem}.pipe", model):
            self.pipec(0, "pipe-run", runs, "--inputs", "in.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt", *options,
                       saying="PASSED")

    def testScriptedWithTensor(self):
        self.threeStages(marker_models.scriptedWithTensor, [("a", "b"), ("c", "c"), ("d", "d")])

    def testScriptedWithoutArgument(self):
        self.threeStages(marker_models.scriptedWithoutArgument, [("a", "b"), ("c", "c"), ("d", "d")])

    def testPlainFunction(self):
        self.threeStages(marker_models.plainFunction, [("a", "b"), ("c", "c"), ("d", "d")])

    def testResultNotUsed(self):
        self.threeStages(marker_models.resultNotUsed, [("a", "b"), ("c", "c"), ("d", "d")])

    def testTraced(self):
        self.threeStages(marker_models.traced, [("a", "b"), ("c", "c"), ("d", "d")])

    def testInsideSubmodules(self):
        self.threeStages(marker_models.insideSubmodules, [("a", "outer.inner.b"), ("outer.inner.c", "outer.inner.c"), ("d", "d")])

    def testInsideConstantLoop(self):
        self.threeStages(marker_models.insideConstantLoop, [("layers.0", "layers.0"), ("layers.1", "layers.1"), ("d", "d")])

    def testOperator(self):
        if not OPERATOR_LIBRARY.exists():
            self.skipTest(f"{OPERATOR_LIBRARY} is not built")
        torch.ops.load_library(str(OPERATOR_LIBRARY))
        for options in (["--load-library", OPERATOR_LIBRARY], []):  # the commands know the operator by themselves
            self.threeStages(marker_models.operator, [("a", "b"), ("c", "c"), ("d", "d")], *options)

    def testReadme(self):
        """The lines that the README tells users to paste are a marker."""
        text = (e2e.SOURCE / "README.md").read_text(encoding="utf-8")
        found = re.search(r"@torch\.jit\.script\ndef pipe_split\(.*?\n(?: +.*\n)+", text)
        self.assertIsNotNone(found, "README.md shows no scripted pipe_split")
        self.assertLessEqual(len(found[0].splitlines()), 3)
        Path("pasted.py").write_text("import torch\nfrom torch import nn\n\n" + found[0] + '''

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(pipe_split(self.a(x)))


torch.jit.script(Model()).save("pasted.pt")
''')
        import runpy
        runpy.run_path("pasted.py", run_name="pasted")
        plan = self.compiled("pasted.pt", "pasted.pipe")
        self.assertEqual([stage["first_module"] for stage in plan["stages"]], ["a", "b"])

    def testSplitAutoIgnoresThem(self):
        plan = self.compiled(self.save(marker_models.scriptedWithTensor), "auto.pipe", "--split", "auto", "--stages", 2, "--inputs", INPUTS)
        self.assertEqual(len(plan["stages"]), 2)

    def testAtIgnoresThem(self):
        plan = self.compiled(self.save(marker_models.scriptedWithTensor), "at.pipe", "--at", "d")
        self.assertEqual([stage["first_module"] for stage in plan["stages"]], ["a", "d"])


class Refused(e2e.Case):
    save = Forms.save

    def testStagesDisagree(self):
        model = self.save(marker_models.scriptedWithTensor)
        self.compiled(model, "agree.pipe", "--stages", 3)
        for stages in (2, 4):
            self.refused(2, [f"--stages {stages} conflicts with 2 pipe_split markers (3 stages)"], "pipe-compile", model, "--stages", stages, "-o", "never.pipe")
        self.assertFalse(Path("never.pipe").exists())

    def insideBlock(self, build):
        """The line of this source tree in which the marker stands."""
        model = self.save(build)
        source = Path(marker_models.__file__).read_text().splitlines()
        start = next(i for i, line in enumerate(source) if line.startswith(f"def {build.__name__}("))
        line = next(i for i in range(start, len(source)) if "must name" in source[i]) + 1
        result = self.refused(4, ["pipe_split", f"marker_models.py:{line}"], "pipe-compile", model, "--inputs", INPUTS, "-o", "never.pipe")
        self.assertRegex(result.err, r"help: the nearest place is before (a branch|a loop) at marker_models.py:\d+; --nearest cuts there")
        self.assertFalse(Path("never.pipe").exists())

    def testInsideIf(self):
        self.insideBlock(marker_models.insideIf)

    def testInsideControlFlowWithNearest(self):
        """They move before it, or after it if nothing is before; a good one beside it stays."""
        for build, stages in ((marker_models.insideIf, 2), (marker_models.insideIfAndBehind, 3), (marker_models.insideFirstLoop, 2)):
            model = self.save(build)
            self.pipec(0, "pipe-compile", model, "--inputs", INPUTS, "--nearest", "-o", "inside.pipe", "--force",
                       saying=["pipe_split", "is not possible: it is inside a", "; cut before "])
            self.assertEqual(len(e2e.plan("inside.pipe")["stages"]), stages)

    def testTwoMoveToOnePlace(self):
        """As two modules of --at do: one cut, and the warning says so."""
        for build, stages in ((marker_models.insideBothWays, 2), (marker_models.beforeAndInsideLoop, 3)):
            result = self.pipec(0, "pipe-compile", self.save(build), "--nearest", "-o", "one.pipe", "--force",
                                saying="cut before that operator instead, at the same place as another marker, so both are one cut")
            self.assertNotIn("was dropped", result.err + result.out)
            self.assertEqual(len(e2e.plan("one.pipe")["stages"]), stages)

    def testInsideLoop(self):
        self.insideBlock(marker_models.insideLoop)

    def testSeveralTensors(self):
        self.refused(4, "pipe_split", "pipe-compile", self.save(marker_models.severalTensors), "--inputs", INPUTS, "-o", "never.pipe")

    def testNoMarker(self):
        model = self.save(marker_models.anotherFunction)
        self.refused(2, ["--split markers", "no pipe_split"], "pipe-compile", model, "--split", "markers", "-o", "never.pipe")
        self.refused(2, "no cuts are requested", "pipe-compile", model, "-o", "never.pipe")


if __name__ == "__main__":
    e2e.main()
