"""equality.py MODEL...: stages give the unsplit model's bits, for 1, 2, 3, 4 and 8 stages and for even and uneven micro-batches.

Three ways are compared: plain PyTorch on each micro-batch, pipe-run on the unsplit file, and pipe-run on each artifact.
"""

import torch

import e2e

STAGES = [1, 2, 3, 4, 8]
MICRO_BATCHES = [4, 3]  # of 8 samples: 2+2+2+2, and 3+3+2


class Equality(e2e.Case):
    def test(self):
        for name in e2e.NAMES:
            self.model = e2e.MODELS / f"{name}.pt"
            self.batch = e2e.MODELS / f"{name}.inputs4.pt"
            for count in MICRO_BATCHES:
                with self.subTest(model=name, unsplit=count):
                    self.unsplitEqualsPyTorch(count)
            for stages in STAGES:
                with self.subTest(model=name, stages=stages):
                    self.stagesEqualUnsplit(name, stages)

    def unsplitEqualsPyTorch(self, count):
        expected = e2e.concatenate(e2e.reference(torch.jit.load(self.model), torch.load(self.batch), count))
        output = f"unsplit-{count}.pt"
        self.pipec(0, "pipe-run", self.model, "--inputs", self.batch, "--microbatches", count, "--threads", 1, "--output", output)
        self.sameBits(expected, torch.load(output), f"pipe-run of the unsplit model, {count} micro-batches")

    def stagesEqualUnsplit(self, name, stages):
        target = f"{stages}.pipe"
        plan = self.compiled(self.model, target, "--stages", stages, "--inputs", e2e.MODELS / f"{name}.inputs.pt")
        self.assertEqual(len(plan["stages"]), stages)
        self.assertTrue(all(stage["nodes"] > 0 for stage in plan["stages"]), "a stage computes nothing")
        for count in MICRO_BATCHES:
            output = f"{stages}-{count}.pt"
            self.pipec(0, "pipe-run", target, "--inputs", self.batch, "--microbatches", count, *e2e.BITS,
                       "--expect", f"unsplit-{count}.pt", "--output", output, "--force", saying="PASSED")
            # The tool's own comparison is not taken on trust.
            self.sameBits(torch.load(f"unsplit-{count}.pt"), torch.load(output), f"{stages} stages, {count} micro-batches")


class ComparisonCanFail(e2e.Case):
    """--expect finds one bit in one output."""

    def test(self):
        name = e2e.NAMES[0]
        model, batch = e2e.MODELS / f"{name}.pt", e2e.MODELS / f"{name}.inputs.pt"
        expected = torch.load(e2e.MODELS / f"{name}.expected.pt")
        expected.view(torch.int32).flatten()[5] ^= 1
        torch.save(expected, "wrong.pt")
        self.pipec(7, "pipe-run", model, "--inputs", batch, *e2e.BITS, "--expect", "wrong.pt", saying="FAILED: ")
        self.pipec(0, "pipe-run", model, "--inputs", batch, *e2e.BITS, "--expect", e2e.MODELS / f"{name}.expected.pt", saying="PASSED")


if __name__ == "__main__":
    e2e.main()
