"""train_norms.py: batch norm whose running statistics are updated once per step (--batch-norm deferred)."""
import sys

import torch
from torch import Tensor, nn

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

USAGE = 2
SGD = ["--optimizer", "sgd,lr=0.05"]


class Norms(nn.Module):
    """The first norm sees the inputs only, so its statistics are those of the whole batch; the last has no fixed momentum."""

    def __init__(self):
        super().__init__()
        self.first, self.a, self.second, self.b = nn.BatchNorm1d(6), nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6)
        self.third = nn.BatchNorm1d(6, momentum=None)
        self.whole, self.plain = nn.BatchNorm1d(6, momentum=None), nn.BatchNorm1d(6, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.a(self.first(x)))
        z = self.third(self.b(torch.tanh(y))) + self.whole(x)
        return self.plain(z).mul(y).square().mean()


class Centred(nn.Module):
    """t has no batch."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x, t):
        return (self.b(torch.tanh(self.a(x))) - t.mean(0)).square().mean()


class Gan(nn.Module):
    """Only the generator has a norm, so the real samples alone are independent."""

    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 12))
        self.critic = nn.Linear(12, 1)

    def forward(self, z: Tensor, real: Tensor) -> Tensor:
        return nn.functional.softplus(-self.critic(real)).mean() + nn.functional.softplus(-self.critic(self.generator(z))).mean()


class TwiceNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.norm(torch.tanh(self.norm(self.a(x))))).square().mean()


class Unused(TwiceNormed):
    """Its norm is in a method that forward does not call."""

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x))).square().mean()

    @torch.jit.export
    def normed(self, x: Tensor) -> Tensor:
        return self.norm(self.a(x))


class TrainNorms(e2e.Case):
    def compiled(self, make, batch, *options):
        torch.manual_seed(0)
        torch.jit.script(make()).save("m.pt")
        torch.save(batch, "batch.pt")
        self.pipec(0, "pipe-compile", "m.pt", "--train", *options, "--inputs", "batch.pt", "--cost", "analytic", "--schedule", "1f1b", "-o", "m.pipe", "--force")

    def trained(self, model, *arguments):
        self.pipec(0, "pipe-run", model, "--train", *arguments, "--output", "state.pt", "--emit-grads", "grads.pt", "--force")
        # A reference lists buffers in the model's order, a pipeline by stage.
        return dict(sorted(torch.load("state.pt").items())), torch.load("grads.pt")

    def testStatisticsOfTheWholeBatch(self):
        x = torch.randn(11, 6) * 3 + 1
        self.compiled(Norms, (x,), "--stages", 3)
        batch = nn.BatchNorm1d(6), nn.BatchNorm1d(6, momentum=None)
        for _ in range(3):
            for norm in batch:
                norm(x)
        for parts in (1, 4, 11):  # the last: micro-batches of one sample, which have no variance
            run = ["--inputs", "batch.pt", "--microbatches", parts, "--steps", 3, "--batch-norm", "deferred", *SGD]
            if parts == 11:
                self.refusedOrEqual(run)
                continue
            expected = self.trained("m.pt", *run)
            for norm, name in zip(batch, ("first", "whole")):
                for key, value in norm.state_dict().items():
                    if key.startswith("running"):
                        self.assertLess((expected[0][f"{name}.{key}"] - value).abs().max(), 1e-5, f"{parts} {name}.{key}")
            for name in ("first", "second", "third", "whole"):
                self.assertEqual(expected[0][f"{name}.num_batches_tracked"].item(), 3)
            for more in ([], ["--schedule", "gpipe"], ["--schedule", "zb-h1"]):
                self.sameBits(expected, self.trained("m.pipe", *run, *more), f"{parts} {more}")
        once = self.trained("m.pt", "--inputs", "batch.pt", "--microbatches", 4, "--steps", 3, *SGD)
        self.assertEqual(once[0]["first.num_batches_tracked"].item(), 12)

    def refusedOrEqual(self, run):
        """One sample per channel: whatever PyTorch says of it, reference and pipeline say the same."""
        codes = [e2e.run("pipe-run", what, "--train", *run).code for what in ("m.pt", "m.pipe")]
        self.assertEqual(codes[0], codes[1])

    def testNoiseIsCutLikeTheRealSamples(self):
        """Whatever the size of the example: model and artifact decide alike."""
        torch.save((torch.randn(32, 6), torch.randn(32, 12)), "data.pt")
        how = ["--train", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic", "-o", "m.pipe", "--force"]
        torch.manual_seed(0)
        torch.jit.script(Gan()).save("m.pt")
        for rows in (4, 9):
            torch.save((torch.randn(rows, 6), torch.randn(rows, 12)), "batch.pt")
            done = self.pipec(0, "pipe-compile", "m.pt", *how)
            self.assertIn("batch norm (generator.1) uses the statistics of each micro-batch", done.err)
            for unsaid in ("the whole of z", "smaller batches do not show the cause", "detached value"):
                self.assertNotIn(unsaid, done.err)
            shown = self.pipec(0, "pipe-inspect", "m.pipe").out
            for name in ("z", "real"):
                self.assertRegex(shown, rf"{name} +Tensor .*cut along dimension 0\n")
            for parts in (2, 4):
                run = ["--data", "data.pt", "--batch", 16, "--microbatches", parts, *SGD]
                for expected, actual in zip(self.trained("m.pt", *run), self.trained("m.pipe", *run)):
                    for name, value in expected.items():  # the critic's gradients are summed over two stages
                        self.assertTrue(torch.allclose(value, actual[name], rtol=1e-5, atol=1e-7), f"{rows} {parts} {name}")
        # A plan that gives all of the data's noise to every micro-batch is not followed in silence.
        self.assertNotIn("--data", self.pipec(0, "pipe-run", "m.pipe", "--train", *run).err)
        torch.save((torch.randn(5, 6), torch.randn(4, 12)), "batch.pt")
        rows = "all 32 rows of z, as many as the 32 samples of real, because "
        self.pipec(0, "pipe-compile", "m.pt", *how, "--batch-dim", "real=0")
        self.pipec(0, "pipe-run", "m.pipe", "--train", *run,
                   saying=f"warning: --data: each micro-batch gets {rows}the plan gives it whole; if each row belongs to a sample, compile with --batch-dim z=0, "
                          "otherwise with z=none")
        self.pipec(0, "pipe-run", "m.pt", "--train", *run, "--batch-dim", "real=0",
                   saying=f"warning: --data: each step gets {rows}--batch-dim does not name it; if each row belongs to a sample, pass z=0, too, otherwise z=none")
        # The user has said so.
        self.pipec(0, "pipe-compile", "m.pt", *how, "--batch-dim", "z=none,real=0")
        self.assertNotIn("--data", self.pipec(0, "pipe-run", "m.pipe", "--train", *run).err)
        self.assertNotIn("--data", self.pipec(0, "pipe-run", "m.pt", "--train", *run, "--batch-dim", "z=none,real=0").err)

    def testDataGivenWhole(self):
        """--batch-dim t=none alone: every step gets all rows of t, and x is cut."""
        x, t = torch.randn(23, 6), torch.randn(23, 6)
        torch.save((x, t), "data.pt")
        torch.save((x[:5], t), "batch.pt")
        torch.jit.script(Centred()).save("m.pt")
        self.pipec(0, "pipe-compile", "m.pt", "--train", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic", "--batch-dim", "t=none", "-o", "m.pipe",
                   "--force")
        run = ["--data", "data.pt", "--batch", 5, "--microbatches", 2, "--batch-dim", "t=none", *SGD]
        expected, actual = self.trained("m.pt", *run), self.trained("m.pipe", *[word for word in run if word not in ("--batch-dim", "t=none")])
        for a, b in zip(expected, actual):
            for name, value in a.items():
                self.assertTrue(torch.equal(value, b[name]), name)

    def testRecomputedAndAccumulated(self):
        for make, cut in ((Norms, ["--stages", 3]), (TwiceNormed, ["--at", "b"])):
            x = torch.randn(12, 6)
            self.compiled(make, (x,), *cut, "--recompute", "always")
            run = ["--inputs", "batch.pt", "--microbatches", 3, "--accumulate", 2, "--steps", 2, "--batch-norm", "deferred", *SGD]
            expected = self.trained("m.pt", *run)
            for schedule in ("1f1b", "gpipe", "zb-h1"):
                self.sameBits(expected, self.trained("m.pipe", *run, "--schedule", schedule), f"{make.__name__} {schedule}")

    def testConvolutions(self):
        model, batch = training_models.save("resnet")
        self.pipec(0, "pipe-compile", model, "--train", "--stages", 4, "--inputs", batch, "--cost", "analytic", "--schedule", "1f1b", "-o", "resnet.pipe",
                   "--force")
        run = ["--inputs", batch, "--microbatches", 3, "--steps", 3, "--batch-norm", "deferred", *SGD]
        expected = self.trained(model, *run)
        for schedule in ("1f1b", "zb-v", "interleaved-1f1b"):
            self.sameBits(expected, self.trained("resnet.pipe", *run, "--schedule", schedule), schedule)
        before = torch.jit.load(model).state_dict()
        counted = [name for name in before if name.endswith("num_batches_tracked")]
        self.assertTrue(counted)
        for name in counted:
            self.assertEqual(expected[0][name].item(), before[name].item() + 3)

    def testRefused(self):
        model, batch = training_models.save("mlp")
        self.pipec(0, "pipe-compile", model, "--train", "--stages", 2, "--inputs", batch, "--cost", "analytic", "-o", "mlp.pipe", "--force")
        self.compiled(Unused, torch.randn(8, 6), "--stages", 2)
        for what in ("m.pt", "m.pipe"):
            self.refused(USAGE, "--batch-norm deferred: expected a model with batch norm, got one without", "pipe-run", what, "--train", "--inputs", "batch.pt",
                         "--batch-norm", "deferred")
        for what in (model, "mlp.pipe"):
            self.refused(USAGE, ["--batch-norm deferred: expected a model with batch norm, got one without", "leave --batch-norm out"], "pipe-run", what,
                         "--train", "--inputs", batch, "--batch-norm", "deferred")
            self.refused(USAGE, "--batch-norm: expected per-micro-batch or deferred, got never", "pipe-run", what, "--train", "--inputs", batch, "--batch-norm",
                         "never")


if __name__ == "__main__":
    e2e.main()
