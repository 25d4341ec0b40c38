"""Weights that share memory in every way, and weights that are no plain tensors: the stages give the model's bits."""
from pathlib import Path

import torch

import e2e
import weight_models


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


if __name__ == "__main__":
    e2e.main()
