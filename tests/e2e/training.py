"""training.py: compiles with --train write artifacts whose gradients were compared with the unsplit model's.

Models with what forwards do not show: a weight used twice, shared weights, the same tensor through two ports, lists of weights, views of
one memory, state, random numbers. Real architectures: training_zoo.py.
"""
import json
import re
from typing import Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import e2e

USAGE, UNSUPPORTED, INTERNAL = 2, 4, 70


def mse(x: Tensor) -> Tensor:
    return (x * x).mean()


class Chain(nn.Module):
    """Skips over stages, a weight at both ends, dropout, batch norm, a frozen weight."""

    def __init__(self, width: int = 16, layers: int = 6):
        super().__init__()
        self.embed = nn.Embedding(32, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.layers[1].weight.requires_grad_(False)
        self.norm, self.drop = nn.BatchNorm1d(width), nn.Dropout(0.25)
        self.head = nn.Linear(width, 32, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        x = self.embed(ids)
        first = x
        for layer in self.layers:
            x = torch.relu(layer(x)) + first
        return nn.functional.cross_entropy(self.head(self.drop(self.norm(x))), target)


class Twice(nn.Module):
    """One weight at two places, one behind the other, or a value derived from a weight there."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.derives = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.c(x)
        if self.derives:
            x = self.b(x)
            scaled = self.b.weight * 0.5
            return mse(nn.functional.linear(torch.tanh(nn.functional.linear(x, scaled)), scaled))
        return mse(self.a(torch.tanh(self.a(x))))


class RoundsOfData(nn.Module):
    """A weight in a loop, whose rounds depend on the data, and after it."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.first, self.a, self.b = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        rounds = 1 + 2 * int(bool(x.sum() > 0))
        y = self.first(x)
        done = 0
        while done < rounds:
            y = torch.sin(self.a(y))
            done += 1
        return mse(self.b(y + torch.tanh(self.a(y))))


class Rounds(nn.Module):
    """A weight at two places of a loop, in a stage whose inputs have no gradient."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        done = 0
        while done < int(x.size(0) > 1) + 4:
            x = x + 0.25 * torch.tanh(self.a(x))
            x = x + 0.5 * torch.sin(self.a(x))
            done += 1
        return mse(self.b(x))


class Recurrent(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.first, self.second = nn.LSTM(width, width, batch_first=True), nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 4)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.first(x)
        z, _ = self.second(torch.relu(y))
        return mse(self.head(z))


class Same(nn.Module):
    """Asks whether two values are the same tensor, behind a place where both may be sent."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def pair(self, key: Tensor, value: Tensor) -> Tensor:
        if key is value:
            return self.b(key) * 2
        return self.b(key) + self.c(value)

    def forward(self, x: Tensor, other: bool = False) -> Tensor:
        y = torch.tanh(self.a(x))
        z = y
        if other:
            z = y + 1
        w = torch.sin(y) * torch.cos(z)
        return mse(self.pair(y, z) + w)


class Losses(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, int]:
        y = self.b(torch.relu(self.a(x)))
        return y, mse(y), 3


class Counts(nn.Module):
    """State that the backward does not see, written after it was read."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)
        self.register_buffer("mean", torch.zeros(width))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) - self.mean
        self.mean = self.mean * 0.9 + y.detach().mean(0) * 0.1
        self.calls = self.calls + 1
        return mse(self.b(torch.tanh(y)))


class Chosen(nn.Module):
    """The values decide whether a value that is sent has a gradient."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            y = torch.tanh(self.a(x))
        else:
            y = x.sin()
        z = torch.cos(y) * 2
        return mse(self.c(torch.tanh(self.b(z)) + y))


class Threes(nn.Module):
    """Positive numbers or a flag lead to a way that gives a value that is sent a gradient."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)


class Adapted(Threes):
    """An adapter that no sample of the example uses."""

    def forward(self, x: Tensor) -> Tensor:
        h, rows = torch.tanh(self.a(x)), x[:, 0] > 0
        own = torch.zeros_like(h)
        if bool(rows.any()):
            own[rows] = torch.tanh(self.b(h[rows]))
        return mse(self.c(h) + own)


class Appended(Threes):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        taken = [torch.zeros_like(h)]
        for _ in range(int(x.sum() > 0)):
            taken.append(torch.tanh(self.b(h)))
        last = taken[-1] * 2
        return mse(self.c(h) + last)


class Indexed(Threes):
    """A list of a frozen and a trained weight."""

    def __init__(self):
        super().__init__()
        self.frozen, self.trained = nn.Parameter(torch.randn(8), requires_grad=False), nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        prompt = [self.frozen, self.trained][int(x.sum() > 0)] * 2
        return mse(self.c(torch.tanh(self.a(x))) * prompt)


class Keyed(Threes):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        values = {"plain": h.detach(), "own": torch.tanh(self.b(h))}
        found = values.get(["plain", "own"][int(x.sum() > 0)])
        result = self.c(h)
        if found is not None:
            result = result + found
        return mse(result)


class Switched(Threes):
    """A flag of the run turns gradients on."""

    def forward(self, x: Tensor, on: bool) -> Tensor:
        own = torch.tanh(self.a(x)).detach()
        own.requires_grad_(on)
        h = torch.tanh(self.b(x))
        return mse(self.c(h) + own)


class Rounded(Threes):
    """Integers in the example."""

    def forward(self, x: Tensor, soft: bool) -> Tensor:
        h = self.a(x) * 3
        if soft:
            codes = h
        else:
            codes = h.to(torch.int32)
        return mse(self.c(x) * codes)


class PartWritten(nn.Module):
    """A weight is written into a part of a value, if the values say so: the write stays in place."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.b(torch.tanh(self.a(x)))) * 1.0
        if bool(x.sum() > 0):
            y[:, :3] = self.c(x)[:, :3]
            y[:, 4:].mul_(self.b.bias[4:])
        return mse(self.c(y))


class HalfTied(nn.Module):
    """Shared weights of two dtypes."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width, dtype=torch.bfloat16)
        self.c, self.d = nn.Linear(width, width, dtype=torch.bfloat16), nn.Linear(width, width)
        self.c.weight, self.d.weight = self.b.weight, self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.b(torch.tanh(self.a(x)).to(torch.bfloat16)))
        return mse(self.d(torch.tanh(self.c(x)).float()))


class Triplet(nn.Module):
    """The gradients of three uses cancel: that of the last bias is 0."""

    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Linear(8, 16), nn.PReLU(), nn.Linear(16, 8))

    def forward(self, anchor: Tensor, near: Tensor, far: Tensor) -> Tensor:
        return functional.triplet_margin_loss(self.n(anchor), self.n(near), self.n(far))


class Training(e2e.Case):
    def saved(self, module, *inputs):
        torch.manual_seed(0)
        name = module.__name__
        torch.jit.script(module()).save(f"{name}.pt")
        torch.save(inputs, f"{name}.inputs.pt")
        return [f"{name}.pt", "--inputs", f"{name}.inputs.pt"]

    def trained(self, *command, target="out.pipe"):
        report = json.loads(self.pipec(0, "pipe-compile", *command, "--train", "-o", target, "--force", "--json").out)
        compared = re.search(r"the loss and (\d+) gradients? have the same bits as the source's, in .*, with whole and split backwards",
                             " ".join(report["tested"]))
        self.assertTrue(compared, report["tested"])
        return int(compared[1]), report

    def gradients(self, file, *inputs):
        model = torch.jit.load(file).train()
        with torch.jit.optimized_execution(False):
            model(*inputs).backward()
        return sum(parameter.grad is not None for parameter in model.parameters())

    def wholeStages(self, report):
        return [note for note in report["notes"] if "cannot split its backward" in note]

    def testSkipsAndSharedWeights(self):
        ids, target = torch.randint(0, 32, (6,)), torch.randint(0, 32, (6,))
        model = self.saved(Chain, ids, target)
        for tied in ("transmit", "replicate"):
            count, report = self.trained(*model, "--stages", 4, "--tied", tied)
            self.assertEqual(count, self.gradients("Chain.pt", ids, target))
            self.assertIn("1 gradient summed over several stages", " ".join(report["tested"]))
            self.assertEqual(self.wholeStages(report), [])
        plan = e2e.plan("out.pipe")
        self.assertEqual(plan["mode"], "train")
        sent = [channel for channel in plan["channels"] if channel["kind"] == "activation"]
        self.assertTrue(sent)
        self.assertTrue(all(channel["tensor"]["requires_grad"] for channel in sent), sent)
        self.pipec(0, "pipe-check", "out.pipe")
        self.pipec(0, "pipe-check", "out.pipe", "--against", "Chain.pt")

    def testTheToleranceIsThatOfTheDtype(self):
        count, report = self.trained(*self.saved(HalfTied, torch.randn(4, 8)), "--at", "b,c,d")
        self.assertEqual(count, 6)
        self.assertIn("2 gradients summed over several stages: equal within 0.0625 (bfloat16) and 1e-6 (float32)", " ".join(report["tested"]))

    def testPartsThatCancel(self):
        for seed, cut in ((0, ["--at", "n.0#3"]), (3, ["--at", "n.0#3"]), (5, ["--stages", 2])):
            with self.subTest(seed=seed):
                torch.manual_seed(seed)
                torch.jit.script(Triplet()).save("Triplet.pt")
                torch.save(tuple(torch.randn(7, 8) for _ in range(3)), "Triplet.inputs.pt")
                count, report = self.trained("Triplet.pt", "--inputs", "Triplet.inputs.pt", *cut, "--cost", "analytic")
                self.assertEqual(count, 5)
                self.assertIn("5 gradients summed over several stages: equal within 1e-6", " ".join(report["tested"]))

    def testAWeightUsedTwice(self):
        model = self.saved(Twice, torch.randn(4, 8))
        count, report = self.trained(*model, "--at", "a")
        self.assertEqual(count, 4)
        self.assertEqual(self.wholeStages(report), [])
        derives = Twice()
        derives.derives = True
        torch.jit.script(derives).save("Twice.pt")
        count, report = self.trained(*model, "--at", "b")
        self.assertEqual(count, 4)
        self.assertEqual(self.wholeStages(report), [])

    def testAWeightTwiceInALoop(self):
        count, report = self.trained(*self.saved(Rounds, torch.randn(4, 8)), "--at", "b")
        self.assertEqual(count, 4)
        self.assertEqual(self.wholeStages(report), [])

    def testMoreRoundsThanInTheExample(self):
        """The example has one round of the loop, and a micro-batch has two: their gradients and that of the use after the loop are added one by one."""
        model = self.saved(RoundsOfData, -torch.rand(4, 8))
        count, report = self.trained(*model, "--at", "a", "--nearest", "--schedule", "zb-h1")
        self.assertEqual(count, 6)
        self.assertEqual(self.wholeStages(report), [])
        torch.save((torch.cat([torch.rand(16, 8), -torch.rand(16, 8)]),), "both.pt")
        for name, run in (("expected", "RoundsOfData.pt"), ("grads", "out.pipe")):
            self.pipec(0, "pipe-run", run, "--train", "--inputs", "both.pt", "--microbatches", 2, "--emit-grads", f"{name}.pt", "--force")
        self.sameBits(torch.load("expected.pt"), torch.load("grads.pt"))

    def testListsOfWeights(self):
        x = torch.randn(4, 5, 8)
        model = self.saved(Recurrent, x)
        count, _ = self.trained(*model, "--at", "second,head")
        self.assertEqual(count, self.gradients("Recurrent.pt", x))
        held = {attribute["name"]: attribute["uses"] for stage in e2e.plan("out.pipe")["stages"] for attribute in stage["attributes"]}
        self.assertGreater(held["first.weight_ih_l0"], 0)
        self.assertNotIn("first._flat_weights", held)
        self.pipec(0, "pipe-check", "out.pipe", "--against", "Recurrent.pt")

    def testTheSameTensorThroughTwoPorts(self):
        count, _ = self.trained(*self.saved(Same, torch.randn(4, 8)), "--stages", 3)
        self.assertEqual(count, 4)

    def testState(self):
        self.trained(*self.saved(Counts, torch.randn(4, 8)), "--stages", 2)

    def testABranchThatTheExampleDoesNotTake(self):
        """The plan expects gradients on channels that another run may give one."""
        model = self.saved(Chosen, -torch.rand(4, 8))
        count, _ = self.trained(*model, "--at", "b,c", "--schedule", "1f1b")
        self.assertEqual(count, 4)  # a got none
        self.assertIn("a.weight", self.sameOnBothWays("Chosen.pt"))

    def sameOnBothWays(self, source, *flags):
        """The gradients of a step whose first micro-batch goes another way than the example, the same of out.pipe and of its source."""
        torch.save((torch.cat([torch.rand(2, 8), -torch.rand(2, 8)]), *flags), "both.pt")
        for name, run in (("expected", [source]), ("grads", ["out.pipe", "--schedule", "1f1b"]), ("split", ["out.pipe", "--schedule", "zb-h1"])):
            self.pipec(0, "pipe-run", *run, "--train", "--inputs", "both.pt", "--microbatches", 2, "--emit-grads", f"{name}.pt", "--force")
        expected = torch.load("expected.pt")
        self.sameBits(expected, torch.load("grads.pt"))
        self.sameBits(expected, torch.load("split.pt"))
        return expected

    def testWaysThatTheExampleDoesNotTake(self):
        """They are no branches: writes in branches, appends in loops, choices by an index or a key of the run, a flag that turns gradients on."""
        for module, own in ((Adapted, "b.weight"), (Appended, "b.weight"), (Indexed, "trained"), (Keyed, "b.weight")):
            with self.subTest(module=module.__name__):
                self.trained(*self.saved(module, -torch.rand(4, 8)), "--at", "c", "--schedule", "1f1b")
                self.assertIn(own, self.sameOnBothWays(f"{module.__name__}.pt"))
        self.trained(*self.saved(Switched, torch.rand(4, 8), False), "--at", "c", "--schedule", "1f1b")
        self.sameOnBothWays("Switched.pt", True)

    def testAnIntegerOfTheExampleHasAGradientInARun(self):
        """The plan cannot expect one of an integer. A second example shows the way."""
        model = self.saved(Rounded, torch.rand(4, 8), False)
        self.trained(*model, "--at", "c")
        torch.save((torch.rand(4, 8), True), "soft.pt")
        self.pipec(USAGE, "pipe-run", "out.pipe", "--train", "--inputs", "soft.pt", "--microbatches", 2,
                   saying=["step 1: stage 0 (", "expected a tensor without a gradient, as the plan says, got one that requires it",
                           "help: the run took a path that the example did not take; compile again with an example that takes it as a second --inputs"])
        self.trained(*model, "--inputs", "soft.pt", "--at", "c")
        self.sameOnBothWays("Rounded.pt", True)

    def testAWeightIsWrittenIntoAPartOfAValue(self):
        """The compile says so where an example takes that way, and a micro-batch whose example did not take it has the same gradients."""
        model, schedule = self.saved(PartWritten, torch.rand(4, 8)), ["--at", "b", "--schedule", "zb-h1"]
        count, report = self.trained(*model, *schedule, target="whole.pipe")
        self.assertEqual(count, 6)
        why = "a write in place into a part of a value gives the gradients of weights and of inputs together"
        self.assertEqual(self.wholeStages(report), [f"stage 1 cannot split its backward: {why}"])
        self.assertEqual(e2e.plan("whole.pipe")["training"]["why_whole"], ["", why])
        torch.save((-torch.rand(4, 8),), "PartWritten.inputs.pt")
        _, report = self.trained(*model, *schedule, target="split.pipe")
        self.assertEqual(self.wholeStages(report), [])
        torch.save((torch.cat([torch.rand(2, 8), -torch.rand(2, 8)]),), "both.pt")
        for name, run in (("expected", ["PartWritten.pt"]), ("whole", ["whole.pipe"]), ("split", ["split.pipe", "--verify", "run"])):
            self.pipec(0, "pipe-run", *run, "--train", "--inputs", "both.pt", "--microbatches", 2, "--emit-grads", f"{name}.pt", "--force")
        expected = torch.load("expected.pt")
        self.sameBits(expected, torch.load("whole.pt"))
        self.sameBits(expected, torch.load("split.pt"))

    def testTheLossAmongSeveralResults(self):
        model = self.saved(Losses, torch.randn(4, 8))
        self.refused(USAGE, ["whose only result is its loss", "got 3 results", "--loss-output with one of 1"], "pipe-compile", *model, "--train", "--stages", 2)
        self.refused(USAGE, ["expected result 0 to be the loss, one floating-point number, got float32[B,8]", "one of 1"], "pipe-compile", *model, "--train",
                     "--stages", 2, "--loss-output", "0")
        self.refused(USAGE, ["expected result 2 to be the loss", "got int"], "pipe-compile", *model, "--train", "--stages", 2, "--loss-output", "2")
        self.refused(USAGE, "--loss-output", "pipe-compile", *model, "--train", "--stages", 2, "--loss-output", "loss")
        self.refused(USAGE, "--loss-output: expected --train with it", "pipe-compile", *model, "--stages", 2, "--loss-output", "1", "--infer")
        count, _ = self.trained(*model, "--stages", 2, "--loss-output", "1")
        self.assertEqual(count, 4)
        self.pipec(0, "pipe-compile", *model, "--stages", 2, "--loss-output", "1", "-o", "implied.pipe", "--force")
        self.assertEqual(e2e.plan("implied.pipe")["training"], e2e.plan("out.pipe")["training"])
        # A training is planned without a loss, too.
        self.pipec(0, "pipe-compile", *model, "--train", "--stages", 2, "--dry-run")

    def testAnArtifactOfATrainingIsNoInference(self):
        self.trained(*self.saved(Losses, torch.randn(4, 8)), "--stages", 2, "--loss-output", "1")
        self.refused(USAGE, ["expected an artifact compiled for inference, got one compiled for training", "without --train"], "pipe-run", "out.pipe",
                     "--inputs", "Losses.inputs.pt")


if __name__ == "__main__":
    e2e.main()
