"""checkpoints.py: pipe-run --train with --checkpoint and --resume, and pipe-merge --checkpoint: the same bits as without a stop,
in other shapes of the pipeline too, and nothing lost whatever ends the process.

    checkpoints.py [NAME...] [-- OPTION...]    --all among the names: the process is killed at every write, not at some
"""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Optional

import torch
from torch import Tensor, nn

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

USAGE, DAMAGED, VERSION, IO, NOT_FINITE = 2, 5, 6, 8, 11
OPTIMIZERS = ["sgd,lr=0.1", "sgd,lr=0.1,momentum=0.9,nesterov=1", "adam,lr=0.01,amsgrad=1", "adamw,lr=0.01", "rmsprop,lr=0.01,momentum=0.5,centered=1",
              "adagrad,lr=0.01,lr_decay=0.1,initial_accumulator_value=0.1"]


class Everything(nn.Module):
    """Dropout, batch norm, a tensor that is None at first, numbers in a list, a parameter that is not trained, and one that no step uses."""

    counts: List[int]
    last: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b, self.c, self.d = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 4)
        self.drop, self.counts, self.last = nn.Dropout(0.3), [0], None
        self.scale = nn.Parameter(torch.full((6,), 0.9), requires_grad=False)
        self.unused = nn.Linear(3, 3)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = self.drop(torch.tanh(self.norm(self.a(x)) * self.scale))
        x = x + self.drop(torch.tanh(self.b(x)))
        self.counts[0] += 1
        last = self.last
        if last is not None:
            x = x + 0.1 * last.mean()
        self.last = x.detach()
        return nn.functional.cross_entropy(self.d(torch.tanh(self.c(x) + 1.0 / self.counts[0])), target)


class Explodes(nn.Module):
    """A loss that is not finite for samples of zeros."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return (self.b(torch.tanh(self.a(x))) / x.abs().sum() - target).square().mean()


class Sparse(nn.Module):
    """Sparse gradients, whose momentum is sparse."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 4, sparse=True), nn.Linear(4, 9)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.out(torch.tanh(self.words(ids))), target)


class Other(nn.Module):
    """Some names of Everything."""

    def __init__(self, width: int):
        super().__init__()
        self.a, self.d = nn.Linear(6, width), nn.Linear(width, 4)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.d(torch.tanh(self.a(x))), target)


class Scaled(nn.Module):
    """A loss with a parameter and a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, result: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        return nn.functional.mse_loss(result * self.scale, target)


def intact(path):
    """Whether a checkpoint is what its MANIFEST says, by other means than pipec's."""
    if not (path / "MANIFEST").exists():
        return False
    listed = dict(reversed(line.split("  ", 1)) for line in (path / "MANIFEST").read_text().splitlines())
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in path.iterdir() if file.name != "MANIFEST"}
    return listed == found


def steps(directory):
    return sorted(int(name[5:]) for name in os.listdir(directory) if name.startswith("step-"))


class Checkpoints(e2e.Case):
    def saved(self, make, x, target, stages=3, name="m"):
        torch.manual_seed(0)
        torch.jit.script(make()).save(f"{name}.pt")
        torch.save((x, target), "data.pt")
        torch.save((x[:5], target[:5]), "micro.pt")
        self.pipec(0, "pipe-compile", f"{name}.pt", "--train", "--stages", stages, "--inputs", "micro.pt", "--schedule", "1f1b", "-o", f"{name}.pipe", "--force")
        return f"{name}.pipe", f"{name}.pt"

    def everything(self, stages=3, name="m"):
        generator = torch.Generator().manual_seed(5)
        x, target = torch.randn(25, 6, generator=generator), torch.randint(0, 4, (25,), generator=generator)
        return self.saved(Everything, x, target, stages, name)

    def train(self, what, *options, code=0, **how):
        return self.pipec(code, "pipe-run", what, "--train", "--output", "state.pt", "--force", *options, **how)

    def fresh(self, name):
        shutil.rmtree(name, ignore_errors=True)
        return name

    def sameCheckpoint(self, expected, actual, what=""):
        """All files, byte by byte."""
        a, b = e2e.files(expected), e2e.files(actual)
        self.assertEqual(list(a), list(b), what)
        self.assertEqual([name for name in a if a[name] != b[name]], [], what)

    def listed(self, checkpoint):
        """A MANIFEST that agrees with the files: these contents are there on purpose."""
        names = [line.split("  ", 1)[1] for line in (checkpoint / "MANIFEST").read_text().splitlines()]
        (checkpoint / "MANIFEST").write_text("".join(f"{hashlib.sha256((checkpoint / name).read_bytes()).hexdigest()}  {name}\n" for name in names))

    def straight(self, what, *options, every=4, name="whole"):
        """Ten steps with checkpoints; the state after them."""
        self.train(what, *options, "--steps", 10, "--checkpoint", self.fresh(name), "--checkpoint-every", every)
        return torch.load("state.pt")

    def resumed(self, what, *options, origin="whole/step-4", into="rest", code=0, **how):
        """The run up to ten steps from one of these checkpoints; the state after them."""
        self.fresh(into)
        done = self.train(what, *options, "--steps", 10, f"--resume={origin}", "--checkpoint", into, code=code, **how)
        return torch.load("state.pt") if code == 0 else done

    def testEveryOptimizer(self):
        """Ten steps, and four, a stop, and six: checkpoints and states of the same bytes, for pipeline and reference."""
        pipe, model = self.everything()
        data = ["--data", "data.pt", "--batch", 10, "--shuffle", "--microbatches", 2, "--lr-schedule", "cosine,warmup=2", "--clip-norm", 0.5]
        for index, optimizer in enumerate(OPTIMIZERS):
            for what in (pipe, model) if index in (1, 3) else (pipe,):
                run = [*data, "--optimizer", optimizer]
                expected = self.straight(what, *run, "--seed", 7)
                self.assertEqual(steps("whole"), [4, 8, 10])
                self.sameBits(expected, self.resumed(what, *run, saying="continuing after step 4"), f"{optimizer} of {what}")
                self.sameCheckpoint("whole/step-10", "rest/step-10", f"{optimizer} of {what}")

    def testOtherShapes(self):
        """A checkpoint of three stages continues in two or four, under other schedules and ranks, in the reference, and back."""
        _, model = self.everything()
        run = ["--data", "data.pt", "--batch", 10, "--shuffle", "--microbatches", 2, "--optimizer", "adamw,lr=0.01"]
        expected = self.straight("m.pipe", *run)
        unsplit = self.straight(model, *run, name="unsplit")
        self.sameBits(expected, {name: unsplit[name] for name in expected}, "the reference itself")
        for number in (2, 4):
            self.pipec(0, "pipe-compile", model, "--train", "--stages", number, "--inputs", "micro.pt", "--schedule", "1f1b", "-o", f"{number}.pipe", "--force")
        shapes = [("m.pipe", "whole/step-4", ["--schedule", "gpipe"]), ("2.pipe", "whole/step-4", []), ("4.pipe", "whole/step-4", ["--schedule", "interleaved-1f1b"]),
                  (model, "whole/step-4", []), ("4.pipe", "unsplit/step-4", ["--schedule", "zb-h1"]), ("m.pipe", "unsplit/step-4", [])]
        for what, origin, options in shapes:
            state = self.resumed(what, *run, *options, origin=origin)
            self.sameBits(expected, {name: state[name] for name in expected}, f"{origin} in {what}")
        # From there into the first shape again.
        self.train("2.pipe", *run, "--steps", 6, "--resume=unsplit/step-4", "--checkpoint", self.fresh("six"))
        self.sameBits(expected, self.resumed("m.pipe", *run, origin="six"), "twice")

    def testFamilies(self):
        """Batch norm, recurrent layers, weights of several stages as copies and sent: what comes back is what was saved."""
        for name, tied in (("resnet", None), ("lstm", None), ("gpt", "replicate"), ("gpt", "transmit")):
            model, batch = training_models.save(name)
            for stages in (4, 2):
                self.pipec(0, "pipe-compile", model, "--train", "--stages", stages, "--inputs", batch, "--schedule", "1f1b", "-o", f"{stages}.pipe", "--force",
                           *(["--tied", tied] if tied else []))
            # Adam makes a step of full size from a gradient that is zero but for rounding, which differs where weights are shared.
            optimizer = "sgd,lr=0.1,momentum=0.9" if tied else "adam,lr=0.01"
            run = ["--inputs", batch, "--microbatches", 2, "--optimizer", optimizer, "--seed", 3]
            expected = self.straight("4.pipe", *run)
            self.sameBits(expected, self.resumed("4.pipe", *run), f"{name} {tied}")
            self.sameCheckpoint("whole/step-10", "rest/step-10", f"{name} {tied}")
            for what in ("2.pipe", model):
                state = self.resumed(what, *run)
                if not tied:
                    self.sameBits(expected, {key: state[key] for key in expected}, f"{name} in {what}")
                for key in expected:  # weights of several stages are summed in another order
                    self.assertLess((state[key].double() - expected[key].double()).norm(), 1e-4 * (1 + expected[key].double().norm()), (name, what, key))
            # The values themselves, before another step is taken.
            self.train("2.pipe", *run, "--steps", 4, "--resume=whole/step-4", saying="the training is complete")
            two = torch.load("state.pt")
            self.train(model, *run, "--steps", 4, "--resume=whole/step-4")
            unsplit = torch.load("state.pt")
            self.sameBits({key: two[key] for key in two}, {key: unsplit[key] for key in two}, f"{name}: what was restored")

    def testTheLastBatchIsLeftOut(self):
        """Two steps per epoch of 25 samples. Where nothing is left out, the option makes no difference."""
        pipe, model = self.everything()
        run = ["--data", "data.pt", "--batch", 10, "--shuffle", "--microbatches", 2, "--optimizer", "sgd,lr=0.1"]
        for what in (pipe, model):
            expected = self.straight(what, *run, "--drop-last")
            self.sameBits(expected, self.resumed(what, *run, "--drop-last"), what)
            position = json.loads(Path("whole/step-10/checkpoint.json").read_text())["program"]
            self.assertEqual((position["epoch"], position["step_of_epoch"]), ("5", "0"))
            self.refused(USAGE, "--drop-last: expected true, as in the checkpoint, got false", "pipe-run", what, "--train", *run, "--steps", 10,
                         "--resume=whole/step-4")
        run[3] = 5
        expected = self.straight(pipe, *run, "--drop-last")
        self.sameBits(expected, self.resumed(pipe, *run))

    def testSparseMomentum(self):
        ids, target = torch.tensor([1, 2, 3, 1, 8, 2]), torch.tensor([2, 3, 1, 2, 0, 3])
        pipe, _ = self.saved(Sparse, ids, target, 2, "sparse")
        run = ["--data", "data.pt", "--batch", 2, "--microbatches", 1, "--optimizer", "sgd,lr=0.1,momentum=0.9"]
        self.sameBits(self.straight(pipe, *run), self.resumed(pipe, *run))

    def testSkippedStepsInARow(self):
        """The third in a row ends the run, though two of them were before the stop."""
        x, target = torch.ones(10, 4), torch.ones(10, 4)
        x[2:] = 0
        pipe, model = self.saved(Explodes, x, target, 2, "explodes")
        for what in (pipe, model):
            run = ["--data", "data.pt", "--batch", 1, "--microbatches", 1, "--optimizer", "sgd,lr=0.01", "--on-nan", "skip:3"]
            self.train(what, *run, "--steps", 4, "--checkpoint", self.fresh("whole"))
            self.resumed(what, *run, code=NOT_FINITE, saying=["step 5:", "got 3"])

    def testCompleteAndCounts(self):
        """--steps counts from the beginning of the training."""
        pipe, _ = self.everything(2)
        run = ["--inputs", "micro.pt", "--microbatches", 1, "--optimizer", "sgd,lr=0.1"]
        self.train(pipe, *run, "--steps", 3, "--checkpoint", self.fresh("c"))
        state = torch.load("state.pt")
        done = self.train(pipe, *run, "--steps", 3, "--checkpoint", "c", "--resume", saying="the training is complete: the checkpoint is of step 3")
        self.assertEqual(done.out, "")
        self.sameBits(state, torch.load("state.pt"))
        report = json.loads(self.train(pipe, *run, "--steps", 2, "--checkpoint", "c", "--resume", "--json").out)
        self.assertEqual((report["runs"], report["loss"], report["options"]["resumed_after_step"]), (0, [], 3))
        self.refused(USAGE, "--emit-grads: expected a step to run, got none: the checkpoint is of step 3, and 3 are asked for", "pipe-run", pipe, "--train", *run,
                     "--steps", 3, "--resume=c", "--emit-grads", "grads.pt")
        done = self.train(pipe, *run, "--steps", 5, "--checkpoint", "c", "--resume")
        self.assertIn("step 4/5", done.out)
        self.assertNotIn("step 3/5", done.out)
        self.assertEqual(steps("c"), [3, 5])

    def testKeep(self):
        pipe, _ = self.everything(2)
        run = ["--inputs", "micro.pt", "--microbatches", 1, "--optimizer", "adam"]
        self.train(pipe, *run, "--steps", 5, "--checkpoint", self.fresh("c"), "--checkpoint-every", 1, "--keep", 2)
        self.assertEqual(sorted(os.listdir("c")), ["step-4", "step-5"])
        self.assertTrue(all(intact(Path("c") / name) for name in os.listdir("c")))
        # A damaged one takes no place among the newest, and nothing good is lost for it.
        for keep, kept in (1, ["step-5.damaged", "step-6"]), (2, ["step-4", "step-5.damaged", "step-6"]):
            shutil.copytree("c", self.fresh("d"))
            with open("d/step-5/stage-1.pt", "ab") as file:
                file.write(b"x")
            self.train(pipe, *run, "--steps", 6, "--checkpoint", "d", "--checkpoint-every", 2, "--keep", keep, "--resume=auto", saying="continuing after step 4")
            self.assertEqual(sorted(os.listdir("d")), kept)
            self.assertTrue(intact(Path("d/step-6")))
        # As a killed process leaves them. No step is left to run, but one checkpoint is too many.
        self.train(pipe, *run, "--steps", 5, "--checkpoint", "c", "--keep", 1, "--resume=auto", saying="the training is complete")
        self.assertEqual(os.listdir("c"), ["step-5"])
        shutil.rmtree("d/step-4")
        with open("d/step-6/stage-1.pt", "ab") as file:
            file.write(b"x")
        self.train(pipe, *run, "--steps", 5, "--checkpoint", "d", "--keep", 1, "--resume=c", saying="the training is complete")
        self.assertIn("step-6.damaged", os.listdir("d"))

    def testCompleteTraining(self):
        """What is asked for after the last step comes although no step is left to run; what needs a step is refused."""
        pipe, _ = self.everything(2)
        run = ["--inputs", "micro.pt", "--microbatches", 1, "--optimizer", "adam", "--steps", 2, "--checkpoint", self.fresh("c")]
        self.train(pipe, *run)
        for option, *value in ["--emit-grads", "x.pt"], ["--trace", "x.json"], ["--verify", "run"]:
            self.refused(USAGE, f"{' '.join([option, *value][:1 if option != '--verify' else 2])}: expected a step to run, got none", "pipe-run", pipe, "--train",
                         *run, "--resume", option, *value)

    def testOptionsThatDiffer(self):
        pipe, model = self.everything()
        run = ["--data", "data.pt", "--batch", 10, "--microbatches", 2, "--optimizer", "adamw,lr=0.01"]
        self.train(pipe, *run, "--steps", 4, "--seed", 7, "--checkpoint", self.fresh("c"))
        again = lambda *options: ["pipe-run", pipe, "--train", *options, "--steps", 6, "--resume=c"]
        self.refused(USAGE, ["--optimizer: expected that of the checkpoint, adamw,lr=0.01,", "got sgd,", "only learning rates may differ"], *again(*run[:-1], "sgd"))
        self.refused(USAGE, "--optimizer: expected that of the checkpoint", *again(*run[:-1], "adamw,lr=0.01,beta1=0.8"))
        self.refused(USAGE, "got none", *again(*run[:-2]))
        self.refused(USAGE, "--seed: expected 7, that of the checkpoint, got 8", *again(*run, "--seed", 8))
        self.refused(USAGE, "--batch: expected 10, as in the checkpoint, got 5", *again("--data", "data.pt", "--batch", 5, *run[4:]))
        self.refused(USAGE, "--shuffle: expected false", *again(*run, "--shuffle"))
        self.refused(USAGE, "--drop-last: expected false, as in the checkpoint, got true", *again(*run, "--drop-last"))
        self.refused(USAGE, "--data: expected samples, as in the checkpoint, got one batch", *again("--inputs", "micro.pt", *run[4:]))
        done = self.pipec(0, *again("--data", "data.pt", "--batch", 10, "--microbatches", 1, "--optimizer", "adamw,lr=0.02", "--clip-norm", 1, "--threads", 2,
                                    "--lr-schedule", "linear", "--freeze", "a.*", "--loss-reduction", "sum"))
        for text in ("--microbatches: this run has 1, the checkpoint was written with 2", "--optimizer: this run has adamw,lr=0.02", "--clip-norm: this run has 1",
                     "--lr-schedule: this run has linear,", "--threads: this run has 2", "--freeze: this run has a.*", "--loss-reduction: this run has sum"):
            self.assertIn("warning: " + text, done.err)

        self.train(pipe, "--inputs", "micro.pt", *run[4:], "--steps", 4, "--checkpoint", self.fresh("one"))
        done = self.pipec(0, "pipe-run", pipe, "--train", "--inputs", "data.pt", *run[4:], "--steps", 6, "--resume=one")
        self.assertIn("warning: --inputs: this run has a batch of 25, the checkpoint was written with 5\n", done.err)
        x, target = torch.load("micro.pt")
        torch.save([(x[:2], target[:2]), (x[2:], target[2:])], "cut.pt")
        torch.save([(x[:3], target[:3]), (x[3:], target[3:])], "other.pt")
        presplit = lambda file: ["--inputs", file, "--presplit", *run[4:]]
        done = self.pipec(0, "pipe-run", pipe, "--train", *presplit("cut.pt"), "--steps", 6, "--resume=one")
        self.assertIn("warning: --presplit: this run has it, the checkpoint was written without it\n", done.err)
        for what in (pipe, model):
            self.train(what, *presplit("cut.pt"), "--steps", 2, "--checkpoint", self.fresh("presplit"))
            again = lambda *options: self.pipec(0, "pipe-run", what, "--train", *options, "--steps", 3, "--resume=presplit").err
            self.assertIn("warning: --presplit: this run does not have it, the checkpoint was written with it\n", again("--inputs", "micro.pt", *run[4:]))
            self.assertNotIn("warning:", again(*presplit("cut.pt")))
            alone = ["--inputs", "cut.pt", "--presplit", *run[6:]]  # the file says how many micro-batches there are
            self.train(what, *alone, "--steps", 2, "--checkpoint", self.fresh("alone"))
            settings = json.loads(Path("alone/step-2/checkpoint.json").read_text())["settings"]
            self.assertEqual((settings["microbatches"], settings["presplit"]), ("2", "true"))
            for other in (pipe, model):  # each reads the checkpoint of the other one
                self.assertNotIn("warning:", self.pipec(0, "pipe-run", other, "--train", *alone, "--steps", 3, "--resume=alone").err)
        self.train(pipe, *presplit("cut.pt"), "--steps", 2, "--checkpoint", self.fresh("presplit"))
        done = self.pipec(0, "pipe-run", pipe, "--train", *presplit("other.pt"), "--steps", 3, "--resume=presplit")
        self.assertIn("warning: --presplit: this run has micro-batches of 3,2 samples, the checkpoint was written with 2,3\n", done.err)
        done = self.pipec(0, "pipe-run", pipe, "--train", "--inputs", "micro.pt", *run[4:], "--steps", 6, "--resume=one")
        self.assertNotIn("warning:", done.err)
        Path("a-file").write_text("")
        self.refused(IO, "--checkpoint: cannot read a-file: not a directory", "pipe-run", pipe, "--train", "--inputs", "micro.pt", "--checkpoint", "a-file")

        data = torch.load("data.pt")
        for what in self.saved(lambda: Other(7), *data, 2, "wide"):
            self.refused(USAGE, ["a.weight: expected float32[7, 6], as in the model, got float32[6, 6]", "help: pass the model"], "pipe-run", what, "--train", *run,
                         "--steps", 6, "--resume=c")
        for what in self.saved(lambda: Other(6), *data, 2, "narrow"):
            self.refused(USAGE, ["checkpoint: parameter ", ".weight: expected it in the model, got none"], "pipe-run", what, "--train", *run, "--steps", 6, "--resume=c")
        self.train("narrow.pipe", *run, "--steps", 1, "--checkpoint", self.fresh("narrow"))
        self.refused(USAGE, ["narrow/step-1: ", ".weight: expected it in the checkpoint, got none"], "pipe-run", pipe, "--train", *run, "--resume=narrow", "--steps", 6)
        # Only the first step shows that the unsplit model needs more than the checkpoint has.
        self.pipec(USAGE, "pipe-run", model, "--train", *run, "--resume=narrow", "--steps", 6, saying="parameter norm.weight has a gradient: expected it in the checkpoint")

    def testDirectoriesAreNotMixed(self):
        pipe, _ = self.everything(2)
        run = ["--inputs", "micro.pt", "--microbatches", 1, "--optimizer", "sgd", "--steps", 4]
        self.train(pipe, *run, "--checkpoint", self.fresh("c"), "--checkpoint-every", 2)
        before = e2e.files("c")
        command = ["pipe-run", pipe, "--train", *run]
        self.refused(USAGE, ["--checkpoint: c: expected no checkpoint there, got one of step 4", "pass --resume"], *command, "--checkpoint", "c")
        self.refused(USAGE, "--checkpoint: c: expected no checkpoint after step 2, got one of step 4", *command, "--checkpoint", "c", "--resume=c/step-2")
        self.train(pipe, *run, "--checkpoint", self.fresh("other"))
        self.refused(USAGE, "--checkpoint: other: expected no checkpoint of another training, got one of step 4", *command, "--checkpoint", "other", "--resume=c/step-2")
        self.refused(USAGE, "expected a directory of checkpoints, got an artifact", *command, "--checkpoint", pipe)
        self.refused(USAGE, "expected a directory of checkpoints, got one checkpoint", *command, "--checkpoint", "c/step-2")
        self.refused(IO, "nothing: expected a checkpoint, got none", *command, "--resume=nothing")
        self.refused(IO, "nothing: expected a checkpoint, got none", *command, "--checkpoint", "nothing", "--resume")
        shutil.rmtree("runs", ignore_errors=True)
        shutil.copytree("c", "runs/first")
        what = "or a checkpoint in it, a directory step-N with a checkpoint.json; near there: "
        for path, problem, near in (("runs", "expected a checkpoint, got none", "runs/first, "), ("c/step-3", "cannot read c/step-3", "c/step-2, c/step-4"),
                                    ("c/step-4/stage-0.pt", "expected a checkpoint, got a file", "c/step-4"), ("micro.pt", "expected a checkpoint, got a file", "")):
            self.refused(IO, [problem, what + near], *command, f"--resume={path}")
        for path, problem in (("c/step-2", "a checkpoint of a training (step 2)"), ("c/step-2/", "a checkpoint of a training (step 2)"), ("c", "the checkpoints of a training")):
            for wanted, other in (("a model or an artifact", ["pipe-run", path, "--inputs", "micro.pt"]), ("a model or an artifact", ["pipe-run", path, "--train", "--inputs", "micro.pt"]),
                                    ("an artifact or a TorchScript file", ["pipe-inspect", path]), ("an artifact", ["pipe-check", path]),
                                    ("a model or an artifact", ["pipe-check", pipe, "--against", path]), ("an artifact", ["pipe-merge", path, "-o", "never.pt"])):
                self.refused(DAMAGED, [f"{path}: expected {wanted}, got {problem}", f"--train --resume={path} to continue", f"pipe-merge --checkpoint {path} --into"], *other)
        self.refused(3, ["c/step-2: expected a TorchScript model, got a checkpoint of a training", "pipe-merge --checkpoint"], "pipe-compile", "c/step-2", "--stages", 2)
        self.refused(DAMAGED, "expected a checkpoint, got an artifact", *command, f"--resume={pipe}")
        for options, text in ((["--checkpoint-every", 2], "--checkpoint-every: expected --checkpoint with it"), (["--keep", 2], "--keep: expected --checkpoint with it"),
                              (["--resume"], "--resume: expected a directory or --checkpoint with it"), (["--checkpoint", "d", "--keep", 0], "--keep: expected at least 1, got 0"),
                              (["--checkpoint", ""], "--checkpoint: expected a value, got none")):
            self.refused(USAGE, text, *command, *options)
        self.refused(USAGE, "--resume: expected --train with it", "pipe-run", pipe, "--resume=c", "--inputs", "micro.pt")
        self.assertEqual(e2e.files("c"), before)

    def testAuto(self):
        """Starts at 0 where there is none, also as a launcher starts a job again; passes over what is damaged, and says so."""
        pipe, _ = self.everything(2)
        run = ["--data", "data.pt", "--batch", 10, "--microbatches", 1, "--optimizer", "adam", "--steps"]
        self.train(pipe, *run, 4, "--checkpoint", self.fresh("c"), "--checkpoint-every", 2, "--resume=auto", saying="c has no checkpoint yet: starting at step 0")
        with open("c/step-4/stage-1.pt", "r+b") as file:
            file.seek(300)
            byte = file.read(1)
            file.seek(300)
            file.write(bytes([byte[0] ^ 1]))
        self.refused(DAMAGED, ["--resume: c/step-4: stage-1.pt: changed", "--resume=auto takes the newest checkpoint that is not damaged"], "pipe-run", pipe, "--train",
                     *run, 6, "--checkpoint", "c", "--resume")
        for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"):
            shutil.copytree("c", self.fresh("d"))
            done = self.train(pipe, *run, 6, "--checkpoint", "d", "--checkpoint-every", 2, env={name: "1"},
                              saying=["warning: this checkpoint is damaged and not used: d/step-4: stage-1.pt: changed", "continuing after step 2 from d/step-2"])
            self.assertIn("step 3/6", done.out)
            self.assertEqual(sorted(os.listdir("d")), ["step-2", "step-4", "step-4.damaged", "step-6"])
            self.assertTrue(intact(Path("d/step-4")) and intact(Path("d/step-6")) and not intact(Path("d/step-4.damaged")))
        # Values that are no longer those of checkpoint.json, although MANIFEST agrees.
        shutil.copytree("d", self.fresh("v"))
        torch.save([1, 2], "v/step-6/stage-0.pt")
        self.listed(Path("v/step-6"))
        self.refused(DAMAGED, "v/step-6/stage-0.pt: not the values of a checkpoint", "pipe-run", pipe, "--train", *run, 8, "--checkpoint", "v", "--resume")
        self.train(pipe, *run, 8, "--checkpoint", "v", "--checkpoint-every", 2, "--resume=auto",
                   saying=["warning: this checkpoint is damaged and not used: v/step-6/stage-0.pt: not the values of a checkpoint", "continuing after step 4 from v/step-4"])
        self.assertEqual(sorted(os.listdir("v")), ["step-2", "step-4", "step-4.damaged", "step-6", "step-6.damaged", "step-8"])
        self.assertTrue(intact(Path("v/step-6")))
        self.statesThatDoNotFit(pipe, "m.pt", [*run, 8])
        os.remove("c/step-2/MANIFEST")
        self.refused(DAMAGED, "expected a checkpoint that is not damaged, got 2 damaged", "pipe-run", pipe, "--train", *run, 6, "--checkpoint", "c", "--resume=auto")

    def statesThatDoNotFit(self, pipe, model, run):
        """Values that agree with checkpoint.json and not with the model: damaged, too, for pipeline and reference."""
        good = torch.load("v/step-8/stage-0.pt")
        state = good["optimizer"]["a.weight"]
        cases = {"exp_avg of the optimizer: expected float32[6, 6], got float32[3, 3]": {**state, "exp_avg": torch.zeros(3, 3)},
                 "exp_avg of the optimizer: expected float32[6, 6], got float64[6, 6]": {**state, "exp_avg": state["exp_avg"].double()},
                 "step of the optimizer: expected an integer, got a Tensor": {**state, "step": torch.zeros(6, 6)}}
        for saying, changed in cases.items():
            for what in (pipe, model):
                shutil.copytree("v", self.fresh("w"))
                torch.save({**good, "optimizer": {**good["optimizer"], "a.weight": changed}}, "w/step-8/stage-0.pt")
                self.listed(Path("w/step-8"))
                self.refused(DAMAGED, ["w/step-8: checkpoint: a.weight: " + saying, "--resume=auto takes the newest"], "pipe-run", what, "--train", *run, "--checkpoint", "w",
                             "--resume")
                self.train(what, *run, "--checkpoint", "w", "--resume=auto",
                           saying=["warning: this checkpoint is damaged and not used: w/step-8: checkpoint: a.weight: " + saying, "continuing after step 6 from w/step-6"])
                self.assertEqual([name for name in sorted(os.listdir("w")) if "8" in name], ["step-8", "step-8.damaged"])

    def testDamage(self):
        """Each kind of damage is refused, before anything is used."""
        pipe, _ = self.everything(2)
        run = ["--inputs", "micro.pt", "--microbatches", 1, "--optimizer", "adam", "--steps"]
        self.train(pipe, *run, 1, "--checkpoint", self.fresh("good"))
        good = Path("good/step-1")

        def changed(name, edit, manifest=True):
            (bad / name).write_bytes(edit((bad / name).read_bytes()))
            if manifest:
                self.listed(bad)

        def text(old, new):
            return lambda: changed("checkpoint.json", lambda content: content.replace(old, new, 1))

        cases = {
            "truncated": (lambda: changed("stage-0.pt", lambda content: content[:-1], False), DAMAGED, "stage-0.pt: changed"),
            "missing": (lambda: os.remove(bad / "stage-1.pt"), DAMAGED, "stage-1.pt: missing"),
            "extra": (lambda: (bad / "more").write_text(""), DAMAGED, "more: MANIFEST does not list it"),
            "swapped": (lambda: (os.rename(bad / "stage-0.pt", bad / "x"), os.rename(bad / "stage-1.pt", bad / "stage-0.pt"), os.rename(bad / "x", bad / "stage-1.pt")),
                        DAMAGED, "it has the contents of"),
            "link": (lambda: (os.rename(bad / "stage-0.pt", "elsewhere.pt"), os.symlink(os.path.abspath("elsewhere.pt"), bad / "stage-0.pt")), DAMAGED, "symbolic link"),
            "unfinished": (lambda: os.remove(bad / "MANIFEST"), DAMAGED, "MANIFEST: missing: not a checkpoint, or an unfinished one"),
            "path": (text(b'"stage-0.pt"', b'"../x.pt"'), DAMAGED, "expected the name of a file without a path"),
            "not listed": (text(b'"stage-0.pt"', b'"stage-9.pt"'), DAMAGED, "stage-0.pt: checkpoint.json does not name it"),
            "version": (text(b'"major": 1', b'"major": 2'), VERSION, "format version: expected 1.x, got 2.0"),
            "feature": (text(b'"required_features": []', b'"required_features": ["magic"]'), VERSION, 'needs feature "magic"'),
            "key": (text(b'"seed"', b'"sead"'), DAMAGED, 'checkpoint.json: top level: missing key "seed"'),
            "step": (text(b'"step": 1', b'"step": 7'), DAMAGED, "step: expected 1, that of its folder, got 7"),
            "number": (text(b'"step": 1', b'"step": -1'), DAMAGED, "step"),
            "shape": (text(b'"shape": [6, 6]', b'"shape": [7, 6]'), DAMAGED, "expected float32[7, 6], got float32[6, 6]"),
            "state": (text(b'"optimizer": ["exp_avg", ', b'"optimizer": ["exp_avf", '), DAMAGED, "expected exp_avf of the optimizer, got none"),
            "twice": (text(b'"name": "a.weight"', b'"name": "a.bias"'), DAMAGED, "listed twice"),
            "not values": (lambda: changed("stage-0.pt", lambda content: b"x" * 100), DAMAGED, "stage-0.pt"),
            "other values": (lambda: (torch.save([1, 2], bad / "stage-0.pt"), changed("stage-0.pt", lambda content: content)), DAMAGED,
                             "not the values of a checkpoint: expected a dict"),
        }
        for name, (damage, code, saying) in cases.items():
            with self.subTest(name):
                bad = Path(self.fresh("bad")) / "step-1"
                shutil.copytree(good, bad)
                damage()
                self.refused(code, saying, "pipe-run", pipe, "--train", *run, 3, "--resume=bad")

    def testKilledAtEveryWrite(self):
        """kill -9 before each call that writes a checkpoint, and a disk that is full from there on: the newest checkpoint that is
        there is whole, and the run that follows ends with the bits of one that was never stopped."""
        pipe, _ = self.everything(2)
        artifact = e2e.files(pipe)
        run = ["--data", "data.pt", "--batch", 10, "--microbatches", 1, "--optimizer", "adam", "--steps"]
        self.train(pipe, *run, 1, "--checkpoint", self.fresh("first"))
        shutil.copytree("first", self.fresh("c"))
        preload = {**e2e.preloading(e2e.BIN / "pipe-run", "stop_at_write"), "STOP_COUNT": str(Path("count").resolve())}
        more = [*run, 3, "--checkpoint", "c", "--checkpoint-every", 1, "--keep", 1, "--resume=auto"]
        self.train(pipe, *more, env=preload)
        expected, calls = torch.load("state.pt"), int(Path("count").read_text())
        self.assertGreater(calls, 30)
        every = 1 if "--all" in e2e.NAMES else max(1, calls // 14)
        for at in range(1, calls + 1, every):
            for full in (False, True) if at % (2 * every) == 1 else (False,):
                shutil.rmtree("c")
                shutil.copytree("first", "c")
                code = e2e.run("pipe-run", pipe, "--train", *more, env={**preload, "STOP_AT": str(at), **({"STOP_ERROR": "28"} if full else {})}).code
                self.assertIn(code, (IO, 0) if full else (-signal.SIGKILL, 0), at)  # 0: what cannot be removed stays for the next start
                newest = max(steps("c"))
                self.assertTrue(intact(Path(f"c/step-{newest}")), (at, full, os.listdir("c")))
                if full:
                    self.assertEqual([name for name in os.listdir("c") if name.endswith(".pt")], [])
                self.assertEqual(e2e.files(pipe), artifact)
                self.train(pipe, *more, saying="continuing after step" if newest < 3 else "the training is complete")
                self.sameBits(expected, torch.load("state.pt"), (at, full))
                self.assertEqual(os.listdir("c"), ["step-3"], (at, full))

    def testFullDisk(self):
        """Exit code 8 with the free bytes; nothing of the unfinished checkpoint stays."""
        pipe, _ = self.everything(2)
        environment = {**e2e.preloading(e2e.BIN / "pipe-run", "stop_at_write"), "STOP_AT": "4", "STOP_ERROR": "28"}
        run = ["--inputs", "micro.pt", "--microbatches", 1, "--optimizer", "adam", "--steps", 1]
        done = self.pipec(IO, "pipe-run", pipe, "--train", *run, "--checkpoint", self.fresh("c"), env=environment, saying=["--checkpoint: ", "No space left on device",
                          "bytes are free there"])
        self.assertIn("error: ", done.err)
        self.assertEqual([name for name in os.listdir("c") if name.startswith("step-")], [])

    def interrupted(self, pipe, run, *numbers):
        process = subprocess.Popen([str(word) for word in (e2e.BIN / "pipe-run", pipe, "--train", *run)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)])
        first = process.stdout.readline()
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.05)
        out, err = process.communicate(timeout=300)
        return process.returncode, first + out, err

    def testSignals(self):
        """SIGTERM lets the step finish and writes its checkpoint, from which the run goes on; other signals of a launcher change nothing."""
        pipe, _ = self.everything(2)
        run = ["--data", "data.pt", "--batch", 10, "--shuffle", "--microbatches", 2, "--optimizer", "adam"]
        long = [*run, "--steps", 1000000, "--checkpoint", self.fresh("c")]
        for numbers in ((signal.SIGTERM,), (signal.SIGINT, signal.SIGTERM)):
            self.fresh("c")
            code, out, err = self.interrupted(pipe, long, *numbers)
            self.assertEqual(code, 128 + numbers[0], err)
            self.assertIn(f"note: signal {int(numbers[0])}: stopping after this step, with a checkpoint", err)
            self.assertIn(f"error: stopped by signal {int(numbers[0])}", err)
            (done,) = steps("c")
            self.assertTrue(intact(Path(f"c/step-{done}")))
            self.assertEqual(out.splitlines()[-1].split("/")[0], f"step {done}")
        self.train(pipe, *run, "--steps", done + 2, "--checkpoint", "c", "--resume")
        state = torch.load("state.pt")
        self.train(pipe, *run, "--steps", done + 2)
        self.sameBits(torch.load("state.pt"), state)
        # Without --checkpoint as before.
        code, _, err = self.interrupted(pipe, [*run, "--steps", 1000000], signal.SIGTERM)
        self.assertEqual((code, "stopping after" in err), (128 + signal.SIGTERM, False))

    def testMerged(self):
        """A merged model has in plain PyTorch the loss that the training has at that step, and the loss of the trained weights in eval mode."""
        model, batch = training_models.save("resnet")
        inputs = torch.load(batch)
        self.pipec(0, "pipe-compile", model, "--train", "--stages", 3, "--inputs", batch, "--schedule", "1f1b", "-o", "resnet.pipe", "--force")
        run = ["--inputs", batch, "--microbatches", 1, "--optimizer", "sgd,lr=0.1,momentum=0.9"]
        self.straight("resnet.pipe", *run)
        for origin, number in (("whole", 10), ("whole/step-4", 4)):
            self.train(model, *run, "--steps", number)
            trained = torch.jit.load(model)
            trained.load_state_dict(torch.load("state.pt"))
            lines = self.train(model, *run, "--steps", number + 1, f"--resume={'whole/step-' + str(number)}", "--json").out.splitlines()
            loss = json.loads(lines[0])["loss"]
            for options in (["--into", model], ["resnet.pipe", "--into", model], ["resnet.pipe"]):
                done = self.pipec(0, "pipe-merge", *options, "--checkpoint", origin, "-o", "merged.pt", "--force")
                merged = torch.jit.load("merged.pt")
                torch.set_num_threads(1)
                with torch.no_grad(), torch.jit.optimized_execution(False):
                    self.sameBits(dict(trained.state_dict()), {key: merged.state_dict()[key] for key in trained.state_dict()}, str(options))
                    self.assertEqual(merged.train()(*inputs).item(), loss, options)
                    if "--into" in options:
                        again = torch.jit.load("merged.pt").eval()
                        self.sameBits(trained.eval()(*inputs), again(*inputs), "eval")
            self.assertIn("with the values of the checkpoint", done.out)

    def testMergedInEvalMode(self):
        """A merged model has in plain PyTorch, in eval mode, the loss that the training printed for its evaluation after that step."""
        model, batch = training_models.save("resnet")
        x, target = torch.load(batch)
        held = (x.flip(0, 3) * 0.7, target.roll(1))
        torch.save(held, "eval.pt")
        self.pipec(0, "pipe-compile", model, "--train", "--evaluation", "--stages", 3, "--inputs", batch, "--schedule", "1f1b", "-o", "resnet.pipe", "--force")
        run = ["--inputs", batch, "--microbatches", 1, "--optimizer", "sgd,lr=0.1,momentum=0.9", "--steps", 4, "--checkpoint-every", 2, "--eval-data", "eval.pt",
               "--eval-every", 2]
        torch.set_num_threads(1)
        for what in (model, "resnet.pipe"):
            out = self.train(what, *run, "--checkpoint", self.fresh("c")).out
            printed = dict(re.findall(r"^evaluation after step (\d)  loss (\S+)  10 samples  ", out, re.MULTILINE))
            lines = [json.loads(line) for line in self.train(what, *run, "--checkpoint", self.fresh("c"), "--json").out.splitlines() if line.startswith('{"eval":')]
            losses = {line["eval"]["step"]: line["eval"]["loss"] for line in lines}
            self.assertEqual(printed, {str(step): f"{loss:.6g}" for step, loss in losses.items()})
            self.assertEqual(len({*losses.values()}), 2, losses)
            for origin, step in (("c/step-2", 2), ("c", 4)):
                for options in (["--into", model], ["resnet.pipe", "--into", model]):
                    self.pipec(0, "pipe-merge", *options, "--checkpoint", origin, "-o", "merged.pt", "--force")
                    merged = torch.jit.load("merged.pt").eval()
                    with torch.no_grad(), torch.jit.optimized_execution(False):
                        self.assertEqual(merged(*held).item(), losses[step], f"{what}, {origin}, {options}")
                        self.assertNotEqual(merged.train()(*held).item(), losses[step], "batch norms that eval mode does not change")

    def testMergedWithoutTheLoss(self):
        """Values of a joined loss have no place in the author's file: they are left out of it, as with --state, whether stages or the whole model were trained."""
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
        torch.jit.script(model).save("body.pt")
        torch.jit.script(Scaled()).save("scaled.pt")
        torch.save((torch.randn(6, 4), torch.randn(6, 4)), "batch.pt")
        loss, inputs = ["--loss", "scaled.pt"], ["--inputs", "batch.pt"]
        self.pipec(0, "pipe-compile", "body.pt", *loss, "--stages", 2, *inputs, "--cost", "analytic", "--schedule", "1f1b", "-o", "scaled.pipe", "--force")
        for what in (["body.pt", *loss], ["scaled.pipe"]):
            self.train(*what, *inputs, "--microbatches", 2, "--steps", 2, "--optimizer", "sgd,lr=0.1", "--checkpoint", self.fresh("scaled"))
            trained = torch.load("state.pt")
            for source in (["--checkpoint", "scaled"], ["--state", "state.pt"], ["scaled.pipe", "--checkpoint", "scaled"]):
                done = self.pipec(0, "pipe-merge", *source, "--into", "body.pt", "-o", "own.pt", "--force")
                self.assertIn("replaced 4 tensors of body.pt", done.out)
                self.assertIn("note: left out: 2 tensors of the loss, which body.pt does not have: ", done.err)
                for name in ("loss.scale", "loss.calls"):
                    self.assertIn(name, done.err)
                self.sameBits({name: trained[name] for name in model.state_dict()}, dict(torch.jit.load("own.pt").state_dict()), str(source))
            document = json.loads(self.pipec(0, "pipe-merge", "--checkpoint", "scaled", "--into", "body.pt", "-o", "own.pt", "--force", "--json").out)
            self.assertEqual(sorted(document["of_loss"]), ["loss.calls", "loss.scale"])
        self.refused(USAGE, "checkpoint: parameter 0.", "pipe-merge", "--checkpoint", "scaled", "--into", "scaled.pt",
                     "-o", "own.pt", "--force")

    def testMergedState(self):
        """State that is no tensor comes along; what the checkpoint lacks stays; another model is refused."""
        pipe, model = self.everything()
        run = ["--data", "data.pt", "--batch", 10, "--microbatches", 2, "--optimizer", "adam"]
        self.train(pipe, *run, "--steps", 3, "--checkpoint", self.fresh("c"))
        done = self.pipec(0, "pipe-merge", "--into", model, "--checkpoint", "c", "-o", "merged.pt", "--force")
        merged = torch.jit.load("merged.pt")
        self.assertEqual(merged.counts, [6])
        self.assertEqual(tuple(merged.last.shape), (2, 6))
        self.refused(USAGE, ["last: expected a value of the kind that the artifact has, NoneType, got Tensor", "--into MODEL.pt"], "pipe-merge", pipe, "--checkpoint",
                     "c", "-o", "x.pt")
        self.refused(USAGE, "--state: expected it without --checkpoint, got both", "pipe-merge", "--into", model, "--state", "state.pt", "--checkpoint", "c", "-o", "x.pt")
        self.refused(USAGE, ["missing argument MODEL.pipe", "both --into MODEL.pt, the model that was compiled"], "pipe-merge", "--checkpoint", "c", "-o", "x.pt")
        self.refused(USAGE, ["missing argument MODEL.pipe", "both --into MODEL.pt, the model that was compiled"], "pipe-merge", "--state", "s.pt", "-o", "x.pt")
        self.refused(USAGE, "-o: c/step-3/stage-0.pt is inside a checkpoint", "pipe-merge", "--into", model, "--checkpoint", "c", "-o", "c/step-3/stage-0.pt",
                     "--force")
        self.refused(USAGE, "--output: c/step-3/new.pt is inside a checkpoint", "pipe-run", pipe, "--train", *run, "--output", "c/step-3/new.pt")
        self.assertTrue(intact(Path("c/step-3")))
        other, batch = training_models.save("mlp")
        self.refused(USAGE, "checkpoint: parameter a.weight: expected it in the model, got none", "pipe-merge", "--into", other, "--checkpoint", "c", "-o", "x.pt")
        with open("c/step-3/stage-0.pt", "ab") as file:
            file.write(b"x")
        result = self.refused(DAMAGED, "c: expected a checkpoint that is not damaged, got 1 damaged", "pipe-merge", "--into", model, "--checkpoint", "c", "-o", "x.pt")
        self.train(pipe, *run, "--steps", 4, "--checkpoint", self.fresh("good"), "--checkpoint-every", 2)
        with open("good/step-4/stage-0.pt", "ab") as file:
            file.write(b"x")
        one = self.refused(DAMAGED, ["good/step-4: stage-0.pt: changed", "help: other checkpoints there: good/step-2"], "pipe-merge", "--into", model, "--checkpoint",
                           "good/step-4", "-o", "x.pt")
        for done in (result, one):
            self.assertNotRegex(done.err, "--resume|another --checkpoint", "options of pipe-run")
        self.assertFalse(os.path.exists("x.pt"))


if __name__ == "__main__":
    e2e.main()
