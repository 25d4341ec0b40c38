"""micro_batch_shapes.py: micro-batches of different shapes in one step, without padding: numbers of samples and lengths of sequences differ, under every
schedule of a training. Gradients and weights have the bits of the unsplit model, with dropout, with recomputation and in dynamic order, too."""
import json
import sys

import torch
from torch import Tensor, nn
from torch.nn import functional

import e2e

WORDS, WIDTH = 12, 8
SHAPES = [(2, 5), (4, 7), (1, 3), (3, 9)]  # samples and length of each micro-batch


class Sentences(nn.Module):
    """Layers with dropout in the attention and behind it."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.1, batch_first=True) for _ in range(4))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), target.flatten())


def sentences(samples, length):
    return torch.randint(0, WORDS, (samples, length)), torch.randint(0, WORDS, (samples, length))


class MicroBatchShapes(e2e.Case):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(3)
        torch.jit.script(Sentences().train()).save("m.pt")
        torch.save(sentences(4, 6), "example.pt")
        torch.save([sentences(*shape) for shape in SHAPES], "parts.pt")
        rows = json.loads(e2e.run("pipe-schedule", "--list", "--json").out)["schedules"]
        cls.schedules = [row["name"] for row in rows if row["name"] != "forward-only"]
        assert len(cls.schedules) >= 14, cls.schedules

    def trained(self, what, *options):
        """Gradients of the last step, and the state after it."""
        self.pipec(0, "pipe-run", what, "--train", "--inputs", "parts.pt", "--presplit", "--steps", 2, "--optimizer", "sgd,lr=0.1,momentum=0.9", "--threads", 1,
                   "--emit-grads", "grads.pt", "--output", "state.pt", "--force", *options)
        return torch.load("grads.pt"), torch.load("state.pt")

    def testEverySchedule(self):
        expected = self.trained("m.pt")
        for recompute in ("never", "always"):
            self.compiled("m.pt", f"{recompute}.pipe", "--train", "--stages", 4, "--inputs", "example.pt", "--schedule", "1f1b", "--recompute", recompute)
            for schedule in self.schedules:
                self.sameBits(expected, self.trained(f"{recompute}.pipe", "--schedule", schedule), f"{schedule}, recompute {recompute}")
            self.sameBits(expected, self.trained(f"{recompute}.pipe", "--schedule", "zb-v", "--dynamic", 2), f"dynamic, recompute {recompute}")


if __name__ == "__main__":
    sys.exit(e2e.main())
