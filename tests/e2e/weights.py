"""Weights that share memory in every way, and weights that are no plain tensors: the stages give the model's bits."""
import unittest
from pathlib import Path

import torch

import e2e
import weight_models

DAMAGED, INTERNAL = 5, 70
HAVE_FAULTS = "no planted fault is called" in e2e.run("pipe-compile", e2e.MODELS / "mlp.pt", "--stages", 2, "--dry-run", "--planted-fault", "?").err


class Weights(e2e.Case):
    def testStagesGiveTheModelsBits(self):
        for build in weight_models.ALL:
            torch.manual_seed(5)
            model, batch = Path(f"{build.__name__}.pt"), torch.randn(6, 8)
            torch.jit.script(build().eval()).save(str(model))
            with torch.no_grad(), torch.jit.optimized_execution(False):
                expected = torch.cat([torch.jit.load(str(model))(part) for part in batch.split(2)])
            torch.save((batch,), "batch.pt")
            torch.save(expected, "expected.pt")
            for tied in ("transmit", "replicate"):
                with self.subTest(model=build.__name__, tied=tied):
                    artifact = f"{build.__name__}-{tied}.pipe"
                    self.compiled(model, artifact, "--at", "b", "--tied", tied, "--inputs", "f32[2,8]")
                    self.pipec(0, "pipe-run", artifact, "--inputs", "batch.pt", "--microbatches", 3, *e2e.BITS, "--expect", "expected.pt",
                               saying="PASSED")
                    self.pipec(0, "pipe-check", artifact, "--against", model, saying="PASSED")
                    self.pipec(0, "pipe-inspect", artifact)
            self.pipec(0, "pipe-inspect", model)


@unittest.skipUnless(HAVE_FAULTS, "no planted faults in this build")
class OnDisk(e2e.Case):
    """A bit that flips between memory and disk. Weights as of a model of 1 GiB, which are not read back: the limit is lowered here."""

    @classmethod
    def setUpClass(cls):
        torch.jit.script(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 8)).eval()).save("large.pt")

    def compile(self, code, *options, **how):
        return self.pipec(code, "pipe-compile", "large.pt", "--at", "1", "-o", "large.pipe", "--force", *options, **how)

    def testReadBack(self):
        self.compile(INTERNAL, "--planted-fault", "flipped-bit-on-disk", saying="a weight of the stages is not the source's: 0.weight")

    def testNotReadBack(self):
        """The compile reports it, and reading the artifact finds it."""
        large = ["--past-cache-from", "1MiB"]
        self.compile(0, *large, saying="and their ends read back")
        self.pipec(0, "pipe-check", "large.pipe", "--against", "large.pt", saying="PASSED")
        self.compile(0, *large, "--verify", "run", "--inputs", "f32[2,512]", saying="every byte of its weights")
        fault = [*large, "--planted-fault", "flipped-bit-on-disk"]
        self.compile(INTERNAL, *fault, "--verify", "run", "--inputs", "f32[2,512]", saying="a weight of the stages is not the source's: 0.weight")
        self.compile(0, *fault, saying="their ends read back")
        for command in (["pipe-check", "large.pipe"], ["pipe-run", "large.pipe", "--inputs", "f32[2,512]", "--microbatches", 1],
                        ["pipe-merge", "large.pipe", "-o", "merged.pt"]):
            with self.subTest(command=command[0]):
                self.pipec(DAMAGED, *command, saying="stage-0.pt")


if __name__ == "__main__":
    e2e.main()
