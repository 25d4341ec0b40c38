"""What the commands say: the reason of a failure in its first line, the same exit code for the same cause, a fix that works, and
JSON that nothing else is mixed into."""
import json
from collections import OrderedDict
from pathlib import Path

import torch
from torch import nn

import e2e
import odd_models

MODEL = e2e.MODELS / "mlp.pt"
INPUTS = e2e.MODELS / "mlp.inputs.pt"
USAGE, UNREADABLE, DAMAGED, MISMATCH = 2, 3, 5, 7


class Alone(nn.Module):
    def forward(self, x):
        return torch.sigmoid(torch.relu(x))


class Squares(nn.Module):
    """Returns its loss."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return (self.b(torch.relu(self.a(x))) ** 2).mean()


class WritesOver(Squares):
    """The gradient of tanh needs its result."""

    def forward(self, x):
        h = torch.tanh(self.a(x))
        h.add_(1)
        return self.b(h).pow(2).mean()


class WritesIntoAPart(Squares):
    def forward(self, x):
        first, second = torch.tanh(self.a(x)).split([3, 5], dim=1)
        first.mul_(2)
        return first.mean() + self.b(x).pow(2).mean() + second.mean()


class WritesAWeight(Squares):
    def forward(self, x):
        self.b.weight.mul_(0.9)
        return self.b(torch.tanh(self.a(x))).pow(2).mean()


class WritesOverOneOfTwo(Squares):
    def forward(self, x):
        x = torch.tanh(x)
        h = torch.tanh(self.a(x))
        h.add_(1)
        return self.b(h).pow(2).mean()


class TakesRange(Squares):
    """aminmax has no derivative."""

    def forward(self, x):
        h = self.a(x)
        if bool(x.sum() > 0):
            low, high = torch.aminmax(h, dim=1, keepdim=True)
            h = (h - low) / (high - low + 1)
        return self.b(h).pow(2).mean()


class Pieces(nn.Module):
    """A loop that ends when nothing is left, at any length."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        x = self.b(torch.relu(self.a(x)))
        count, rest = 0, x[0, :, 0]
        while rest.numel() > 0:
            count += 1
            rest = rest[3:]
        return x * count


class Normed(nn.Module):
    """Writes the buffers of its norms in training mode."""

    def __init__(self):
        super().__init__()
        self.norms = nn.Sequential(*[nn.BatchNorm1d(8) for _ in range(3)])

    def forward(self, x):
        return self.norms(x)


class Messages(e2e.Case):
    def save(self, build, path=None):
        torch.manual_seed(7)
        path = Path(path or f"{build.__name__}.pt")
        torch.jit.script(build().eval()).save(str(path))
        return path

    def firstLine(self, code, tool, *arguments):
        return next(line for line in self.refused(code, (), tool, *arguments).err.splitlines() if line.startswith("error: "))


class Failures(Messages):
    def testReasonIsInTheFirstLine(self):
        """The same message from the compiler, the reference and a stage."""
        model = self.save(odd_models.WantsThree)
        self.compiled(model, "three.pipe", "--at", "b", "--inputs", "f32[3,8]")
        for command in (["pipe-compile", model, "--at", "b", "--inputs", "f32[2,8]", "--dry-run"],
                        ["pipe-run", model, "--inputs", "f32[2,8]"],
                        ["pipe-run", "unchecked.pipe", "--inputs", "f32[2,8]", "--microbatches", 1]):
            with self.subTest(command=command):
                if command[1] == "unchecked.pipe":  # compiled without an example: sizes are not known, the model decides
                    self.compiled(model, "unchecked.pipe", "--at", "b")
                self.assertIn("ValueError: expected three samples, got 2", self.firstLine(USAGE, *command))

    def testCallsAreNamed(self):
        model = self.save(odd_models.WantsThree)
        result = self.refused(USAGE, ["\n  at odd_models.py:", "in check"], "pipe-run", model, "--inputs", "f32[2,8]")
        self.assertNotIn("<--- HERE", result.err)

    def testArgumentsAreShown(self):
        """A message about inputs that the model does not take describes them."""
        model = self.save(odd_models.WithState)
        torch.save((torch.ones(4, 6, 8, dtype=torch.int64), [torch.ones(1, 4, 8)] * 2), "int-in.pt")
        for command in (["pipe-compile", model, "--at", "b", "--dry-run"], ["pipe-run", model], ["pipe-inspect", model]):
            self.refused(USAGE, "\n  called with x: int64[4,6,8], state: (float32[1,4,8], float32[1,4,8])\n", *command, "--inputs", "int-in.pt")
        self.compiled(MODEL, "any.pipe", "--at", "layers.8")
        self.refused(USAGE, "\n  called with x: int64[2,64]\n", "pipe-run", "any.pipe", "--inputs", "i64[4,64]", "--microbatches", 2)

    def testTheModelsOwnErrorsHaveHelp(self):
        """Where nothing better is known than LibTorch's text."""
        model = self.save(odd_models.WantsThree)
        for command in (["pipe-compile", model, "--stages", 2, "--dry-run"], ["pipe-run", model]):
            self.refused(USAGE, "help: pass arguments that the model accepts: its own operators refuse those after \"called with\"", *command, "--inputs", "f32[2,8]")

    def testContainersAreNamedAsUsersDo(self):
        torch.save([torch.ones(4, 16)] * 2, "list.pt")
        self.pipec(MISMATCH, "pipe-run", MODEL, "--inputs", INPUTS, "--expect", "list.pt", saying="expected a list of 2, got ")
        torch.save(({"a": torch.ones(4, 64)},), "dict-in.pt")
        self.assertNotIn("Generic", self.refused(USAGE, "a dict of 1", "pipe-run", MODEL, "--inputs", "dict-in.pt").err)

    def testAFixedBatchIsNoReasonToScript(self):
        class Fixed(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

            def forward(self, x):
                return self.b(torch.relu(self.a(x)).view(4, 2, 4).flatten(1))
        torch.jit.script(Fixed().eval()).save("fixed-size.pt")
        result = self.pipec(0, "pipe-compile", "fixed-size.pt", "--at", "b", "--inputs", "f32[4,8]", "-o", "fixed-size.pipe")
        self.assertIn("take sizes from the input", result.err)
        self.assertNotIn("torch.jit.script", result.err)

    def testNoInputs(self):
        self.refused(USAGE, ["argument x", "--inputs FILE"], "pipe-run", MODEL)


class BatchDimensions(Messages):
    def setUp(self):
        self.model = self.save(odd_models.WithState)
        torch.save((torch.randn(4, 6, 8), (torch.randn(1, 4, 8), torch.randn(1, 4, 8))), "state-in.pt")

    def testTheSuggestionWorks(self):
        run = ["pipe-run", self.model, "--inputs", "state-in.pt", "--microbatches", 2, "--threads", 1]
        said = "note: the batch is dimension 1 of state, the choice that keeps samples independent; --batch-dim state=1 confirms it"
        self.pipec(0, *run, "--output", "state-out.pt", "--force", saying=said)
        self.assertNotIn("note: ", self.pipec(0, *run, "--batch-dim", "state=1", "--expect", "state-out.pt", "--rtol", 0, "--atol", 0, saying="PASSED").err)
        self.refused(USAGE, "--batch-dim state=1", *run, "--batch-dim", "state=none")
        compile_ = ["pipe-compile", self.model, "--at", "b", "--inputs", "state-in.pt", "-o", "state.pipe", "--force"]
        self.pipec(0, *compile_, saying=[said, "any micro-batch size"])
        result = self.pipec(0, *compile_, "--batch-dim", "state=1", saying="any micro-batch size")
        self.assertNotIn("note: ", result.err)
        self.pipec(0, "pipe-run", "state.pipe", "--inputs", "state-in.pt", "--microbatches", 2, *e2e.BITS, "--expect", "state-out.pt",
                   saying="PASSED")

    def testAnArtifactOfOneSize(self):
        self.pipec(0, "pipe-compile", self.model, "--at", "b", "--inputs", "state-in.pt", "--batch-dim", "state=none", "-o", "fixed.pipe",
                   saying="note: the model accepts only batches of 4 samples; with --batch-dim state=1, test runs with other numbers of samples succeed")
        self.refused(USAGE, ["expected 4 samples (the model's constants, or the size of state, which every micro-batch gets whole, fix it)", "compile with --batch-dim state=1"], "pipe-run", "fixed.pipe", "--inputs", "state-in.pt",
                     "--microbatches", 2)
        self.compiled(self.model, "unknown.pipe", "--at", "b")
        self.refused(USAGE, ["expected a batch of 4", "when you compile the model", "--batch-dim state=1"], "pipe-run", "unknown.pipe", "--inputs",
                     "state-in.pt", "--microbatches", 2)

    def testOneOfSeveralIsNamed(self):
        """What the user does not name is looked for all the same: beside the named dimension of a state its other one."""
        model = self.save(odd_models.WithTwoStates)
        torch.save((torch.randn(4, 6, 8), torch.randn(1, 4, 8), torch.randn(1, 4, 8)), "two-in.pt")
        run = ["pipe-run", model, "--inputs", "two-in.pt", "--microbatches", 2, "--threads", 1, "--force"]
        wrong = self.refused(USAGE, "--batch-dim h=1,c=1", *run, "--batch-dim", "h=none,c=none")
        self.assertNotIn("constants", wrong.err)  # what was not cut fixes the batch, not the model
        self.pipec(0, *run, "--batch-dim", "h=1,c=1", "--output", "two-out.pt")
        self.pipec(0, *run, "--expect", "two-out.pt", "--rtol", 0, "--atol", 0, saying=["PASSED", "--batch-dim h=1,c=1 confirms it"])
        self.pipec(0, *run, "--batch-dim", "h=1", "--expect", "two-out.pt", "--rtol", 0, "--atol", 0, saying="PASSED")
        for named in ("h=1", "x=0", "c=1,h=1"):
            result = self.pipec(0, "pipe-compile", model, "--at", "b", "--inputs", "two-in.pt", "-o", "two.pipe", "--force", "--batch-dim", named,
                                saying="any micro-batch size")
            self.assertNotIn("note: ", result.err)
            self.pipec(0, "pipe-run", "two.pipe", "--inputs", "two-in.pt", "--microbatches", 2, *e2e.BITS, "--expect", "two-out.pt",
                       saying="PASSED")

    def testSizesThatAgreeByChance(self):
        """As many samples as layers, or as steps: the dimensions without a name are still found."""
        model = self.save(odd_models.StepsFirst)
        for steps, samples in ((5, 2), (4, 4), (2, 2), (5, 8)):
            torch.save((torch.randn(steps, samples, 8), torch.randn(2, samples, 8), torch.rand(samples, steps)), "chance-in.pt")
            run = ["pipe-run", model, "--inputs", "chance-in.pt", "--threads", 1, "--force"]
            self.pipec(0, *run, "--batch-dim", "x=1,h=1,mask=0", "--output", "chance-out.pt")
            for named in ("x=1", "h=1"):
                with self.subTest(steps=steps, samples=samples, named=named):
                    result = self.pipec(0, "pipe-compile", model, "--at", "b", "--inputs", "chance-in.pt", "-o", "chance.pipe", "--force",
                                        "--batch-dim", named, saying="any micro-batch size")
                    self.assertNotIn("note: ", result.err)
                    for parts in {2, samples // 2, samples}:
                        self.pipec(0, *run, "--batch-dim", named, "--microbatches", parts, "--expect", "chance-out.pt", saying="PASSED")

    def testAMicroBatchOfASizeByChance(self):
        """What does not follow the batch does not follow a micro-batch that is as large as it."""
        torch.save((torch.randn(8, 8), torch.randn(2, 8)), "rows-in.pt")
        run = ["pipe-run", self.save(odd_models.SamplesByRows), "--inputs", "rows-in.pt", "--threads", 1]
        self.pipec(0, *run, "--output", "rows-out.pt", "--force")
        for parts in (2, 4, 8):
            self.pipec(0, *run, "--microbatches", parts, "--expect", "rows-out.pt", saying="PASSED")

    def testWhatIsNamedIsNotTheBatch(self):
        self.pipec(0, "pipe-compile", self.save(odd_models.WithState), "--at", "b", "--inputs", "state-in.pt", "--batch-dim", "state=2", "--dry-run",
                   saying="note: the model accepts only batches of 8 samples, or --batch-dim does not name its batch: ")

    def testTheNamedOneIsTheBatch(self):
        """A table with as many rows as there are samples, before the argument whose batch is named."""
        model = self.save(odd_models.TableAndSamples)
        plan = self.compiled(model, "table.pipe", "--at", "b", "--inputs", "f32[4,8],f32[4,8]", "--batch-dim", "x=0")
        self.assertEqual([argument["batch_dim"] for argument in plan["signature"]["inputs"]], [None, 0])

    def testATableBeforeTheSamples(self):
        """A first tensor that no result follows is no batch, with as many rows as there are samples or not."""
        model = self.save(odd_models.TableAndSamples)
        for samples in (4, 6):
            with self.subTest(samples=samples):
                torch.save((torch.randn(4, 8), torch.randn(samples, 8)), "table-in.pt")
                plan = self.compiled(model, "free.pipe", "--at", "b", "--inputs", "table-in.pt")
                self.assertEqual([argument["batch_dim"] for argument in plan["signature"]["inputs"]], [None, 0])
                run = ["--inputs", "table-in.pt", "--threads", 1]
                self.pipec(0, "pipe-run", model, *run, "--output", "table-out.pt", "--force")
                for what in (model, "free.pipe"):
                    for parts in (1, 2, 3):
                        self.pipec(0, "pipe-run", what, *run, "--microbatches", parts, "--expect", "table-out.pt", saying="PASSED")

    def testWhatWasTypedIsNoHelp(self):
        model = self.save(odd_models.WithState)
        torch.save((torch.randn(4, 6, 9), (torch.randn(1, 4, 8), torch.randn(1, 4, 8))), "wide-in.pt")
        run = ["pipe-run", model, "--inputs", "wide-in.pt", "--microbatches", 2]
        for named in ((), ("--batch-dim", "state=1")):  # no dimension helps against a wrong width
            self.assertNotIn("--batch-dim", self.refused(USAGE, (), *run, *named).err)

    def testTheSuggestionIsTried(self):
        """Two rows per sample: a dimension of another meaning that has the size of the batch is not suggested."""
        model, inputs = self.save(odd_models.RowsPerSample), ["--inputs", "f32[4,8],f32[8,4]"]
        failed = self.refused(USAGE, "must match the size of tensor b", "pipe-run", model, *inputs, "--microbatches", 2)
        self.assertNotIn("--batch-dim y=1", failed.err)
        fixed = self.pipec(0, "pipe-compile", model, "--at", "b", *inputs, "-o", "rows.pipe", saying="note: only batches of 4 samples run: y has 2 rows per sample")
        self.assertNotIn("--batch-dim", fixed.err)
        failed = self.refused(USAGE, "4 samples", "pipe-run", "rows.pipe", *inputs, "--microbatches", 2)
        self.assertNotIn("--batch-dim y=1", failed.err)

    def testSizesThatDisagree(self):
        self.refused(USAGE, ["expected a batch of 4", "--batch-dim state=1"], "pipe-compile", self.model, "--at", "b", "--dry-run",
                     "--inputs", "state-in.pt", "--batch-dim", "x=0,state=0")


class FixedBatches(Messages):
    """A model with its batch baked in by tracing: the size is said, and how to trace it again."""
    def setUp(self):
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for build in (odd_models.BakedView, odd_models.BakedZeros, odd_models.BakedFlat, odd_models.BakedState):
                torch.jit.trace(build().eval(), torch.randn(4, 8), check_trace=False).save(f"{build.__name__}.pt")

    def testEvenBatchesAreSaid(self):
        """A model that halves its batch: the reason why no other size was found, and the size that runs too."""
        self.pipec(0, "pipe-compile", self.save(odd_models.EvenBatches), "--at", "b", "--inputs", "f32[4,8]", "-o", "even.pipe",
                   saying=["note: the model accepts only batches of 4 samples: a test run with another number of samples failed (",
                           "it runs with 8 samples: an example of 8 gives micro-batches of 8"])
        self.pipec(0, "pipe-run", "even.pipe", "--inputs", "f32[8,8]", "--microbatches", 2)
        self.pipec(0, "pipe-compile", "EvenBatches.pt", "--at", "b", "--inputs", "f32[6,8]", "-o", "six.pipe", saying="it runs with 12 samples")

    def testOtherSizesAreRefused(self):
        saying = ["expected a batch of 4 samples (the model's constants fix it), got 2: ", "x.size(0)", "len(x)", "a trace makes constants"]
        for model in ("BakedView.pt", "BakedZeros.pt", "BakedFlat.pt", "BakedState.pt"):
            for command in (["pipe-compile", model, "--at", "b", "--dry-run"], ["pipe-run", model], ["pipe-inspect", model]):
                self.refused(USAGE, [*saying, "called with x: float32[2,8]"], *command, "--inputs", "f32[2,8]")
            self.refused(USAGE, saying, "pipe-run", model, "--inputs", "f32[4,8]", "--microbatches", 2)
            self.pipec(0, "pipe-compile", model, "--at", "b", "--inputs", "f32[4,8]", "-o", "baked.pipe", "--force",
                       saying=["batch: only micro-batches of 4 samples", "note: the model accepts only batches of 4 samples: ", "x.size(0)"])
            self.refused(USAGE, ["micro-batch 0: expected 4 samples (the model's constants fix it), got 2", "choose --microbatches", "x.size(0)"],
                         "pipe-run", "baked.pipe", "--inputs", "f32[4,8]", "--microbatches", 2)
            self.pipec(0, "pipe-run", "baked.pipe", "--inputs", "f32[8,8]", "--microbatches", 2)
            self.compiled(model, "sizes.pipe", "--at", "b")
            self.refused(USAGE, "compile it again with them as --inputs", "pipe-run", "sizes.pipe", "--inputs", "f32[2,8]", "--microbatches", 1)

    def testInputsThatContradictEachOtherFixNothing(self):
        model = self.save(odd_models.Weighted)
        for command in (["pipe-compile", model, "--at", "b", "--dry-run"], ["pipe-run", model]):
            refused = self.refused(USAGE, ["error: x has 2 samples, weight has 3: ", "called with x: float32[2,5,8], weight: float32[3,1,1]", "help: pass inputs whose sizes agree"],
                                   *command, "--inputs", "f32[2,5,8],f32[3,1,1]")
            self.assertNotIn("constants", refused.err)
            refused = self.refused(USAGE, "dimension 0 of x and weight has size 2, dimension 1 of x has size 5, and the model runs only if they agree", *command, "--inputs", "f32[2,5,8],f32[2,1]")
            self.assertNotIn("constants", refused.err)

    def testInputsThatContradictEachOtherInMicroBatches(self):
        """The sizes are those of the inputs, not those of micro-batches; a size that only a micro-batch has fits by chance."""
        model = self.save(odd_models.Weighted)
        for rows in (3, 6, 2):
            refused = self.refused(USAGE, [f"error: x has 4 samples, weight has {rows}: ", "help: pass inputs whose sizes agree"],
                                   "pipe-run", model, "--inputs", f"f32[4,8],f32[{rows},1]", "--microbatches", 2)
            self.assertNotIn("constants", refused.err)
        self.pipec(0, "pipe-run", model, "--inputs", "f32[4,8],f32[4,1]", "--microbatches", 2)
        self.pipec(0, "pipe-run", model, "--inputs", "f32[4,8],f32[1,1]", "--microbatches", 2)
        self.pipec(0, "pipe-run", model, "--inputs", "f32[4,8],f32[2,1]", "--microbatches", 2, "--batch-dim", "weight=none")

    def testWhatIsNotTheBatchIsNoBatch(self):
        """A wrong width names sizes too; no batch mends it."""
        result = self.refused(USAGE, "called with x: float32[2,9]", "pipe-run", "BakedView.pt", "--inputs", "f32[2,9]")
        self.assertNotIn("expected a batch", result.err)


class Json(Messages):
    def document(self, code, *command):
        return json.loads(self.pipec(code, *command, "--json").out)

    def testWhatTheModelPrintsIsElsewhere(self):
        model = self.save(odd_models.Talks)
        self.document(0, "pipe-compile", model, "--at", "b", "--inputs", "f32[2,8]", "-o", "talks.pipe", "--force")
        for runs in (model, "talks.pipe"):
            self.document(0, "pipe-run", runs, "--inputs", "f32[2,8]")
            self.assertIn("half way 1", e2e.run("pipe-run", runs, "--inputs", "f32[2,8]", "--microbatches", 2).err)

    def testOptionsOfCompile(self):
        options = self.document(0, "pipe-compile", MODEL, "--at", "layers.8", "-o", "options.pipe", "--force")["options"]
        self.assertEqual(options, {
            "model": str(MODEL), "o": "options.pipe", "at": ["layers.8"], "method": "forward", "batch_dim": [], "merge": [], "tied": [], "infer": False,
            "keep_eval": [], "verify": "graph", "microbatches": 2, "ranks": 2, "schedule": "forward-only", "load_library": [],
            "train": False, "timing": False, "dry_run": False, "force": True})
        options = self.document(0, "pipe-compile", MODEL, "--stages", 2, "--split", "auto", "--inputs", INPUTS, "--dry-run", "--infer",
                                "--batch-dim", "x=0", "--tied", "transmit", "--keep-eval", "layers.0", "--ranks", 1)["options"]
        for name, value in {"stages": 2, "split": "auto", "inputs": str(INPUTS), "dry_run": True, "infer": True, "batch_dim": ["x=0"],
                            "tied": ["transmit"], "keep_eval": ["layers.0"], "ranks": 1}.items():
            self.assertEqual(options[name], value, name)

    def testOptionsOfRun(self):
        options = self.document(0, "pipe-run", MODEL, "--inputs", INPUTS, "--threads", 1, "--output", "json-out.pt", "--force")["options"]
        self.assertEqual(options, {
            "inputs": str(INPUTS), "output": "json-out.pt", "force": True, "load_library": [], "microbatches": 1, "device": ["cpu"],
            "threads": 1, "seed": 0, "repeat": 1, "warmup": 0, "method": "forward", "batch_dim": [], "merge": [], "infer": False, "keep_eval": []})
        run = self.document(0, "pipe-run", MODEL, "--inputs", INPUTS, *e2e.BITS, "--expect", "json-out.pt")
        for name, value in {"expect": "json-out.pt", "rtol": 0, "atol": 0}.items():
            self.assertEqual(run["options"][name], value, name)
        self.assertEqual((run["compare"]["equal"], run["compare"]["numbers"]), (True, 20))

    def testNothingCompared(self):
        torch.save(torch.ones(3, 3), "other-shape.pt")
        command = ["pipe-run", MODEL, "--inputs", INPUTS, "--expect", "other-shape.pt"]
        self.assertNotIn("compared:", self.pipec(MISMATCH, *command, saying="FAILED: ").out)
        self.assertIsNone(self.document(MISMATCH, *command)["compare"]["max_abs"])


class MissingFiles(Messages):
    def testAllSayItAlike(self):
        self.compiled(MODEL, "there.pipe", "--at", "layers.8")
        for option, command in (
                ("", ["pipe-compile", "none"]), ("", ["pipe-run", "none"]), ("", ["pipe-run", "none", "--train", "--schedule", "1f1b"]), ("", ["pipe-inspect", "none"]), ("", ["pipe-opt", "none"]),
                ("", ["pipe-merge", "none", "-o", "m.pt"]), ("", ["pipe-schedule", "none.csv"]), ("", ["pipe-merge", "none", "-o", "m.pt", "--json"]),
                ("--against: ", ["pipe-check", "there.pipe", "--against", "none"]),
                ("--case: ", ["pipe-check", "there.pipe", "--case", "none"]), ("", ["pipe-compile", MODEL, "--inputs", "none"]),
                ("", ["pipe-run", "there.pipe", "--inputs", "none"]),
                ("--cost: ", ["pipe-compile", MODEL, "--inputs", INPUTS, "--stages", 2, "--cost", "none"]),
                ("--cluster: ", ["pipe-compile", MODEL, "--inputs", INPUTS, "--cluster", "none"]),
                ("--schedule: ", ["pipe-compile", MODEL, "--at", "layers.8", "--schedule", "none.csv"]),
                ("--schedule: ", ["pipe-run", "there.pipe", "--inputs", INPUTS, "--schedule", "none.csv"]),
                ("--costs: ", ["pipe-schedule", "1f1b", "--costs", "none"]), ("--cluster: ", ["pipe-schedule", "1f1b", "--cluster", "none"])):
            with self.subTest(command=command):
                name = "none.csv" if "none.csv" in command else "none"
                self.assertIn(f"error: {option}cannot read {name}: no such file or directory", self.firstLine(8, *command))
        self.pipec(8, "pipe-check", "none", saying="FAILED: cannot read none: no such file or directory")


class CommandLines(Messages):
    def testNobodyListens(self):
        """A reader of stderr that went away changes no exit code."""
        import os
        import subprocess
        reader, writer = os.pipe()
        os.close(reader)
        self.assertEqual(subprocess.run([e2e.BIN / "pipe-compile", "nowhere.pt"], stderr=writer).returncode, 8)
        os.close(writer)

    def testNothingToRead(self):
        self.refused(USAGE, "standard input: expected a model as text, got nothing", "pipe-opt")
        self.refused(UNREADABLE, "/dev/null: expected at least one model, got none", "pipe-opt", "/dev/null")

    def testEmptyValues(self):
        self.refused(USAGE, "-o: expected a value, got none", "pipe-compile", MODEL, "--stages", 2, "--inputs", INPUTS, "-o", "")
        self.refused(USAGE, "--inputs: expected a value, got none", "pipe-run", MODEL, "--inputs", "")

    def testCutsAndStages(self):
        self.refused(USAGE, "--stages 3 conflicts with 1 --at cut (2 stages)", "pipe-compile", MODEL, "--at", "layers.8", "--stages", 3,
                     "--dry-run")

    def testOnlyOneSaysWhereToCut(self):
        for how in ("auto", "markers"):
            self.refused(USAGE, f"--at: expected --split at with it, got --split {how}", "pipe-compile", MODEL, "--at", "head", "--split", how,
                         "--stages", 2, "--inputs", INPUTS, "--dry-run")

    def testNothingFarIsSuggested(self):
        result = self.refused(USAGE, ["the model calls no module zzzzzz", "pipe-inspect"], "pipe-compile", MODEL, "--at", "zzzzzz", "--dry-run")
        self.assertNotIn("did you mean", result.err)
        self.refused(USAGE, "did you mean layers.8?", "pipe-compile", MODEL, "--at", "layer.8", "--dry-run")

    def testUnknownNames(self):
        self.refused(USAGE, ["--batch-dim: expected an argument of forward (x), got y"],
                     "pipe-compile", MODEL, "--at", "layers.8", "--batch-dim", "y=0", "--dry-run")
        self.refused(USAGE, ["--batch-dim: expected an argument of forward (x), got y"],
                     "pipe-run", MODEL, "--batch-dim", "y=0", "--inputs", INPUTS)
        self.refused(USAGE, ["--tied: expected a weight of the model, got head.weigth", "did you mean head.weight?"],
                     "pipe-compile", MODEL, "--at", "layers.8", "--tied", "head.weigth=transmit", "--dry-run")

    def testCheckOfAModel(self):
        self.refused(USAGE, [str(MODEL), "expected an artifact", "got a TorchScript model", "pipe-compile"], "pipe-check", MODEL)
        Path("file.txt").write_text("hello")
        self.refused(USAGE, ["file.txt", "got text"], "pipe-check", "file.txt")


class Inspect(Messages):
    def testCosts(self):
        plain = self.pipec(0, "pipe-inspect", MODEL).out
        self.assertNotIn("cost", plain)
        table = self.pipec(0, "pipe-inspect", MODEL, "--inputs", INPUTS, saying="cost").out
        self.assertRegex(table, r"\(model\).* 100.0 %")
        modules = {module["name"]: module for module in json.loads(
            self.pipec(0, "pipe-inspect", MODEL, "--inputs", INPUTS, "--json").out)["modules"]}
        self.assertGreaterEqual(modules[""]["cost_flops"], modules["layers"]["cost_flops"] + modules["head"]["cost_flops"])
        self.assertGreater(modules["layers"]["cost_flops"], modules["layers.0"]["cost_flops"])
        self.assertGreater(modules["layers.0"]["cost_flops"], 0)

    def testModulesOfStages(self):
        plan = self.compiled(MODEL, "inspect.pipe", "--at", "layers.8")
        stages = json.loads(self.pipec(0, "pipe-inspect", "inspect.pipe", "--json").out)["modules"]
        self.assertEqual([rows[0]["parameter_bytes"] for rows in stages], [stage["parameter_bytes"] for stage in plan["stages"]])
        self.assertIn("head", [row["name"] for row in stages[1]])
        self.assertNotIn("head", [row["name"] for row in stages[0]])
        self.refused(USAGE, "--method: expected --inputs with it", "pipe-inspect", MODEL, "--method", "step")
        self.refused(USAGE, "--inputs: expected a TorchScript file", "pipe-inspect", "inspect.pipe", "--inputs", INPUTS)

    def testStagesOfNoModule(self):
        self.compiled(self.save(Alone), "alone.pipe", "--stages", 2, "--inputs", "f32[4,8]")
        run = ["pipe-run", "alone.pipe", "--inputs", "f32[4,8]", "--microbatches", 2]
        self.assertRegex(self.pipec(0, *run).out, r"(?m)^ +0 .* -$")
        self.assertEqual([stage["modules"] for stage in json.loads(self.pipec(0, *run, "--json").out)["stages"]], ["-", "-"])

    def testDamaged(self):
        self.compiled(MODEL, "damaged.pipe", "--at", "layers.8")
        with open("damaged.pipe/stage-1.pt", "ab") as file:
            file.write(b"x")
        self.refused(DAMAGED, "stage-1.pt", "pipe-inspect", "damaged.pipe")


class NextSteps(Messages):
    """Messages that name what to pass."""

    def testATrainingThatTrainsNothing(self):
        note = "note: no --optimizer: weights stay as they are, only gradients are computed"
        run = ["pipe-run", self.save(Squares), "--train", "--inputs", "f32[4,8]", "--force"]
        self.pipec(0, *run, "--output", "weights.pt", saying=note)
        self.pipec(0, *run, "--checkpoint", "checkpoints", saying=note)
        self.pipec(0, *run, "--steps", 2, saying=note)
        for other in (["--emit-grads", "gradients.pt", "--output", "weights.pt"], ["--optimizer", "SGD,lr=0.1", "--output", "weights.pt"], []):
            self.assertNotIn("no --optimizer", self.pipec(0, *run, *other).err)

    def testSettingsOfTheOptimizer(self):
        self.refused(USAGE, ["unknown option --lr", "help: pass it with the optimizer, as in --optimizer sgd,lr=0.1"], "pipe-run", MODEL, "--lr", 0.1)

    def testSchedulesInCapitals(self):
        model = self.save(Squares)
        plan = self.compiled(model, "squares.pipe", "--train", "--inputs", "f32[2,8]", "--stages", 2, "--schedule", "1F1B")
        self.assertEqual(plan["schedule"], "1f1b")
        self.pipec(0, "pipe-run", "squares.pipe", "--train", "--inputs", "f32[4,8]", "--schedule", "GPipe")
        self.pipec(0, "pipe-schedule", "1F1B", "--ranks", 2, saying="1f1b")

    def testSchedulesOfTrainings(self):
        help_ = "1f1b is a schedule of a training: pass --train with it"
        self.refused(USAGE, help_, "pipe-compile", MODEL, "--stages", 2, "--inputs", INPUTS, "--schedule", "1f1b", "--dry-run")
        self.compiled(MODEL, "mlp.pipe", "--stages", 2, "--inputs", INPUTS)
        self.refused(USAGE, help_, "pipe-run", "mlp.pipe", "--inputs", INPUTS, "--schedule", "1f1b")

    def testSizesThatAreNotTried(self):
        """A second example lets the sizes vary that a loop forbids to try."""
        model = self.save(Pieces)
        self.pipec(0, "pipe-compile", model, "--stages", 2, "--inputs", "f32[2,6,8]", "-o", "one.pipe",
                   saying=["note: sizes beside the batch stay as in --inputs: ", "a second --inputs of another size"])
        self.refused(USAGE, ["dimension 1: expected size 6, got 9", "as a second --inputs beside the first"], "pipe-run", "one.pipe",
                     "--inputs", "f32[2,9,8]")
        two = ["--inputs", "f32[2,6,8]", "--inputs", "f32[2,9,8]"]
        said = self.pipec(0, "pipe-compile", model, "--stages", 2, *two, "-o", "both-sizes.pipe")
        self.assertNotIn("sizes beside the batch stay", said.err)
        self.pipec(0, "pipe-run", "both-sizes.pipe", "--inputs", "f32[2,15,8]")

    def testWrittenStateIsShort(self):
        torch.jit.script(Normed().train()).save("normed.pt")
        said = self.pipec(0, "pipe-compile", "normed.pt", "--stages", 2, "--inputs", "f32[4,8]", "--dry-run")
        self.assertRegex(said.err, r"the model writes state \(([^ ,]+, ){3}[^ ,]+ and 5 others\)")

    def testTooManyInputs(self):
        torch.save((torch.randn(4, 64), torch.randn(4, 10)), "pair.pt")
        self.refused(USAGE, ["pair.pt: arguments: expected at most 1 (x), got 2", "pass --train --loss LOSS.pt"], "pipe-compile", MODEL,
                     "--stages", 2, "--inputs", "pair.pt", "--dry-run")

    def testNoLoss(self):
        self.refused(USAGE, "--loss LOSS.pt", "pipe-compile", MODEL, "--train", "--stages", 2, "--inputs", INPUTS, "-o", "none.pipe")

    def testABackwardThatPyTorchRefuses(self):
        """The message names the line of the operator, if the model has only one such operator, and gives no advice for Python."""
        torch.save((torch.ones(4, 8),), "up.pt")
        torch.save((torch.cat([-torch.ones(4, 8), torch.ones(4, 8)]),), "down-up.pt")
        written = r"one of the variables .* modified by an inplace operation: .* is at version 1; expected version 0 instead"
        copy, other = "help: the model writes over a value ", "help: the loss depends on what this operator makes: "
        for build, message, help in ((WritesOver, written + r" \(TanhBackward0 is that of aten::tanh at messages\.py:\d+\)", copy),
                                     (WritesOverOneOfTwo, written, copy),
                                     (TakesRange, r"derivative for aten::aminmax is not implemented \(aten::aminmax at messages\.py:\d+\)", other)):
            model = self.save(build)
            for where, command in (("--train: the model's backward", ["pipe-compile", model, "--train", "--stages", 2, "--inputs", "up.pt"]),
                                   ("step 1: the backward of micro-batch 0", ["pipe-run", model, "--train", "--inputs", "up.pt", "--microbatches", 2])):
                with self.subTest(build.__name__, command=command[0]):
                    said = self.refused(USAGE, help, *command).err
                    self.assertRegex(said, f"error: {where}: {message}\n")
                    self.assertNotRegex(said, "Hint|anomaly")
        # What PyTorch refuses in the forward already.
        self.refused(USAGE, ["modified inplace", "help: the model writes where gradients do not allow it: write into a copy"],
                     "pipe-run", self.save(WritesIntoAPart), "--train", "--inputs", "up.pt", "--microbatches", 2)
        weight = self.save(WritesAWeight)
        for where, command in (("--train: running the model", ["pipe-compile", weight, "--train", "--stages", 2, "--inputs", "up.pt"]),
                               ("step 1: micro-batch 0", ["pipe-run", weight, "--train", "--inputs", "up.pt", "--microbatches", 2])):
            with self.subTest(command=command[0]):
                self.refused(USAGE, [f"error: {where}: RuntimeError: a leaf Variable that requires grad is being used in an in-place operation", "called with x: float32[",
                                     "help: the model writes where gradients do not allow it: write into a copy"], *command)
        # The branch that the example takes has a derivative.
        torch.save((-torch.ones(4, 8),), "down.pt")
        for schedule, part in (("1f1b", ""), ("zb-h1", " to the inputs")):
            self.compiled(model, "range.pipe", "--train", "--stages", 2, "--schedule", schedule, "--inputs", "down.pt")
            self.refused(USAGE, [f", micro-batch 1: the backward{part}: derivative for aten::aminmax is not implemented\n", other], "pipe-run", "range.pipe",
                         "--train", "--inputs", "down-up.pt", "--microbatches", 2)

    def testDtypeOfWeights(self):
        self.refused(USAGE, "help: x is float16, and the weights are float32: convert one of the two", "pipe-compile", MODEL, "--stages", 2,
                     "--inputs", "f16[4,64]", "--dry-run")


class Names(Messages):
    def testPathsWithSpacesAndOtherLetters(self):
        folder = Path("ein Ordner für Modelle")
        folder.mkdir()
        model = self.save(odd_models.SharedBlock, folder / "層 1.pt")
        self.pipec(0, "pipe-compile", model, "--at", "last", saying="wrote")
        for command in (["pipe-run", folder / "層 1.pipe", "--inputs", "f32[4,32]", "--output", folder / "aus gabe.pt"],
                        ["pipe-check", folder / "層 1.pipe"], ["pipe-inspect", folder / "層 1.pipe"], ["pipe-inspect", model]):
            self.pipec(0, *command)
            self.pipec(0, *command, *(["--force"] if "--output" in command else []), "--json", env={"LC_ALL": "C"})

    def testModulesCalledWhatNoClassMayBe(self):
        """Also two that would come to the same name of a class."""
        blocks = [("a b", "c"), ("a", "b_c"), ("a_b", "c"), ("a/b", "x#2"), ("last one", "a=b"), ("1", "2")]
        model = nn.Sequential(OrderedDict((outer, nn.Sequential(OrderedDict([(inner, nn.Linear(8, 8))]))) for outer, inner in blocks))
        torch.manual_seed(7)
        torch.jit.script(model.eval()).save("odd-names.pt")
        torch.save((torch.randn(4, 8),), "odd-in.pt")
        self.pipec(0, "pipe-run", "odd-names.pt", "--inputs", "odd-in.pt", "--threads", 1, "--output", "odd-out.pt")
        for cut in ("a/b", "last one.a=b", "a_b"):
            plan = self.compiled("odd-names.pt", "odd.pipe", "--at", cut, "--inputs", "odd-in.pt")
            self.pipec(0, "pipe-run", "odd.pipe", "--inputs", "odd-in.pt", "--microbatches", 1, *e2e.BITS, "--expect", "odd-out.pt",
                       saying="PASSED")
            names = [key for stage in plan["stages"] for key in torch.jit.load(f"odd.pipe/{stage['file']}").state_dict()]
            self.assertEqual(sorted(names), sorted(model.state_dict()))
        self.refused(USAGE, "--at: expected a name without , : } and [, got a:b", "pipe-compile", "odd-names.pt", "--at", "a:b", "--dry-run")

    def testModulesThatPyTorchCannotReadBack(self):
        """torch.jit.load refuses these as well: nothing can be mended, but it can be said."""
        layers = OrderedDict([("schicht_ä", nn.Linear(8, 8)), ("last", nn.Linear(8, 8))])
        torch.jit.script(nn.Sequential(layers).eval()).save("letters.pt")
        self.assertRaises(RuntimeError, torch.jit.load, "letters.pt")
        for command in (["pipe-compile", "letters.pt", "--stages", 2, "--inputs", "f32[2,8]", "--dry-run"],
                        ["pipe-run", "letters.pt", "--inputs", "f32[2,8]"], ["pipe-inspect", "letters.pt"]):
            self.assertIn("in ASCII, got \"schicht_ä\"", self.firstLine(UNREADABLE, *command))


if __name__ == "__main__":
    e2e.main()
