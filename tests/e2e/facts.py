"""What one example run shows is not what every run does: ranks that hang on sizes or data, and the training mode."""
from pathlib import Path

import torch

import e2e
import odd_models


class Case(e2e.Case):
    def save(self, build, training=False):
        torch.manual_seed(7)
        path = Path(f"{build.__name__}.pt")
        torch.jit.script(build().train(training)).save(str(path))
        return path

    def sameAsUnsplit(self, model, artifact, batch, microBatches):
        torch.save((batch,), "batch.pt")
        counted = ["--inputs", "batch.pt", "--microbatches", microBatches]
        self.pipec(0, "pipe-run", model, *counted, "--threads", 1, "--output", "expected.pt", "--force")
        self.pipec(0, "pipe-run", artifact, *counted, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")

    def sameForEvery(self, build, *inputs):
        """Compiled with the first inputs, run with all: a branch that these decide must not be folded by what the example showed."""
        model, artifact = self.save(build), f"{build.__name__}.pipe"
        for i, arguments in enumerate(inputs):
            torch.save(arguments, f"{build.__name__}.{i}.pt")
        self.compiled(model, artifact, "--at", "b", "--inputs", f"{build.__name__}.0.pt")
        for i in range(len(inputs)):
            counted = ["--inputs", f"{build.__name__}.{i}.pt", "--microbatches", 1]
            with self.subTest(f"{build.__name__}, inputs {i}"):
                self.pipec(0, "pipe-run", model, *counted, "--threads", 1, "--output", "expected.pt", "--force")
                self.pipec(0, "pipe-run", artifact, *counted, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")
                with torch.no_grad(), torch.jit.optimized_execution(False):
                    self.sameBits(torch.jit.load(model)(*(value.clone() if isinstance(value, torch.Tensor) else value for value in inputs[i])),
                                  torch.load("expected.pt"), "the reference against PyTorch")


class Facts(Case):
    def testRankThatHangsOnTheSize(self):
        model = self.save(odd_models.SqueezeDecides)
        self.compiled(model, "size.pipe", "--at", "b", "--inputs", "f32[2,8]")
        self.sameAsUnsplit(model, "size.pipe", torch.randn(3, 8), 3)
        self.sameAsUnsplit(model, "size.pipe", torch.randn(4, 8), 2)

    def testRankThatHangsOnTheData(self):
        model = self.save(odd_models.DataDecides)
        both, one = torch.ones(2, 8), torch.ones(2, 8)
        one[1] = -1
        torch.save((both,), "both.pt")
        self.compiled(model, "data.pipe", "--at", "b", "--inputs", "both.pt")
        self.sameAsUnsplit(model, "data.pipe", torch.cat([both, one]), 2)

    def testDrawsThatAreOffAreNoDraws(self):
        model = self.save(odd_models.DrawsAreOff)
        plan = self.compiled(model, "off.pipe", "--at", "b,c,d", "--inputs", "f32[2,16]")
        self.assertEqual([stage["effects"]["random_ops"] for stage in plan["stages"]], [[0], [1], [2], []])
        self.sameAsUnsplit(model, "off.pipe", torch.randn(6, 16), 3)

    def testForkedAndUnusedDrawsKeepTheirNumbers(self):
        model = self.save(odd_models.DrawsBesideAFork, training=True)
        plan = self.compiled(model, "fork.pipe", "--at", "b,c", "--inputs", "f32[2,16]")
        self.assertEqual(sum((stage["effects"]["random_ops"] for stage in plan["stages"]), []), [0, 1, 2, 3])
        self.sameAsUnsplit(model, "fork.pipe", torch.randn(6, 16), 3)

    def testDrawsOfCallsInVainTakeTheirNumbers(self):
        model = self.save(odd_models.DrawsInVain, training=True)
        plan = self.compiled(model, "vain.pipe", "--at", "b,c", "--inputs", "f32[2,16]")
        self.assertEqual(sum((stage["effects"]["random_ops"] for stage in plan["stages"]), []), [0, 1, 2, 3, 4])
        self.sameAsUnsplit(model, "vain.pipe", torch.randn(6, 16), 3)

    def testValuesThatMayBeMissingStayWithTheirFlag(self):
        """In plain PyTorch too, which cannot hold a value that is none."""
        model = self.save(odd_models.ReturnsOutOfALoop)
        run = e2e.documented("artifact.md", "run")["run"]
        for stages in (2, 4, 6):
            self.compiled(model, "loop.pipe", "--stages", stages, "--inputs", "f32[2,8]")
            for batch in (torch.full((2, 8), -1.0), torch.ones(2, 8)):
                self.sameAsUnsplit(model, "loop.pipe", batch, 1)
                with torch.no_grad(), torch.jit.optimized_execution(False):
                    self.sameBits(torch.jit.load(model)(batch), run("loop.pipe", batch), f"{stages} stages by hand")

    def testInferenceOfAModelSavedInTraining(self):
        model = self.save(odd_models.Mixed, training=True)
        evaluated = torch.jit.load(model).eval()
        batch = torch.randn(4, 8)
        with torch.no_grad(), torch.jit.optimized_execution(False):
            torch.save(evaluated(batch), "expected.pt")
        torch.save((batch,), "batch.pt")
        self.compiled(model, "infer.pipe", "--at", "b", "--inputs", "f32[4,8]", "--infer")
        whole = ["--inputs", "batch.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt"]
        self.pipec(0, "pipe-run", "infer.pipe", *whole, saying="PASSED")
        self.pipec(0, "pipe-run", model, "--infer", *whole, saying="PASSED")
        self.pipec(7, "pipe-run", model, *whole, saying="FAILED")  # drops and takes statistics of the batch
        self.refused(2, ["--infer", "pipe-compile --infer"], "pipe-run", "infer.pipe", "--infer", *whole)

    def testModulesKeptInEval(self):
        """The same modules on both sides, and all that is in them."""
        model = self.save(odd_models.Mixed, training=True)
        kept = torch.jit.load(model)
        kept.drop.eval(), kept.norm.eval()
        batch = torch.randn(4, 8)
        with torch.no_grad(), torch.jit.optimized_execution(False):
            torch.save(kept(batch), "kept.pt")
        torch.save((batch,), "batch.pt")
        whole = ["--inputs", "batch.pt", "--microbatches", 1, *e2e.BITS, "--expect", "kept.pt"]
        self.compiled(model, "kept.pipe", "--at", "b", "--inputs", "f32[4,8]", "--keep-eval", "drop,norm")
        self.pipec(0, "pipe-run", "kept.pipe", *whole, saying="PASSED")
        self.pipec(0, "pipe-run", model, "--keep-eval", "drop,norm", *whole, saying="PASSED")

    def testModuleKeptUnderAnotherName(self):
        model = self.save(odd_models.DropsTwice, training=True)
        batch = torch.randn(4, 8)
        with torch.no_grad(), torch.jit.optimized_execution(False):
            torch.save(torch.jit.load(model).eval()(batch), "kept.pt")
        torch.save((batch,), "batch.pt")
        self.compiled(model, "twice.pipe", "--at", "b", "--inputs", "f32[4,8]", "--keep-eval", "drop")
        for runs in (["twice.pipe"], [model, "--keep-eval", "again"]):
            self.pipec(0, "pipe-run", *runs, "--inputs", "batch.pt", "--microbatches", 1, *e2e.BITS, "--expect", "kept.pt", saying="PASSED")

    def testUnknownModuleToKeep(self):
        model = self.save(odd_models.Mixed, training=True)
        for command in (["pipe-compile", "--at", "b", "--dry-run"], ["pipe-run"]):
            for name, help_ in (("norn", "did you mean norm?"), ("quite-another", "pipe-inspect")):
                self.refused(2, [f"--keep-eval: expected a module of the model, got {name}", help_],
                             command[0], model, *command[1:], "--inputs", "f32[4,8]", "--keep-eval", name)

    def testDtypeThatABoolSelects(self):
        x = torch.randn(2, 8)
        self.sameForEvery(odd_models.BoolDecidesDtype, (x, False), (x, True))
        self.sameForEvery(odd_models.BoolDecidesDtype, (x, True), (x, False))

    def testRankOfAnElement(self):
        x = torch.randn(2, 8)
        self.sameForEvery(odd_models.ElementDecidesRank, (x, [torch.ones(2)]), (x, [torch.ones(2, 3)]))
        self.sameForEvery(odd_models.ElementDecidesRank, (x, [torch.ones(2, 3)]), (x, [torch.ones(2, 3, 1), torch.ones(2)]))

    def testDtypeThroughADict(self):
        x, more = torch.randn(2, 8), torch.randn(2, 8)
        self.sameForEvery(odd_models.DtypeThroughADict, (x, {"more": more}, False), (x, {"more": more}, True), (x, {"more": more.double()}, False))

    def testRankThatABranchChanges(self):
        x = torch.randn(2, 8)
        self.sameForEvery(odd_models.UnsqueezedWhenAsked, (x, False), (x, True))
        self.sameForEvery(odd_models.UnsqueezedWhenAsked, (x, True), (x, False))


class Memory(Case):
    """What shares memory with what, where no schema says so."""

    def testListThatTheNextRoundReads(self):
        x = torch.randn(2, 8)
        self.sameForEvery(odd_models.HeldByAList, (x, 3), (x, 0), (x, 5))

    def testSizeAfterAnOutCall(self):
        self.sameForEvery(odd_models.SizeAfterOut, (torch.randn(2, 8),), (torch.randn(5, 8),))

    def testOperatorsThatReturnTheirInput(self):
        self.sameForEvery(odd_models.SilentAliases, (torch.randn(2, 8),), (-torch.rand(3, 8),))


if __name__ == "__main__":
    e2e.main()
