"""What one example run shows is not what every run does: ranks that hang on sizes or data, and the training mode."""
from pathlib import Path

import torch

import e2e
import odd_models


class Facts(e2e.Case):
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


if __name__ == "__main__":
    e2e.main()
