"""evaluation.py: evaluation between the steps of a training: what it computes, that it changes nothing, what it refuses."""
import json
import sys
from pathlib import Path
from typing import List

import torch
from torch import Tensor, nn

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

USAGE, DAMAGED, DIFFERS = 2, 5, 7
SGD = ["--optimizer", "sgd,lr=0.1,momentum=0.9"]


class Modes(nn.Module):
    """Dropout, batch norm, a branch on the mode, a shared weight, and state that both modes write."""

    counts: List[int]

    def __init__(self):
        super().__init__()
        self.a, self.mid, self.b = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.b.weight = self.a.weight
        self.norm, self.drop = nn.BatchNorm1d(6), nn.Dropout(0.3)
        self.register_buffer("seen", torch.zeros(1))
        self.counts = [0]

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        self.counts[0] += 1
        self.seen += 1
        y = self.drop(torch.tanh(self.norm(self.a(x))))
        if self.training:
            y = y + 0.1 * torch.sin(self.mid(y))
        else:
            y = y * (1.0 + self.seen) / (1.0 + self.counts[0])
        return ((self.b(y) - target) ** 2).mean()


class Unrelated(nn.Module):
    """The arguments of Modes, and no parameter of it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return ((self.second(torch.tanh(self.first(x))) - target) ** 2).mean()


class NoLoss(nn.Module):
    """The loss in training mode, the result in eval mode."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        y = self.b(torch.tanh(self.a(x)))
        if self.training:
            return ((y - target) ** 2).mean()
        return y


class Worn(nn.Module):
    """Its eval mode works before the first step only."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        y = self.b(torch.tanh(self.a(x)))
        if self.training:
            self.seen += 1
        elif bool(self.seen > 0):
            raise ValueError("worn out")
        return ((y - target) ** 2).mean()


class Memory(nn.Module):
    """Recurrent weights, which an artifact for inference holds in one list."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 5, batch_first=True, dropout=0.4, num_layers=2), nn.Linear(5, 6)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        y, _ = self.lstm(x.unsqueeze(1).repeat(1, 3, 1))
        return ((self.head(y[:, -1]) - target) ** 2).mean()


class ZeroBiases(Memory):
    def __init__(self):
        super().__init__()
        for name, weight in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(weight)


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.drop(torch.tanh(self.a(x))))


def inPython(path, state, x, target, size, parts):
    """The loss of all samples in eval mode, in plain PyTorch."""
    torch.set_num_threads(1)
    model = torch.jit.load(path).eval()
    model.load_state_dict(state, strict=False)
    total = 0.0
    with torch.no_grad(), torch.jit.optimized_execution(False):
        for begin in range(0, len(x), size):
            xs, targets = x[begin:begin + size], target[begin:begin + size]
            pieces = min(parts, len(xs))
            loss = torch.zeros(())
            for a, b in zip(xs.tensor_split(pieces), targets.tensor_split(pieces)):
                part = model(a, b) * torch.tensor(len(a) / len(xs))
                loss = part if a is xs.tensor_split(pieces)[0] else loss + part
            total += loss.item() * len(xs)
    return total / len(x)


class OnlyTrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            raise RuntimeError("this model is only for training")
        return (self.b(torch.tanh(self.a(x))) ** 2).mean()


class InEval(nn.Module):
    """Two of them differ in eval mode only."""

    def __init__(self, factor: float):
        super().__init__()
        self.a, self.b, self.factor = nn.Linear(8, 8), nn.Linear(8, 8), factor

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(x))
        if not self.training:
            x = x * self.factor
        return (self.b(x) ** 2).mean()


class Penalty(nn.Module):
    """A penalty on the gradient of a critic, which the model computes itself."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 1)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = (0.5 * x + 0.5 * target).requires_grad_(True)
        y = self.b(torch.tanh(self.a(x)))
        g = torch.autograd.grad([y.sum()], [x], create_graph=True)[0]
        assert g is not None
        return y.mean() + ((g.norm(2, dim=1) - 1) ** 2).mean()


class PenaltyOfTraining(Penalty):
    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        if not self.training:
            return self.b(torch.tanh(self.a(0.5 * x + 0.5 * target))).mean()
        x = (0.5 * x + 0.5 * target).requires_grad_(True)
        y = self.b(torch.tanh(self.a(x)))
        g = torch.autograd.grad([y.sum()], [x], create_graph=True)[0]
        assert g is not None
        return y.mean() + ((g.norm(2, dim=1) - 1) ** 2).mean()


class Target(nn.Module):
    """Both modes move a parameter towards another one."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        with torch.no_grad():
            far = self.b(target)
            self.b.weight.mul_(0.9).add_(self.a.weight, alpha=0.1)
        return ((self.a(x) - far) ** 2).mean()


class EvalParameter(nn.Module):
    """One of its parameters has a gradient in no training step."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.scale = nn.Linear(6, 6), nn.Linear(6, 6), nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = self.b(torch.tanh(self.a(x)))
        if not self.training:
            x = x * self.scale
        return ((x - target) ** 2).mean()


class Evaluations(e2e.Case):
    def artifacts(self, model, batch, *options, stages=3):
        common = ["--stages", stages, "--inputs", batch, "--cost", "analytic", "--force", *options]
        self.pipec(0, "pipe-compile", model, "--train", "--evaluation", "--schedule", "1f1b", "-o", "train.pipe", *common)
        self.pipec(0, "pipe-compile", model, "--infer", "-o", "eval.pipe", *common)

    def saved(self, make):
        torch.manual_seed(0)
        torch.jit.script(make()).save("m.pt")
        torch.save((torch.randn(6, 6), torch.randn(6, 6)), "batch.pt")
        torch.manual_seed(1)
        x, target = torch.randn(23, 6), torch.randn(23, 6)
        torch.save((x, target), "eval.pt")
        return x, target

    def evaluated(self, what, *options, steps=4, parts=3, other=""):
        """The evaluations of a training, and the state after it. other: the artifact for them, if it is another one."""
        artifact = ["--eval-artifact", other] if other else []
        done = self.pipec(0, "pipe-run", what, "--train", "--inputs", "batch.pt", "--microbatches", parts, "--steps", steps, *SGD, "--eval-data", "eval.pt",
                          *artifact, "--output", "state.pt", "--force", "--json", *options)
        return json.loads(done.out[done.out.index("{\n"):])["eval"], torch.load("state.pt"), done

    def testEqualsTheUnsplitModelAndChangesNothing(self):
        for make in (Modes, Memory):
            x, target = self.saved(make)
            self.artifacts("m.pt", "batch.pt", "--tied", "replicate")
            for what in ("m.pt", "m.pt", "train.pipe"):
                plain = ["pipe-run", what, "--train", "--inputs", "batch.pt", "--microbatches", 3, "--steps", 4, *SGD, "--output", "plain.pt", "--force"]
                self.pipec(0, *plain)
                lines, state, _ = self.evaluated(what, "--eval-every", 2, "--batch", 10)
                if what == "train.pipe":
                    others, otherState, _ = self.evaluated(what, "--eval-every", 2, "--batch", 10, other="eval.pipe")
                    self.sameBits(state, otherState, "evaluations by another artifact")
                    self.assertEqual([line["loss"] for line in lines], [line["loss"] for line in others])
                self.sameBits(torch.load("plain.pt"), state, f"{make.__name__}: a training of {what} with evaluations and without")
                self.assertEqual([(line["step"], line["samples"]) for line in lines], [(2, 23), (4, 23)])
                if make is Memory:
                    self.assertEqual(lines[-1]["loss"], inPython("m.pt", state, x, target, 10, 3), what)
                if what == "m.pt":
                    expected = [line["loss"] for line in lines]
                else:  # the weights of several stages are summed in another order
                    for got, known in zip(lines, expected):
                        self.assertAlmostEqual(got["loss"], known, delta=0 if make is Memory else 1e-5 * known)

    def testEveryFamily(self):
        for name in ("resnet", "lstm", "unet"):
            model, batch = training_models.save(name)
            self.artifacts(model, batch)
            torch.save(tuple(torch.load(batch)), "eval.pt")
            torch.save(tuple(torch.load(batch)), "batch.pt")
            losses = [[line["loss"] for line in self.evaluated(what, "--eval-every", 1, steps=3)[0]] for what in (model, "train.pipe")]
            self.assertEqual(losses[0], losses[1], name)
            self.assertEqual(len(set(losses[0])), 3, f"{name}: weights that change")

    def testEverySchedule(self):
        """Evaluations have the bits of plain PyTorch in eval mode with the weights of that step, wherever the stages are."""
        for name in ("resnet", "gpt", "unet"):
            model, batch = training_models.save(name)
            for mode in ("replicate", "transmit"):
                self.artifacts(model, batch, "--tied", mode, stages=4)
                torch.save(tuple(torch.load(batch)), "eval.pt")
                torch.save(tuple(torch.load(batch)), "batch.pt")
                for schedule in ("gpipe", "zb-v"):
                    lines, state, _ = self.evaluated("train.pipe", "--schedule", schedule, steps=2)
                    x, target = torch.load(batch)
                    self.assertEqual(lines[0]["loss"], inPython(model, state, x, target, len(x), 3), f"{name} {mode} {schedule}")
                if name != "gpt":
                    break

    def testEqualBiasesOfALstm(self):
        x, target = self.saved(ZeroBiases)
        self.artifacts("m.pt", "batch.pt", stages=2)
        lines, state, _ = self.evaluated("train.pipe")
        self.assertEqual(lines[0]["loss"], inPython("m.pt", state, x, target, 23, 3))
        self.refused(USAGE, ["that differ from one another", "give the weights different values"], "pipe-run", "train.pipe", "--train", "--inputs",
                     "batch.pt", "--eval-data", "eval.pt", "--eval-artifact", "eval.pipe")

    def testTheTrainedArtifactHasManyPaths(self):
        self.saved(EvalParameter)
        self.artifacts("m.pt", "batch.pt", stages=2)
        expected = self.evaluated("train.pipe")[0]
        Path("link.pipe").symlink_to("train.pipe")
        for other in ("./train.pipe", "link.pipe", "train.pipe/"):
            self.assertEqual([line["loss"] for line in self.evaluated("train.pipe", other=other)[0]], [line["loss"] for line in expected], other)

    def testTheArtifactIsChecked(self):
        model, batch = training_models.save("resnet")
        torch.save(tuple(torch.load(batch)), "eval.pt")
        torch.save(tuple(torch.load(batch)), "batch.pt")
        self.artifacts(model, batch)
        self.pipec(0, "pipe-check", "train.pipe")
        plan = json.loads(Path("train.pipe/eval-plan.json").read_text())
        self.assertEqual((plan["mode"], len(plan["stages"])), ("infer", 3))
        self.assertEqual([stage["rank"] for stage in plan["stages"]],
                         [stage["rank"] for stage in json.loads(Path("train.pipe/plan.json").read_text())["stages"]])
        with open("train.pipe/eval-1.pt", "r+b") as file:
            file.seek(100)
            file.write(b"damage")
        self.pipec(5, "pipe-check", "train.pipe", saying="eval-1.pt: changed")
        self.pipec(5, "pipe-run", "train.pipe", "--train", "--inputs", "batch.pt", "--eval-data", "eval.pt", saying="eval-1.pt: changed")

    def testAParameterThatIsWrittenIsRestored(self):
        self.saved(Target)
        self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--microbatches", 3, "--steps", 4, *SGD, "--output", "plain.pt", "--force")
        _, state, _ = self.evaluated("m.pt")
        self.sameBits(torch.load("plain.pt"), state)

    def testAModelThatComputesGradients(self):
        """It trains in micro-batches; where there is no grad mode, the message says that."""
        self.saved(Penalty)
        x, target = torch.load("batch.pt")
        for parts in (1, 2, 4):
            model = torch.jit.load("m.pt").train()
            for a, b in zip(x.tensor_split(parts), target.tensor_split(parts)):
                with torch.jit.optimized_execution(False):
                    (model(a, b) * torch.tensor(len(a) / len(x))).backward()
            self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--microbatches", parts, "--emit-grads", "grads.pt", "--force", "--threads", 1)
            self.sameBits({name: value.grad for name, value in model.named_parameters()}, torch.load("grads.pt"), parts)
        for parts in (1, 2):
            says = ["aten::grad at ", "the model computes gradients itself, which inference and evaluation do not allow, as torch.no_grad() does not: micro-batch 0: ",
                    "help: compute them in training only (if self.training), or train without --eval-data"]
            run = ["pipe-run", "m.pt", "--microbatches", parts]
            done = self.pipec(USAGE, *run, "--train", "--inputs", "batch.pt", "--eval-data", "eval.pt")
            for text in ["error: --eval-data: ", *says]:
                self.assertIn(text, done.err)
            self.assertNotIn("step 1", done.out)
            self.refused(USAGE, says, *run, "--inputs", "batch.pt")
        self.saved(PenaltyOfTraining)
        self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--microbatches", 2, "--eval-data", "eval.pt")

    def testALossInItsOwnFile(self):
        x, _ = self.saved(Body)
        torch.save(x, "x.pt")
        torch.jit.script(nn.MSELoss()).save("loss.pt")
        self.artifacts("m.pt", "batch.pt", "--loss", "loss.pt", stages=2)
        expected = self.evaluated("m.pt", "--loss", "loss.pt")[0][0]["loss"]
        self.assertEqual(self.evaluated("train.pipe")[0][0]["loss"], expected)
        for artifact in ("train.pipe", "eval.pipe"):
            self.pipec(0, "pipe-check", artifact, "--against", "m.pt", "--loss", "loss.pt", saying="operator by operator")
            self.refused(USAGE, ["--against: expected the loss that the compile joined to the model (method forward_with_loss), got none", "help: pass --loss"],
                         "pipe-check", artifact, "--against", "m.pt")
        torch.jit.script(nn.L1Loss()).save("other.pt")
        self.pipec(5, "pipe-check", "train.pipe", "--against", "m.pt", "--loss", "other.pt", saying="FAILED")
        self.refused(USAGE, "--loss: expected --against MODEL.pt with it, got none", "pipe-check", "train.pipe", "--loss", "loss.pt")
        self.refused(USAGE, "--method: expected --loss with it, got none", "pipe-check", "train.pipe", "--method", "forward")
        self.pipec(0, "pipe-compile", "m.pt", "--infer", "--stages", 2, "--inputs", "x.pt", "--cost", "analytic", "-o", "eval.pipe", "--force")
        self.refused(USAGE, ["expected forward_with_loss(x, target), got forward(x)", "with --infer and the --method and --loss of the training"], "pipe-run", "train.pipe",
                     "--train", "--inputs", "batch.pt", "--eval-data", "eval.pt", "--eval-artifact", "eval.pipe")
        self.refused(USAGE, "--loss: expected an artifact with a joined loss, got one of method forward", "pipe-check", "eval.pipe", "--against", "m.pt",
                     "--loss", "loss.pt")

    def testEvalModeWithoutALoss(self):
        self.saved(NoLoss)
        self.artifacts("m.pt", "batch.pt", stages=2)
        for what in ("m.pt", "train.pipe"):
            self.refused(USAGE, "--eval-data: expected the loss among the results of eval mode, got none", "pipe-run", what, "--train", "--inputs", "batch.pt",
                         "--eval-data", "eval.pt", "--output", "none.pt")
            self.assertFalse(Path("none.pt").exists())

    def testDataThatDoesNotFit(self):
        """The first and the last batch are evaluated before the first step, so a long training does not end by its samples for evaluations."""
        self.saved(Modes)
        self.artifacts("m.pt", "batch.pt", stages=2)
        x, target = torch.load("eval.pt")
        torch.save((torch.cat([x, x], 1), target), "wide.pt")
        torch.save((x, target.repeat(1, 2)), "wide-target.pt")
        for what in ("m.pt", "train.pipe"):
            for data in ("wide.pt", "wide-target.pt"):
                done = self.pipec(USAGE, "pipe-run", what, "--train", "--inputs", "batch.pt", "--steps", 2, "--batch", 10, "--eval-data", data)
                self.assertIn("error: --eval-data: ", done.err)
                self.assertNotIn("step 1", done.out)

    def testAnEvaluationThatFailsLater(self):
        """The checkpoint of its step and the outputs are written all the same."""
        self.saved(Worn)
        self.artifacts("m.pt", "batch.pt", stages=2)
        for what in ("m.pt", "train.pipe"):
            done = self.pipec(USAGE, "pipe-run", what, "--train", "--inputs", "batch.pt", "--steps", 3, "--eval-every", 1, "--eval-data", "eval.pt", "--output",
                              f"{what}.state", "--emit-grads", f"{what}.grads", "--checkpoint", f"{what}.checkpoints", "--checkpoint-every", 1)
            self.assertIn("error: evaluation after step 1: ", done.err)
            self.assertIn("worn out", done.err)
            self.assertIn("a.weight", torch.load(f"{what}.state"))
            self.assertIn("a.weight", torch.load(f"{what}.grads"))
            self.assertTrue(Path(f"{what}.checkpoints/step-1/MANIFEST").is_file(), "the checkpoint of the step whose evaluation failed")

    def testACompleteTrainingIsEvaluated(self):
        """Also where a resume finds that no step is left to run, with the loss of the run that made the checkpoint."""
        self.saved(Modes)
        self.artifacts("m.pt", "batch.pt", stages=2)
        for what in ("m.pt", "train.pipe"):
            run = ["pipe-run", what, "--train", "--inputs", "batch.pt", "--steps", 2, *SGD, "--eval-data", "eval.pt", "--checkpoint", f"{what}.done"]
            loss = r"evaluation after step 2  (loss [\d.]+  23 samples)"
            self.assertRegex(self.pipec(0, *run).out, loss)
            again = self.pipec(0, *run, "--resume", saying="the training is complete")
            self.assertRegex(again.out, loss)
            self.assertNotIn("step 2/2", again.out)

    def testTextLines(self):
        self.saved(Modes)
        done = self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--steps", 2, *SGD, "--eval-data", "eval.pt")
        self.assertRegex(done.out, r"step 2/2 [^\n]*\nevaluation after step 2  loss [\d.]+  23 samples  [\d.]+ \w+\n")
        self.assertNotIn("after step 1", done.out)

    def testRefusals(self):
        self.saved(Modes)
        self.artifacts("m.pt", "batch.pt", "--tied", "replicate")
        run = ["--train", "--inputs", "batch.pt"]
        self.pipec(0, "pipe-compile", "m.pt", "--train", "--stages", 3, "--inputs", "batch.pt", "--cost", "analytic", "--tied", "replicate", "-o", "alone.pipe")
        self.pipec(0, "pipe-compile", "m.pt", "--train", "--evaluation", "--stages", 3, "--inputs", "batch.pt", "--cost", "analytic", "-o", "fewer.pipe",
                   saying="evaluation: 2 stages in place of 3, because eval mode has fewer places for cuts")
        alone = ["alone.pipe: expected an artifact with stages in eval mode, got one compiled with --train alone", "--train --evaluation"]
        self.refused(USAGE, alone, "pipe-run", "alone.pipe", *run, "--eval-data", "eval.pt")
        self.refused(USAGE, alone, "pipe-run", "train.pipe", *run, "--eval-data", "eval.pt", "--eval-artifact", "alone.pipe")
        torch.jit.script(OnlyTrained()).save("only.pt")
        torch.save((torch.randn(4, 8),), "only.inputs.pt")
        only = ["only.pt", "--train", "--stages", 2, "--inputs", "only.inputs.pt", "--cost", "analytic"]
        self.refused(USAGE, ["--evaluation: ", "this model is only for training"], "pipe-compile", *only, "--evaluation", "-o", "no.pipe")
        self.pipec(0, "pipe-compile", *only, "-o", "only.pipe")
        self.refused(USAGE, "--evaluation: expected --train with it", "pipe-compile", "m.pt", "--evaluation", "--stages", 2, "-o", "no.pipe")
        self.refused(USAGE, "--eval-artifact: expected an artifact to train, got a .pt", "pipe-run", "m.pt", *run, "--eval-data", "eval.pt",
                     "--eval-artifact", "eval.pipe")
        self.refused(USAGE, "--eval-every: expected --eval-data with it, got none", "pipe-run", "m.pt", *run, "--eval-every", 2)
        self.refused(USAGE, "--eval-every: expected at least 1, got 0", "pipe-run", "m.pt", *run, "--eval-data", "eval.pt", "--eval-every", 0)
        torch.manual_seed(5)
        torch.jit.script(Modes()).save("other.pt")
        self.pipec(0, "pipe-compile", "other.pt", "--infer", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic", "-o", "other.pipe")
        self.refused(USAGE, "expected the weights of the one that trains, got other ones", "pipe-run", "train.pipe", *run, "--eval-data", "eval.pt",
                     "--eval-artifact", "other.pipe")
        torch.jit.script(Unrelated()).save("unrelated.pt")
        self.pipec(0, "pipe-compile", "unrelated.pt", "--infer", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic", "-o", "unrelated.pipe")
        self.refused(USAGE, ["expected parameters of the one that trains, got one that it does not have: first.weight", "compile both from the same file"],
                     "pipe-run", "train.pipe", *run, "--eval-data", "eval.pt", "--eval-artifact", "unrelated.pipe")

    def testComparingLooksAtBothPlans(self):
        """pipe-check --against, with a model and with an artifact."""
        torch.save((torch.randn(4, 8),), "in.pt")
        for name, factor in (("half", 0.5), ("quarter", 0.25)):
            torch.manual_seed(0)
            torch.jit.script(InEval(factor)).save(f"{name}.pt")
            self.pipec(0, "pipe-compile", f"{name}.pt", "--train", "--evaluation", "--stages", 2, "--inputs", "in.pt", "--cost", "analytic", "-o", f"{name}.pipe")
        self.pipec(0, "pipe-check", "half.pipe", "--against", "half.pt", saying="byte by byte")
        self.pipec(0, "pipe-check", "half.pipe", "--against", "half.pipe")
        self.pipec(DAMAGED, "pipe-check", "half.pipe", "--against", "quarter.pt", saying=["evaluation: ", "aten::mul"])
        self.pipec(DIFFERS, "pipe-check", "half.pipe", "--against", "quarter.pipe", saying=["evaluation: the first operator that differs", "0x1p-1"])
        self.pipec(0, "pipe-compile", "half.pt", "--train", "--stages", 2, "--inputs", "in.pt", "--cost", "analytic", "-o", "without.pipe")
        self.pipec(DIFFERS, "pipe-check", "half.pipe", "--against", "without.pipe", saying="evaluation: new")
        self.pipec(DIFFERS, "pipe-check", "without.pipe", "--against", "half.pipe", saying="evaluation: gone")


if __name__ == "__main__":
    e2e.main()
