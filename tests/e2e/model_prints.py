"""What a model prints and warns of: a compile says it once, and not for every run that it tries; pipe-run says it for what it was
asked to run, and each warning once."""
import warnings
from pathlib import Path

import torch
from torch import nn

import e2e
import stock_models


class Talks(nn.Module):
    """In forward, in a submodule, in a branch and in a loop; texts with sizes differ from run to run."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        print("batch of", x.size(0))
        warnings.warn("this model is old")
        if x.size(0) > 1:
            warnings.warn("batch of " + str(x.size(0)) + " is large")
        x = self.a(x).relu()
        for i in range(2):
            print("round", i)
        return self.b(x)


class Counts(nn.Module):
    """Keeps state, and says so."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        warnings.warn("counting")
        print("called")
        return self.b(self.a(x).relu()) + self.calls


class Falls(nn.Module):
    """Says something before it fails."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x):
        print("about to look")
        if x.size(1) == 8:
            raise ValueError("not eight")
        return self.a(x)


class ModelPrints(e2e.Case):
    def save(self, build):
        torch.manual_seed(7)
        torch.jit.script(build().eval()).save(f"{build.__name__}.pt")
        return Path(f"{build.__name__}.pt")

    def compileIt(self, model, *more):
        return self.pipec(0, "pipe-compile", model, "--at", "b", "--inputs", "f32[4,8]", "-o", model.with_suffix(".pipe"), "--force", *more)

    def counts(self, text, *parts):
        return [text.count(part) for part in parts]

    def testNestedTensorsAreLibTorchsConcern(self):
        """The stock encoder makes them from a padding mask; that they are a prototype is no warning for its user."""
        stack = stock_models.EncoderPadding().eval()
        torch.jit.script(stack).save("encoder.pt")
        torch.save(stock_models.padded(4), "encoder-in.pt")
        for command in (["pipe-run", "encoder.pt"], ["pipe-compile", "encoder.pt", "--stages", 2, "--dry-run"]):
            self.assertNotIn("prototype", self.pipec(0, *command, "--inputs", "encoder-in.pt").err)

    def testACompileSaysItOnce(self):
        for how in ([], ["--verify", "run"], ["--cost", "measured", "--cost-budget", "20ms"]):
            with self.subTest(how=how):
                result = self.compileIt(self.save(Talks), *how)
                lines = result.err.splitlines()
                self.assertEqual([line for line in lines if not line.startswith(("note: ", "warning: "))], ["batch of 4", "round 0", "round 1"], result.err)
                self.assertEqual(self.counts(result.err, "this model is old", "batch of 4 is large", " is large"), [1, 1, 1], result.err)
                self.assertIn("warning: running the model: this model is old\n", result.err)
                self.assertNotIn("[W", result.err)  # as LibTorch would write it
                self.assertNotIn("this model is old", result.out)

    def testWithState(self):
        result = self.compileIt(self.save(Counts))
        self.assertEqual(self.counts(result.err, "counting", "called"), [1, 1], result.err)

    def testWithoutExampleNothingRuns(self):
        result = self.pipec(0, "pipe-compile", self.save(Talks), "--at", "b", "-o", "unchecked.pipe")
        self.assertNotIn("this model is old", result.err)

    def testRunsSayWhatTheyRun(self):
        """Prints of each micro-batch, of those alone; each warning once."""
        model = self.save(Talks)
        self.compileIt(model)
        for what in (model, model.with_suffix(".pipe")):
            with self.subTest(what=what):
                result = self.pipec(0, "pipe-run", what, "--inputs", "f32[6,8]", "--microbatches", 3)
                self.assertEqual(self.counts(result.err, "batch of 2\n", "round 0\n", "this model is old", "batch of 2 is large"), [3, 3, 1, 1], result.err)
                self.assertEqual(self.counts(result.err, "batch of"), [4], result.err)

    def testWhatComesBeforeAFailureIsSaid(self):
        result = self.refused(2, "not eight", "pipe-compile", self.save(Falls), "--stages", 1, "--inputs", "f32[4,8]", "-o", "falls.pipe")
        self.assertEqual(self.counts(result.err, "about to look"), [1], result.err)


if __name__ == "__main__":
    e2e.main()
