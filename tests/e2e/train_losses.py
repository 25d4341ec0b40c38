"""train_losses.py: losses that are a pair (sum, count), and how gradients of several batches are put together."""
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple, Tuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

USAGE, VERSION, NOT_FINITE = 2, 6, 11
ADAM = ["--optimizer", "adamw,lr=0.01"]


class Words(nn.Module):
    """Scores of words; the loss counts those whose target is not 0."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Embedding(8, 16), nn.Linear(16, 16), nn.Linear(16, 8)

    def scores(self, ids: Tensor) -> Tensor:
        return self.c(torch.tanh(self.b(torch.tanh(self.a(ids))))).flatten(0, 1)


class PairOfWords(Words):
    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
        return cross_entropy(self.scores(ids), target.flatten(), ignore_index=0, reduction="sum"), (target != 0).sum()


class OneElement(Words):
    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(self.scores(ids), target.flatten(), ignore_index=0).reshape(1)


class OneElementOfMatrix(Words):
    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(self.scores(ids), target.flatten(), ignore_index=0).reshape(1, 1)


class PairOfElements(Words):
    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
        return cross_entropy(self.scores(ids), target.flatten(), ignore_index=0, reduction="sum").reshape(1), (target != 0).sum().reshape(1)


class LossAndLabel(nn.Module):
    """Runs on one sample only, whose label is no count."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        scores = self.b(torch.tanh(self.a(x.reshape(1, 6))))
        return cross_entropy(scores, torch.zeros(1, dtype=torch.long), reduction="sum"), scores.argmax(1)


class LossPerSample(Words):
    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(self.scores(ids), target.flatten(), reduction="none").reshape(ids.size(0), -1).mean(1)


class NumberOfWords(Words):
    """The count is a number, and made before the loss."""

    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, int]:
        count = int((target != 0).sum())
        return cross_entropy(self.scores(ids), target.flatten(), ignore_index=0, reduction="sum"), count


class Named(NamedTuple):
    loss: Tensor
    scores: Tensor


class NamedResults(Words):
    def forward(self, ids: Tensor, target: Tensor) -> Named:
        scores = self.scores(ids)
        return Named(cross_entropy(scores, target.flatten()), scores)


class FloatPair(Words):
    """More results; the count is a floating-point number."""

    def forward(self, ids: Tensor, target: Tensor):
        mask = (target != 0).float().flatten()
        each = cross_entropy(self.scores(ids), target.flatten(), reduction="none")
        return {"words": mask.sum(), "sum": (each * mask).sum(), "each": each.detach()}


class MeanAndWords(Words):
    """The mean over the words that count: that of a batch is not quite the mean of those of its parts, and far from their sum."""

    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
        return cross_entropy(self.scores(ids), target.flatten(), ignore_index=0), (target != 0).sum()


class DroppedMeanAndWords(Words):
    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
        scores = torch.dropout(self.scores(ids), 0.2, self.training)
        return cross_entropy(scores, target.flatten(), ignore_index=0), (target != 0).sum()


class MeanAndCorrect(Words):
    """A mean, and a whole number that is no count of what it averages."""

    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
        scores = self.scores(ids)
        return cross_entropy(scores, target.flatten()), (scores.argmax(1) == target.flatten()).sum()


class MeanAndSize(Words):
    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, int]:
        return cross_entropy(self.scores(ids), target.flatten()), ids.size(0)


class DrawnMean(nn.Module):
    """A mean that random numbers scatter, so that five samples may look like the sum of three and two."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.randn_like(x)
        weight = torch.rand(x.size(0), 1).pow(4)
        return (weight * (self.b(torch.tanh(self.a(x + noise))) - noise) ** 2).mean()


class MeanOfWords(Words):
    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(self.scores(ids), target.flatten(), ignore_index=0)


class CountsWords(MeanOfWords):
    """The count is state that no loss depends on."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        self.seen += (target != 0).sum()
        return cross_entropy(self.scores(ids), target.flatten(), ignore_index=0)


class DroppedMeanOfWords(MeanOfWords):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)

    def scores(self, ids: Tensor) -> Tensor:
        return self.c(self.drop(torch.tanh(self.b(torch.tanh(self.a(ids)))))).flatten(0, 1)


class DroppedInAttention(MeanOfWords):
    def scores(self, ids: Tensor) -> Tensor:
        x = torch.tanh(self.a(ids))
        x = scaled_dot_product_attention(x, x, x, dropout_p=0.2 if self.training else 0.0)
        return self.c(torch.tanh(self.b(x))).flatten(0, 1)


class DroppedPair(DroppedMeanOfWords):
    """A sum and its count behind dropout."""

    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
        return cross_entropy(self.scores(ids), target.flatten(), ignore_index=0, reduction="sum"), (target != 0).sum()


class NoisyPair(DroppedPair):
    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
        scores = self.scores(ids)
        return cross_entropy(scores + 0.01 * torch.randn_like(scores), target.flatten(), ignore_index=0, reduction="sum"), (target != 0).sum()


class DroppedMeanAndSize(DroppedMeanOfWords):
    def forward(self, ids: Tensor, target: Tensor) -> Tuple[Tensor, int]:
        return cross_entropy(self.scores(ids), target.flatten()), ids.size(0)


class NoisyMeanOfWords(DroppedMeanOfWords):
    """With dropout off it still draws."""

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        scores = self.scores(ids)
        return cross_entropy(scores + 0.01 * torch.randn_like(scores), target.flatten(), ignore_index=0)


class MeanOfAll(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x))).pow(2).mean()


class DroppedMeanOfAll(MeanOfAll):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.drop(torch.tanh(self.a(x)))).pow(2).mean()


class DroppedSumOfAll(DroppedMeanOfAll):
    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.drop(torch.tanh(self.a(x)))).pow(2).sum()


class Normed(MeanOfAll):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.norm(self.a(x)))).pow(2).mean()


class NormedTwice(MeanOfAll):
    """Running statistics or none: both norms use those of the micro-batch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.BatchNorm1d(6, track_running_stats=False), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.second(self.b(torch.tanh(self.first(self.a(x)))))).pow(2).mean()


class Centred(MeanOfAll):
    """Each micro-batch moves the centre, in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        self.centre.mul_(0.5).add_(h.detach().mean(0), alpha=0.5)
        return self.b(h - self.centre).pow(2).mean()


class Shrinks(MeanOfAll):
    """Each micro-batch writes a weight."""

    def forward(self, x: Tensor) -> Tensor:
        self.a.weight.data.mul_(0.9)
        return self.b(torch.tanh(self.a(x))).pow(2).mean()


@torch.jit.script
class Total:
    def __init__(self):
        self.sum = torch.zeros([6])

    def add(self, h: Tensor) -> Tensor:
        self.sum = self.sum + h.mean(0)
        return self.sum


class TotalOfTheModel(MeanOfAll):
    def __init__(self):
        super().__init__()
        self.total = Total()

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        return self.b(h - self.total.add(h.detach())).pow(2).mean()


class TotalOfTheCall(MeanOfAll):
    def forward(self, x: Tensor) -> Tensor:
        h, total = torch.tanh(self.a(x)), Total()
        return self.b(h - total.add(h)).pow(2).mean()


class StepsFirst(MeanOfAll):
    """Steps of a sequence affect later ones."""

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)).cumsum(0)).pow(2).mean()


class LastOfSteps(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps, self.head = nn.GRU(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.head(self.steps(x)[0][-1]), y)


class DroppedLastOfSteps(LastOfSteps):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.head(self.drop(self.steps(x)[0][-1])), y)


class EachOfSteps(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.steps, self.head = nn.Embedding(8, 6), nn.GRU(6, 8), nn.Linear(8, 8)

    def forward(self, ids: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.head(self.steps(self.words(ids))[0]).flatten(0, 1), y.flatten())


class OfItsOwnSize(MeanOfAll):
    """Divided by its own value: always 1."""

    def forward(self, x: Tensor) -> Tensor:
        loss = self.b(torch.tanh(self.a(x))).pow(2).mean()
        return loss / loss.detach()


class Balanced(MeanOfAll):
    """Of the mean over the batch, which a large loss hardly shows."""

    def forward(self, x: Tensor) -> Tensor:
        mean = torch.softmax(self.b(torch.tanh(self.a(x))), -1).mean(0)
        return (mean * mean).sum() + 1000


class InABranch(MeanOfAll):
    """A loss for some batches only."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(torch.tanh(self.a(x))).pow(2)
        loss = torch.zeros([])
        if bool(x.sum() > 0):
            loss = y.mean()
        return loss


class OfNothing(MeanOfAll):
    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x))).pow(2).mean().detach()


class ByFrequency(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Embedding(4, 6, scale_grad_by_freq=True), nn.Linear(6, 8), nn.Linear(8, 8)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(self.c(torch.tanh(self.b(self.a(ids).mean(1)))), target)


class ScaledLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 1)
        self.register_buffer("scale", torch.ones(6, requires_grad=True))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x * self.scale))).pow(2).mean()


class LossOrWeight(nn.Module):
    """The loss is a weight itself where no number is large."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        loss = self.b(torch.tanh(self.a(x))).pow(2).mean()
        if bool((x > 100).any()):
            return loss
        return self.c


class ShowsState(nn.Module):
    """A counter and a moving average, which are written in place, are results beside the loss."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("average", torch.zeros(6))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        h = self.b(torch.tanh(self.a(x)))
        self.seen += x.size(0)
        self.average.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
        return h.pow(2).mean(), self.seen, self.average[1:]


class ScoresOnly(Words):
    def forward(self, ids: Tensor) -> Tensor:
        return self.scores(ids)


class PairLoss(nn.Module):
    def forward(self, scores: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
        return cross_entropy(scores, target.flatten(), ignore_index=0, reduction="sum"), (target != 0).sum()


class NormedLoss(nn.Module):
    """With batch norms of its own."""

    def __init__(self):
        super().__init__()
        self.norm, self.parts = nn.BatchNorm1d(8), nn.ModuleList([nn.Identity(), nn.BatchNorm1d(8)])

    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        scores = self.norm(scores)
        for part in self.parts:
            scores = part(scores).tanh()
        return cross_entropy(scores, target.flatten())


class CountWithGradient(Words):
    def forward(self, ids: Tensor, target: Tensor):
        scores = self.scores(ids)
        return scores.square().sum(), scores.sum()


def words(samples=10, length=6):
    """Sentences of very different lengths."""
    ids = torch.randint(0, 8, (samples, length))
    target = torch.randint(1, 8, (samples, length))
    for s in range(samples):
        target[s, 1 + s * s % length:] = 0
    return ids, target


def inPython(path, batch, parts, steps, clip=None):
    """Backward of each micro-batch's sum, then one division by all counts: the formula of docs/training.md."""
    torch.set_num_threads(1)
    model = torch.jit.load(path).train()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    losses = []
    with torch.jit.optimized_execution(False):
        for _ in range(steps):
            optimizer.zero_grad()
            total, count = torch.tensor(0.0), 0
            for part in zip(*(tensor.tensor_split(parts) for tensor in batch)):
                found, counted = model(*part)
                found.backward()
                total, count = total + found.detach(), count + int(counted)
            for parameter in model.parameters():
                parameter.grad.div_(count)
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            losses.append((total / count).item())
    return model.state_dict(), losses


class TrainLosses(e2e.Case):
    def save(self, make, batch, name="m"):
        torch.manual_seed(0)
        model = make()
        torch.jit.script(model).save(f"{name}.pt")
        torch.save(batch, "batch.pt")
        return model

    def compiled(self, make, batch, *options, name="m"):
        model = self.save(make, batch, name)
        done = self.pipec(0, "pipe-compile", f"{name}.pt", "--stages", 3, "--inputs", "batch.pt", "--cost", "analytic", "--schedule", "1f1b",
                          "-o", f"{name}.pipe", "--force", *(options or ["--train"]))
        return model, done

    def trained(self, model, *arguments):
        done = self.pipec(0, "pipe-run", model, "--train", *arguments, "--json", "--output", "state.pt", "--emit-grads", "grads.pt", "--force")
        return torch.load("state.pt"), torch.load("grads.pt"), [json.loads(line)["loss"] for line in done.out.splitlines() if line.startswith("{") and '"step":' in line]

    def testPairsHaveTheBitsOfPython(self):
        batch = words()
        for make in (PairOfWords, NumberOfWords):
            _, done = self.compiled(make, batch)
            self.assertIn("the loss is result 0 divided by result 1, a sum and its count; --loss-output 0 makes result 0 alone the loss", done.out + done.err)
            plan = e2e.plan("m.pipe")
            self.assertEqual((plan["training"]["loss"], plan["training"]["count"]), (0, 1))
            self.assertIn("counted-loss", plan["required_features"])
            for parts, clip in ((1, None), (3, 0.1), (10, None)):
                expected, losses = inPython("m.pt", batch, parts, 4, clip)
                run = ["--inputs", "batch.pt", "--microbatches", parts, "--steps", 4, *ADAM, *(["--clip-norm", clip] if clip else [])]
                for what, more in (("m.pt", []), ("m.pipe", []), ("m.pipe", ["--schedule", "gpipe"]), ("m.pipe", ["--schedule", "zb-h1"])):
                    state, _, found = self.trained(what, *run, *more)
                    self.sameBits(dict(expected), {name: state[name] for name in expected}, f"{make.__name__} {what} {parts} {more}")
                    self.assertEqual(found, losses)

    def testTheyEqualTheWholeBatchsMean(self):
        """Which the mean of means does not."""
        batch = words()
        self.compiled(PairOfWords, batch)
        self.compiled(MeanOfWords, batch, name="mean")
        _, whole, (loss,) = self.trained("mean.pt", "--inputs", "batch.pt")
        _, means, _ = self.trained("mean.pipe", "--inputs", "batch.pt", "--microbatches", 4)
        for parts in (1, 4, 10):
            _, found, (counted,) = self.trained("m.pipe", "--inputs", "batch.pt", "--microbatches", parts)
            self.assertAlmostEqual(counted, loss, delta=1e-6)
            for name, gradient in whole.items():
                self.assertLess((found[name] - gradient).norm() / gradient.norm(), 1e-6, f"{name} {parts}")
        self.assertGreater((means["c.weight"] - whole["c.weight"]).norm() / whole["c.weight"].norm(), 0.05)

    def testTheWarningNamesThem(self):
        _, done = self.compiled(MeanOfWords, words())
        self.assertRegex(done.err, r"warning: the result is the mean over micro-batches, which differs from the whole batch \([\d.]+ for the whole batch, [\d.]+.*"
                         r"return \(sum, count\)")
        # Not where something else is the cause.
        _, done = self.compiled(Normed, torch.randn(10, 6))
        self.assertIn("which differs from the whole batch", done.err)
        cause = "batch norm (norm) uses the statistics of each micro-batch"
        self.assertIn(cause, done.err)
        self.assertNotIn("return (sum, count)", done.err)
        for options in ([], ["--batch-norm", "deferred"]):
            done = self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--microbatches", 2, *options)
            self.assertIn(cause, done.err)
            self.assertNotIn("return (sum, count)", done.err)
        _, done = self.compiled(NormedTwice, torch.randn(10, 6))
        run = self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--microbatches", 2)
        for said in (done.err, run.err):
            self.assertIn("batch norm (first, second) uses the statistics of each micro-batch", said)
        # The one without them does so in any mode.
        done = self.pipec(0, "pipe-compile", "m.pt", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic", "-o", "d.pipe", "--force")
        self.assertIn("note: second is in training mode (batch_norm): ", done.err)
        _, done = self.compiled(StepsFirst, torch.randn(7, 10, 6))
        self.assertIn("the batch is dimension 1 of x, the choice that keeps samples independent; --batch-dim x=1 confirms it", done.err)
        self.assertNotIn("which differs from the whole batch", done.err)

    def testTheWarningKnowsWhatIsState(self):
        """What is written in place, and what an object of the model keeps; not what an object of the call does, nor what no loss depends on.
        A statistic of the micro-batch mixes samples, too."""
        state = "the model writes state, so the loss of a sample depends on the micro-batch that it is in"
        for make, writes, mixes in ((Centred, True, True), (Shrinks, True, False), (TotalOfTheModel, True, True), (TotalOfTheCall, False, True),
                                    (CountsWords, False, True)):
            _, done = self.compiled(make, words() if make is CountsWords else torch.randn(10, 6))
            run = self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--microbatches", 2)
            for said in (done.err, run.err):
                with self.subTest(make.__name__):
                    self.assertEqual((state in said, "return (sum, count)" in said), (writes, mixes), said)

    def testSamplesAlongALaterDimension(self):
        """The steps of a recurrent model affect each other, its samples do not, also where the numbers of both are equal."""
        last = lambda steps, samples: (torch.randn(steps, samples, 6), torch.randint(0, 3, (samples,)))
        for make, batch, cut in ((LastOfSteps, last, {"x": 1, "y": 0}),
                                 (DroppedLastOfSteps, last, {"x": 1, "y": 0}),
                                 (EachOfSteps, lambda steps, samples: (torch.randint(0, 8, (steps, samples)), torch.randint(0, 8, (steps, samples))),
                                  {"ids": 1, "y": 1})):
            for steps, samples in ((8, 3), (4, 4)):
                _, done = self.compiled(make, batch(steps, samples))
                self.assertNotIn("which differs from the whole batch", done.err)
                self.assertIn("that keeps samples independent", done.err)
                shown = self.pipec(0, "pipe-inspect", "m.pipe").out
                for name, dim in cut.items():
                    self.assertRegex(shown, rf"{name} +Tensor .*cut along dimension {dim}\n", f"{make.__name__} {steps} {samples}")
            torch.save(batch(steps, 6), "other.pt")
            run = ["--inputs", "other.pt", "--microbatches", 3]
            expected, found = (self.trained(what, *run) for what in ("m.pt", "m.pipe"))
            self.sameBits(expected[1], found[1])

    def testTheWarningSeesThroughDropout(self):
        """Two runs with other draws are not compared: runs with dropout off are."""
        differs = "which differs from the whole batch"
        for make in (DroppedMeanOfWords, DroppedInAttention):
            _, done = self.compiled(make, words())
            self.assertRegex(done.err, r"warning: the result is the mean over micro-batches, which differs from the whole batch \(with dropout off: [\d.]+ for the "
                             r"whole batch, [\d.]+ for micro-batches\); .*return \(sum, count\)")
        _, done = self.compiled(DroppedMeanOfAll, torch.randn(10, 6))
        self.assertNotIn(differs, done.out + done.err)
        self.assertNotIn("which no test run confirms", done.out + done.err)
        _, done = self.compiled(DroppedSumOfAll, torch.randn(10, 6))
        self.assertNotIn(differs, done.out + done.err)
        self.assertIn("is a sum over samples, of which a training takes the mean", done.err)
        # What draws otherwise, too, is compared with nothing.
        _, done = self.compiled(NoisyMeanOfWords, words())
        self.assertNotIn(differs, done.out + done.err)

    def testTheReferenceSeesThroughDropout(self):
        """The same without a compile: pipe-run --train of the model, with the same losses as before."""
        def run(make, batch):
            torch.manual_seed(0)
            torch.jit.script(make()).save("m.pt")
            torch.save(batch, "batch.pt")
            return self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--microbatches", 2)

        differs = "which differs from the whole batch"
        for make in (DroppedMeanOfWords, DroppedInAttention):
            self.assertRegex(run(make, words(20)).err, r"warning: the result is the mean over micro-batches, which differs from the whole batch \(with dropout off: "
                             r"[\d.]+ for the whole batch, [\d.]+ for micro-batches\)")
        self.assertNotIn(differs, run(DroppedMeanOfAll, torch.randn(20, 6)).err)
        done = run(DroppedSumOfAll, torch.randn(20, 6))
        self.assertNotIn(differs, done.err)
        self.assertIn("is a sum over samples, of which a training takes the mean", done.err)
        self.assertNotIn(differs, run(NoisyMeanOfWords, words(20)).err)

    def testAMeanBesideANumberIsNoPair(self):
        """By its types it might be one: the test runs show that it is none."""
        batch = words()
        ways = "pass --loss-output 0 if result 0 alone is the loss, such as a mean, or --loss-output 0,1 if it is a sum and result 1 counts what it sums"
        for make in (MeanAndCorrect, MeanAndSize, MeanAndWords, DroppedMeanAndWords):
            shown = ["test runs show that result 0 is no sum over samples", ways]
            self.refusedCompile(make, batch, shown)
            for more in (["--microbatches", 1], ["--microbatches", 4]):
                self.refused(USAGE, shown, "pipe-run", "refused.pt", "--train", "--inputs", "batch.pt", *more)
            self.compiled(make, batch, "--train", "--loss-output", "0")
            self.assertNotIn("count", e2e.plan("m.pipe")["training"])
            run = ["--inputs", "batch.pt", "--microbatches", 4, *ADAM]
            self.sameBits(self.trained("m.pt", *run, "--loss-output", "0")[:2], self.trained("m.pipe", *run)[:2])
        # Dropout hides neither a pair nor that a mean is none.
        for make in (PairOfWords, DroppedPair):
            _, done = self.compiled(make, batch)
            self.assertNotIn("which no test run shows", done.err)
            self.assertIn("the loss is result 0 divided by result 1, a sum and its count", done.out + done.err)
            self.assertIn("count", e2e.plan("m.pipe")["training"])
        self.refusedCompile(DroppedMeanAndSize, batch, shown)
        # Of a model that draws other random numbers no test run shows it.
        _, done = self.compiled(NoisyPair, batch)
        self.assertIn("warning: result 0 and result 1 are taken for a sum over samples and its count, which no test run shows; " + ways, done.err)
        self.assertIn("count", e2e.plan("m.pipe")["training"])

    def testADrawnMeanIsNoSum(self):
        """Two random numbers that differ show nothing of a loss."""
        for seed in range(4):
            torch.manual_seed(seed)
            torch.jit.script(DrawnMean()).save("drawn.pt")
            torch.save(torch.randn(8, 6), "drawn-batch.pt")
            done = self.pipec(0, "pipe-compile", "drawn.pt", "--train", "--stages", 2, "--inputs", "drawn-batch.pt", "--cost", "analytic", "-o", "drawn.pipe", "--force")
            self.assertNotIn("sum over samples", done.out + done.err)
            for what in ("drawn.pt", "drawn.pipe"):
                done = self.pipec(0, "pipe-run", what, "--train", "--inputs", "drawn-batch.pt", "--microbatches", 4)
                self.assertNotIn("sum over samples", done.out + done.err)

    def testAFieldByNameOrPlace(self):
        """Of a NamedTuple, in a compile and in a run of the unsplit model."""
        batch = words()
        run = ["--inputs", "batch.pt", "--microbatches", 4, "--steps", 2, *ADAM]
        results = []
        for field in ("loss", "0"):
            self.compiled(NamedResults, batch, "--train", "--loss-output", field)
            results += [self.trained("m.pt", *run, "--loss-output", field)[:2], self.trained("m.pipe", *run)[:2]]
        for other in results[1:]:
            self.sameBits(results[0], other)
        self.refused(USAGE, ["--loss-output: the model has no result 2", "help: its results are loss, scores"], "pipe-run", "m.pt", "--train", *run, "--loss-output", "2")
        self.refusedCompile(NamedResults, batch, ["--loss-output: the model has no result 2", "help: its results are loss, scores"], "2")

    def testNamesOfThePair(self):
        batch = words()
        self.refusedCompile(FloatPair, batch, "got 3 results")
        self.compiled(FloatPair, batch, "--train", "--loss-output", "sum,words")
        plan = e2e.plan("m.pipe")
        self.assertEqual(len(plan["signature"]["leaves"]), 3)
        run = ["--inputs", "batch.pt", "--microbatches", 4, "--steps", 2, *ADAM]
        expected = self.trained("m.pt", *run, "--loss-output", "sum,words")
        self.sameBits(expected[:2], self.trained("m.pipe", *run)[:2])
        self.compiled(PairOfWords, batch, name="pair")
        _, gradients, losses = self.trained("pair.pt", *run)
        self.assertLess((gradients["c.weight"] - expected[1]["c.weight"]).norm() / gradients["c.weight"].norm(), 1e-5)
        # One of the pair alone is a loss like others.
        self.compiled(PairOfWords, batch, "--train", "--loss-output", "0", name="sum")
        self.assertNotIn("count", e2e.plan("sum.pipe")["training"])
        self.refusedCompile(FloatPair, batch, ["--loss-output: expected result each to be the count of a sum, one number, got float32["], "sum,each")
        self.refusedCompile(FloatPair, batch, ["--loss-output: expected result sum to be the count of a sum, one number, got the sum itself"], "sum,sum")

    def testAnEmptyPath(self):
        batch = words()
        for given, paths in (("sum,", "sum"), ("sum,,words", "sum,words"), (",sum", "sum")):
            told = [f'--loss-output: expected something on both sides of each comma, got "{given}"', f"help: pass {paths}"]
            self.refusedCompile(FloatPair, batch, told, given)
            self.refused(USAGE, told, "pipe-run", "refused.pt", "--train", "--inputs", "batch.pt", "--loss-output", given)

    def refusedCompile(self, make, batch, saying, loss=None):
        torch.manual_seed(0)
        torch.jit.script(make()).save("refused.pt")
        torch.save(batch, "batch.pt")
        self.refused(USAGE, saying, "pipe-compile", "refused.pt", "--train", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic", "-o", "refused.pipe",
                     "--force", *(["--loss-output", loss] if loss else []))

    def testALossInItsOwnFile(self):
        batch = words()
        torch.jit.script(PairLoss()).save("loss.pt")
        self.compiled(ScoresOnly, batch, "--loss", "loss.pt", name="scores")
        self.compiled(PairOfWords, batch)
        run = ["--inputs", "batch.pt", "--microbatches", 4, "--steps", 3, *ADAM]
        expected = self.trained("m.pt", *run)
        self.sameBits(expected[:2], self.trained("scores.pipe", *run)[:2])
        self.sameBits(expected[:2], self.trained("scores.pt", *run, "--loss", "loss.pt")[:2])

    def testTheWarningNamesNormsOfAJoinedLoss(self):
        """As parts of the loss, where the compile and the run join it."""
        torch.manual_seed(0)
        torch.jit.script(NormedLoss()).save("loss.pt")
        cause = "batch norm (loss.norm, loss.parts.1) uses the statistics of each micro-batch"
        _, done = self.compiled(ScoresOnly, words(), "--loss", "loss.pt", name="scores")
        self.assertIn(cause, done.err)
        run = self.pipec(0, "pipe-run", "scores.pt", "--loss", "loss.pt", "--train", "--inputs", "batch.pt", "--microbatches", 2)
        self.assertIn(cause, run.err)

    def testCountsThatCannotBe(self):
        ids, target = words()
        self.compiled(PairOfWords, (ids, target))
        torch.save((ids, torch.zeros_like(target)), "empty.pt")
        torch.save((ids, torch.cat([target[:5], torch.zeros_like(target[5:])])), "half.pt")
        for what in ("m.pt", "m.pipe"):
            run = ["--inputs", "empty.pt", "--microbatches", 2, *ADAM, *(["--loss-output", "0,1"] if what == "m.pt" else [])]  # zeros show nothing
            self.refused(NOT_FINITE, ["expected counts of the loss that add up to more than 0 over all micro-batches, got 0", "--on-nan skip"], "pipe-run", what,
                         "--train", *run)
            state, _, _ = self.trained(what, *run, "--on-nan", "skip")
            self.sameBits(torch.jit.load("m.pt").c.weight, state["c.weight"])
            self.trained(what, "--inputs", "half.pt", "--microbatches", 2, *ADAM)  # one micro-batch without a word
            self.refused(USAGE, ["--loss-reduction: expected a loss that is one number, got a pair (sum, count)", "leave --loss-reduction out"], "pipe-run", what,
                         "--train", "--inputs", "batch.pt", "--loss-reduction", "sum")
        self.refused(USAGE, "micro-batch 0: expected a count of the loss without gradients", "pipe-run", self.scripted(CountWithGradient), "--train", "--inputs",
                     "batch.pt", "--loss-output", "0,1")

    def testAMicroBatchWithoutAWord(self):
        """A mean over nothing is no number; the help names the loss that needs none."""
        ids, target = words()
        self.compiled(MeanOfWords, (ids, target))
        torch.save((ids, torch.cat([target[:5], torch.zeros_like(target[5:])])), "half.pt")
        for what in ("m.pt", "m.pipe"):
            self.refused(NOT_FINITE, ["micro-batch 1: expected a finite loss, got nan", "--on-nan skip", "return (sum, count)"], "pipe-run", what, "--train",
                         "--inputs", "half.pt", "--microbatches", 2)

    def testGradientsThatDependOnTheParts(self):
        """The losses agree, so only gradients show it; a model without such operators gets no warning."""
        says = "gradients of a step depend on the number of micro-batches, although the loss does not: that of "
        counted = (torch.randint(0, 4, (10, 6)), torch.randint(0, 8, (10,)))
        for make, batch, parameter in ((OfItsOwnSize, torch.randn(10, 6), "[ab]"), (ByFrequency, counted, "a.weight")):
            _, done = self.compiled(make, batch)
            self.assertRegex(done.err, re.escape(says) + parameter)
            percent, whole, parts = map(float, re.search(r"\S+ differs by (\S+) % between a batch of 5 samples and micro-batches of 3 and 2 "
                                                         r"\(its norm is (\S+) and (\S+)\), as where a term is made from means", done.err).groups())
            self.assertGreater(percent, 100 * abs(whole - parts) / max(whole, parts) - 1.1)  # norms have three digits
        _, done = self.compiled(Balanced, torch.randn(10, 6))  # the norms may be equal, and the percentage is not 0
        self.assertRegex(done.err, re.escape(says) + r"[ab]\.(weight|bias) differs by (?!0 )")
        _, done = self.compiled(PairOfWords, words())
        self.assertNotIn(says, done.out + done.err)
        _, done = self.compiled(MeanOfAll, torch.randn(10, 6))
        self.assertNotIn(says, done.out + done.err)

    def testALossWithoutAGradient(self):
        """An error, as in Python, and of a micro-batch of its own; no backward, no gradient: losses alone."""
        says = ["micro-batch 1: expected a loss with a gradient, got one that no trained parameter leads to", "help: PyTorch refuses its backward, too"]
        x = torch.rand(8, 6) + 0.1
        model, _ = self.compiled(InABranch, x[:4])
        torch.save((torch.cat([x[:4], -x[4:]]),), "half.pt")
        run = ["--inputs", "half.pt", "--microbatches", 2]
        for what, more in (("m.pt", []), ("m.pipe", []), ("m.pipe", ["--schedule", "zb-h1"])):
            self.refused(USAGE, ["step 1: ", *says], "pipe-run", what, "--train", *run, *more)
            self.trained(what, "--inputs", "batch.pt", "--microbatches", 2, *more)
            self.trained(what, *run, *more, "--freeze", "*")
        self.save(OfNothing, x, "nothing")
        self.refused(USAGE, says[0].replace("1", "0"), "pipe-run", "nothing.pt", "--train", "--inputs", "batch.pt")

    def testABufferIsNoParameter(self):
        """Although it requires a gradient: model.parameters() does not have it."""
        self.compiled(ScaledLoss, torch.randn(8, 6))
        for what in ("m.pt", "m.pipe"):
            state, gradients, _ = self.trained(what, "--inputs", "batch.pt", "--microbatches", 2, "--steps", 2, *ADAM)
            self.assertEqual(set(gradients), {"a.weight", "a.bias", "b.weight", "b.bias"})
            self.sameBits(torch.ones(6), state["scale"].detach())
            self.assertFalse(torch.equal(torch.jit.load("m.pt").a.weight, state["a.weight"]))

    def testTheScaleHasThePrecisionOfTheLoss(self):
        """A third in float64 is not the float32 of a third."""
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            x = torch.randn(9, 6, dtype=dtype)
            self.compiled(lambda: MeanOfAll().to(dtype), x)
            torch.set_num_threads(1)
            model = torch.jit.load("m.pt").train()
            total = torch.zeros((), dtype=dtype)
            with torch.jit.optimized_execution(False):
                for part in x.split((3, 3, 3)):
                    loss = model(part) * (3 / 9)
                    loss.backward()
                    total += loss.detach()
            expected = {name: parameter.grad for name, parameter in model.named_parameters()}
            for what, more in (("m.pt", []), ("m.pipe", []), ("m.pipe", ["--schedule", "zb-h1"])):
                _, found, (loss,) = self.trained(what, "--inputs", "batch.pt", "--microbatches", 3, *more)
                self.sameBits(expected, {name: found[name] for name in expected}, f"{dtype} {what} {more}")
                self.assertEqual(loss, total.item())

    def testSeveralBatchesBeforeAnUpdate(self):
        """Equal to plain PyTorch that adds up gradients, also over uneven batches and in a last group that is not full."""
        batches = 7
        ids, target = words(4 * batches - 2)
        for make, options in ((PairOfWords, []), (MeanOfWords, []), (MeanOfWords, ["--loss-reduction", "sum"])):
            self.compiled(make, (ids[:4], target[:4]))
            torch.save((ids, target), "data.pt")
            expected = self.accumulated("m.pt", (ids, target), 4, 3, 2, "sum" if options else "pair" if make is PairOfWords else "mean")
            run = ["--data", "data.pt", "--batch", 4, "--accumulate", 3, "--microbatches", 2, *options, *ADAM]
            for what, more in (("m.pt", []), ("m.pipe", []), ("m.pipe", ["--schedule", "zb-h1"]), ("m.pipe", ["--schedule", "gpipe"])):
                state, _, losses = self.trained(what, *run, *more)
                self.assertEqual(len(losses), 3)
                self.sameBits(dict(expected), {name: state[name] for name in expected}, f"{make.__name__} {options} {what} {more}")

    def testBatchesOfOtherNumbersOfMicroBatches(self):
        """A short last batch has fewer micro-batches; counts of the batches before it are not forgotten."""
        ids, target = words(10)
        self.compiled(PairOfWords, (ids[:4], target[:4]))
        torch.save((ids, target), "data.pt")
        run = ["--data", "data.pt", "--batch", 4, "--accumulate", 3, *ADAM]
        expected, _, whole = self.trained("m.pt", *run)
        for more in ([], ["--schedule", "gpipe"], ["--replicas", 2]):
            state, _, losses = self.trained("m.pipe", *run, *more)
            self.assertEqual(len(losses), 1)
            torch.testing.assert_close(torch.tensor(losses), torch.tensor(whole), rtol=1e-5, atol=0)
            for name in state:
                torch.testing.assert_close(state[name], expected[name], rtol=1e-4, atol=1e-5)

    def accumulated(self, path, data, size, group, parts, kind):
        torch.set_num_threads(1)
        model = torch.jit.load(path).train()
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        batches = list(zip(*(tensor.split(size) for tensor in data)))
        with torch.jit.optimized_execution(False):
            for first in range(0, len(batches), group):
                optimizer.zero_grad()
                pieces = [piece for batch in batches[first:first + group] for piece in zip(*(tensor.tensor_split(parts) for tensor in batch))]
                samples = sum(piece[0].shape[0] for piece in pieces)
                count = 0
                for piece in pieces:
                    found = model(*piece)
                    if kind == "pair":
                        found, counted = found
                        count += int(counted)
                    found.backward(torch.tensor(piece[0].shape[0] / samples if kind == "mean" else 1.0))
                if kind == "pair":
                    for parameter in model.parameters():
                        parameter.grad.div_(count)
                optimizer.step()
        return model.state_dict()

    def testAccumulationOfModelsOfManyKinds(self):
        """Dropout, weights in several stages, state, recomputation; micro-batches are numbered through all batches of a step."""
        for name, options in (("gpt", ["--tied", "transmit"]), ("gpt", ["--tied", "replicate"]), ("resnet", []), ("resnet", ["--recompute", "always"])):
            model, batch = training_models.save(name)
            self.pipec(0, "pipe-compile", model, "--train", "--stages", 4, "--inputs", batch, "--cost", "analytic", "--schedule", "1f1b", "-o", "many.pipe",
                       "--force", *options)
            run = ["--inputs", batch, "--microbatches", 3, "--accumulate", 3, "--steps", 2, "--optimizer", "sgd,lr=0.01"]
            expected = self.trained(model, *run)
            for schedule in ("1f1b", "zb-v"):
                found = self.trained("many.pipe", *run, "--schedule", schedule)
                for key, value in found[0].items():
                    if name == "gpt":
                        off = (value.double() - expected[0][key].double()).norm()
                        self.assertLess(off, 1e-5 * (1e-3 + expected[0][key].double().norm()), key)
                    else:
                        self.sameBits(expected[0][key], value, f"{name} {options} {schedule}: {key}")
            for key, value in expected[1].items():
                self.assertLess((found[1][key] - value).norm(), 1e-5 * (1e-6 + value.norm()), key)

    def testALossOfOneElement(self):
        """PyTorch's backward() takes any tensor of one element."""
        ids, target = words(10)
        run = ["--inputs", "batch.pt", "--microbatches", 3, "--steps", 2, *ADAM]
        for make, shape in ((OneElement, (1,)), (OneElementOfMatrix, (1, 1))):
            self.compiled(make, (ids, target))
            expected = self.trained("m.pt", *run)
            for options in (["--schedule", "1f1b"], ["--schedule", "zb-h1", "--verify", "run"]):
                actual = self.trained("m.pipe", *run, *options)
                self.sameBits(expected[:2], actual[:2])
                self.assertEqual(expected[2], actual[2])
            model = torch.jit.load("m.pt").train()
            with torch.jit.optimized_execution(False):
                optimizer = torch.optim.AdamW(model.parameters(), 0.01)
                for _ in range(2):
                    optimizer.zero_grad()
                    for part, wanted in zip(ids.tensor_split(3), target.tensor_split(3)):
                        model(part, wanted).backward(torch.full(shape, len(part) / 10))
                    optimizer.step()
            self.sameBits(dict(model.state_dict()), {name: expected[0][name] for name in model.state_dict()})
        _, done = self.compiled(PairOfElements, (ids, target), name="pair")  # test runs show that both are sums
        self.assertIn("the loss is result 0 divided by result 1, a sum and its count", done.out + done.err)
        expected = self.trained("pair.pt", *run)
        self.sameBits(expected[:2], self.trained("pair.pt", *run, "--loss-output", "0,1")[:2])
        actual = self.trained("pair.pipe", *run)
        self.sameBits(expected[:2], actual[:2])
        self.trained("pair.pt", "--inputs", "batch.pt", "--microbatches", 1)
        self.refusedCompile(LossAndLabel, torch.randn(1, 6), "got 2 results")
        self.refused(USAGE, "got 2 results", "pipe-run", "refused.pt", "--train", "--inputs", "batch.pt")
        self.compiled(PairOfWords, (ids, target), name="numbers")
        self.sameBits(expected[:2], self.trained("numbers.pt", *run)[:2])

    def testALossThatIsAWeight(self):
        """It is the weight before the step, although the optimizer writes into it."""
        self.compiled(LossOrWeight, torch.randn(9, 6))
        run = ["--inputs", "batch.pt", "--microbatches", 3, "--steps", 2, *ADAM]
        _, _, expected = self.trained("m.pt", *run)
        self.assertAlmostEqual(expected[0], 0.5, 5)
        for schedule in ("1f1b", "zb-h1"):
            self.assertEqual(self.trained("m.pipe", *run, "--schedule", schedule)[2], expected)

    def testStateAmongTheResults(self):
        """A later micro-batch writes into what an earlier one returned."""
        self.compiled(ShowsState, torch.randn(9, 6), "--train", "--loss-output", "0")
        run = ["--inputs", "batch.pt", "--microbatches", 3, "--steps", 2, *ADAM]
        expected = self.trained("m.pt", *run, "--loss-output", "0")
        actual = self.trained("m.pipe", *run)
        self.sameBits(expected[:2], actual[:2])
        self.assertEqual(expected[2], actual[2])

    def testALossPerSampleIsRefused(self):
        """As in PyTorch, except where a micro-batch has one sample."""
        ids, target = words(4)
        self.save(LossPerSample, (ids, target))
        self.refused(USAGE, "expected the result to be the loss, one floating-point number, got float32[B]", "pipe-compile", "m.pt", "--train", "--stages", 2,
                     "--inputs", "batch.pt", "--cost", "analytic", "-o", "no.pipe")
        self.refused(USAGE, "expected the result to be the loss, one floating-point number, got float32[2]", "pipe-run", "m.pt", "--train", "--inputs", "batch.pt",
                     "--microbatches", 2)
        torch.save([(ids[:1], target[:1]), (ids[1:], target[1:])], "cut.pt")
        self.refused(USAGE, ["micro-batch 1: expected a loss of one element, got one of shape [3]", "return the mean or the sum"], "pipe-run", "m.pt", "--train",
                     "--inputs", "cut.pt", "--presplit")
        self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--microbatches", 4)

    def testMicroBatchesThatWereCutBefore(self):
        ids, target = words(10)
        self.compiled(MeanOfWords, (ids, target))
        cut = [slice(0, 1), slice(1, 6), slice(6, 10)]
        torch.save([(ids[part], target[part]) for part in cut], "list.pt")
        run = ["--inputs", "list.pt", "--presplit", "--steps", 2, *ADAM]
        expected = self.trained("m.pt", *run)
        for schedule in ("1f1b", "gpipe", "zb-h1"):
            self.sameBits(expected[:2], self.trained("m.pipe", *run, "--schedule", schedule)[:2])
        model = torch.jit.load("m.pt").train()
        with torch.jit.optimized_execution(False):
            optimizer = torch.optim.AdamW(model.parameters(), 0.01)
            for _ in range(2):
                optimizer.zero_grad()
                for part in cut:
                    model(ids[part], target[part]).backward(torch.tensor(len(ids[part]) / 10))
                optimizer.step()
        self.sameBits(dict(model.state_dict()), {name: expected[0][name] for name in model.state_dict()})
        self.compiled(PairOfWords, (ids, target), name="pair")
        expected = self.trained("pair.pt", *run)
        self.sameBits(expected[:2], self.trained("pair.pipe", *run)[:2])
        self.sameBits(expected[:2], self.trained("pair.pt", *run, "--microbatches", 3)[:2])
        torch.save([(ids.tensor_split(3)[k], target.tensor_split(3)[k]) for k in range(3)], "even.pt")
        self.sameBits(self.trained("m.pipe", "--inputs", "even.pt", "--presplit", *ADAM)[:2],
                      self.trained("m.pipe", "--inputs", "batch.pt", "--microbatches", 3, *ADAM)[:2])
        for what in ("m.pt", "m.pipe"):
            self.assertRegex(self.pipec(0, "pipe-run", what, "--train", *run).out, r"micro-batches:? +3\b")
            report = json.loads("\n".join(self.pipec(0, "pipe-run", what, "--train", *run, "--json").out.splitlines()[2:]))  # after a line per step
            self.assertEqual(report["options"]["microbatches"], 3)
            self.refused(USAGE, "--presplit: expected a list with the arguments of each micro-batch in x.pt, got a Tensor", "pipe-run", what, "--train",
                         "--inputs", self.saved(ids, "x.pt"), "--presplit")
            self.refused(USAGE, "micro-batches: expected at least 1, got 0", "pipe-run", what, "--train", "--inputs", self.saved([], "none.pt"), "--presplit")
            self.refused(USAGE, "micro-batch 1", "pipe-run", what, "--train", "--inputs", self.saved([(ids, target), (ids[:2], target[:3])], "odd.pt"),
                         "--presplit")
            self.refused(USAGE, "--presplit: expected it without --accumulate, got both", "pipe-run", what, "--train", "--inputs", "list.pt", "--presplit",
                         "--accumulate", 2)
            self.refused(USAGE, "--accumulate: expected at least 1, got 0", "pipe-run", what, "--train", "--inputs", "batch.pt", "--accumulate", 0)
        self.refused(USAGE, "micro-batches: expected 2, got 3", "pipe-run", "m.pipe", "--train", "--inputs", "list.pt", "--presplit", "--microbatches", 2)

    def saved(self, value, path):
        torch.save(value, path)
        return path

    def scripted(self, make):
        torch.manual_seed(0)
        torch.jit.script(make()).save("scripted.pt")
        return "scripted.pt"


if __name__ == "__main__":
    e2e.main()
