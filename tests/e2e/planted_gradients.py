"""planted_gradients.py [FAULT...]: faults that no forward shows are found by the comparison of gradients of a compile with --train, which names what differs.

The proof of the files is off (--verify none): it would find those of graphs first. Such a fault passes a compile for inference, whose runs are forwards.
Exit 77 where the build has none (PIPEC_PLANTED_FAULTS).
"""
import re
import sys
from typing import Tuple

import torch
from torch import Tensor, nn

import e2e

USAGE, INTERNAL = 2, 70
GRADIENTS = "the stages do not have the gradients of the model: "
RECOMPUTED = ["--recompute", "always"]
# What each is found by. Those of graphs are planted in compiles for inference, too.
OF_GRAPHS = {
    "lost-gradient": GRADIENTS + r"\S+ at batch \d+, whole backward: expected one, got none",
    "doubled-gradient": GRADIENTS + r"\S+ at batch \d+, whole backward: ",
    "lost-detach": GRADIENTS + r"\S+ at batch \d+, whole backward: ",
    "dropped-partial": GRADIENTS + r"(embed|second)\.\w+ at batch \d+, whole backward: ",
    "doubled-partial": GRADIENTS + r"(embed|second)\.\w+ at batch \d+, whole backward: ",
    "swapped-uses": GRADIENTS + r"thrice\.\w+ at batch \d+, whole backward: ",
}
FOUND_BY = {
    **OF_GRAPHS,
    "swapped-parts": r"parameter \w+\.weight: expected stages from the last to the first, got 3 after 0",
    "unsummed-tie": GRADIENTS + r"embed\.weight at batch \d+, whole backward: ",
    "lost-parameter": GRADIENTS + r"\S+ at batch \d+, whole backward: expected one, got none",
    "mean-for-sum": GRADIENTS + r"the backward is to start at the sum \S+ of all micro-batches, divided by their count \S+, and starts at the mean",
    "sum-for-mean": GRADIENTS + r"the backward is to start at the mean \S+ over micro-batches, and starts at the sum",
    "wrong-root": GRADIENTS + r"the backward is to start at the mean 0 over micro-batches, and starts at the mean 1",
    "forgotten-state": GRADIENTS + r"\S+ at batch \d+, split backward: ",
    "lost-flag": GRADIENTS + r"\S+ at batch \d+, split backward: ",
    "even-parts": GRADIENTS + r"\S+ at batch [23], whole backward: ",
}
OPTIONS = {"forgotten-state": RECOMPUTED}
MODELS = {"mean-for-sum": "Pair"}


class Everything(nn.Module):
    """A place for every fault: a shared weight, one that is used three times, a value with several readers, a teacher without gradients, state."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.embed, self.second, self.thrice, self.teacher, self.head = (nn.Linear(width, width) for _ in range(5))
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        first = torch.tanh(self.embed(x))
        taught = self.teacher(first).detach()
        y = torch.sin(self.second(first)) * self.scale.clone()
        self.scale.mul_(1.25)
        a, b, c = y * 0.3, torch.cos(y), y - 0.5
        z = torch.tanh(self.thrice(a)) + torch.sigmoid(self.thrice(b)) * torch.sin(self.thrice(c)) + first
        out = self.head(z - taught + first * y)
        loss = (out * out).mean()
        return loss, loss * 2


class Pair(nn.Module):
    """Returns a sum and how many elements it is of."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.embed, self.second, self.thrice, self.head = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        y = self.head(torch.tanh(self.thrice(torch.tanh(self.second(torch.tanh(self.embed(x)))))))
        return (y * y).sum(), y.numel()


class PlantedGradients(e2e.Case):
    def model(self, name):
        torch.manual_seed(0)
        torch.jit.script({"Everything": Everything, "Pair": Pair}[name]()).save(f"{name}.pt")
        torch.save((torch.randn(4, 8),), "inputs.pt")
        return [f"{name}.pt", "--inputs", "inputs.pt", "--at", "second,thrice,head", "--verify", "none", "--tied", "replicate", "--force"]

    def train(self, name, *options):
        return ["pipe-compile", *self.model(name), "--train", *(["--loss-output", "0"] if name == "Everything" else []), *options]

    def testAll(self):
        unknown = e2e.run(*self.train("Everything", "--planted-fault", "?", "-o", "never.pipe"))
        names = re.search(r"; with --train: (.*)", unknown.err)
        if not names:
            self.skipTest("a build without planted faults")
        self.assertEqual(set(names[1].split(", ")) - set(FOUND_BY), set(), "faults without a row")
        for name in ("Everything", "Pair"):
            for options in ([], RECOMPUTED):
                self.pipec(0, *self.train(name, *options, "-o", "right.pipe"))
        for fault in e2e.NAMES or FOUND_BY:
            with self.subTest(fault=fault):
                name = MODELS.get(fault, "Everything")
                if fault in OF_GRAPHS:
                    self.pipec(0, "pipe-compile", *self.model(name), "--planted-fault", fault, "-o", "silent.pipe")
                done = self.pipec(INTERNAL, *self.train(name, *OPTIONS.get(fault, []), "--planted-fault", fault, "-o", "never.pipe"))
                self.assertRegex(done.err, FOUND_BY[fault])
                print(f"  {fault}: {done.err.splitlines()[0][:200]}", file=sys.stderr)

    def testLargeModels(self):
        """Of parameters above a limit only the gradients of the example's run are kept, for split backwards; all runs have whole ones."""
        command = [*self.train("Pair"), "-o", "large.pipe"]
        if "with --train" not in e2e.run(*command, "--planted-fault", "?").err:
            self.skipTest("a build without planted faults")
        bytes = sum(value.numel() * value.element_size() for value in Pair().parameters())
        self.pipec(0, *command, "--kept-gradients", bytes, saying="with whole and split backwards")
        first = self.pipec(0, *command, "--kept-gradients", bytes - 1, saying="with split backwards in the first")
        self.assertNotIn("whole and split", first.out)
        self.pipec(INTERNAL, *command, "--kept-gradients", bytes - 1, "--planted-fault", "lost-flag", saying="split backward")


if __name__ == "__main__":
    e2e.main()
