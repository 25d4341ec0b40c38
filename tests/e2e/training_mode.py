"""Which modules of a model saved in training mode are named: by pipe-compile, pipe-run and pipe-inspect alike."""
from pathlib import Path

import torch
from torch import nn

import e2e
import training_mode_models as models

DIFFER = {  # what the note says in training mode: the module, what runs in it
    "stochastic-depth": (lambda: models.StochasticDepth(0.2), "inner", "bernoulli_"),
    "drop-path": (models.ListOfParts, "inner.parts.2", "rand"),
    "noise": (models.Noise, "inner", "randn_like"),
    "gate": (models.Gate, "inner", "code that reads the flag training"),
    "scaled-noise": (models.ScaledNoise, "inner", "code that reads the flag training"),
    "functional": (models.FunctionalDropout, "inner", "dropout"),
    "selects": (models.Selects, "inner", "code that reads the flag training"),
    "counts": (models.Counts, "inner", "code that reads the flag training"),
    "own-norm": (models.OwnNorm, "inner", "code that reads the flag training"),
    "hands-over": (models.HandsOver, "inner.part", "code that reads the flag training"),
    "attention": (lambda: models.Attention(0.5, False), "inner.attention", "scaled_dot_product_attention"),
    "attention-weights": (lambda: models.Attention(0.5, True), "inner.attention", "dropout"),
    "batch-norm": (lambda: nn.BatchNorm1d(8), "inner", "batch_norm"),
}
SAME = {  # computes the same in both modes
    "no-rate": models.NoRate,
    "fills-with-nan": models.FillsWithNan,
    "no-depth": lambda: models.StochasticDepth(0.0),
    "attention": lambda: models.Attention(0.0, False),
    "attention-weights": lambda: models.Attention(0.0, True),
    "no-statistics": lambda: nn.BatchNorm1d(8, track_running_stats=False),
    "unused": models.Unused,
    "checks": models.Checks,
    "samples": models.Samples,
}


class TrainingMode(e2e.Case):
    def saved(self, model, training):
        torch.manual_seed(3)
        torch.jit.script(model.train(training)).save("model.pt")
        return Path("model.pt")

    def notes(self, path, *more):
        """What each command says of training mode, without the part on --infer."""
        torch.save((torch.rand(4, 8),), "inputs.pt")
        printed = [self.pipec(0, "pipe-compile", path, "--dry-run", "--stages", 1, "--cost", "analytic", "--inputs", "inputs.pt", *more).err,
                   self.pipec(0, "pipe-run", path, "--inputs", "inputs.pt", *more).err]
        if not more:
            printed.append(self.pipec(0, "pipe-inspect", path).err)
        return [[line.rsplit("; ", 1)[0] for line in text.splitlines() if "training mode" in line] for text in printed]

    def testWhatDiffersIsNamed(self):
        for name, (build, module, what) in DIFFER.items():
            with self.subTest(name):
                path = self.saved(models.Around(build()), True)
                for note in self.notes(path):
                    self.assertEqual(len(note), 1, note)
                    self.assertTrue(note[0].startswith(f"note: {module} is in training mode ({what}): "), note)
                self.assertEqual(self.notes(path, "--infer"), [[], []])
                self.assertEqual(self.notes(self.saved(models.Around(build()), False)), [[], [], []])

    def testWhatIsTheSameIsNot(self):
        for name, build in SAME.items():
            for training in (True, False):
                with self.subTest(name, training=training):
                    self.assertEqual(self.notes(self.saved(models.Around(build()), training)), [[], [], []])

    def testOneMoreResult(self):
        for training in (True, False):
            for note in self.notes(self.saved(models.Extra(), training)):
                self.assertEqual(["the model itself is in training mode (code that reads" in line for line in note], [True] * training, note)

    def testTraces(self):
        """A trace has its mode in its operators. Of others that draw, the flag tells in which mode the trace was made."""
        for build, said in ((lambda: models.Noise(), "note: inner is saved in training mode and draws random numbers (randn_like), "),
                            (lambda: models.Attention(0.5, False), "note: inner.attention is in training mode (scaled_dot_product_attention): "),
                            (models.Gate, None)):  # nothing in the trace tells
            for training in (True, False):
                torch.jit.trace(models.Around(build()).train(training), torch.rand(4, 8), check_trace=False).save("trace.pt")
                for note in self.notes(Path("trace.pt")):
                    self.assertEqual([line.startswith(said) for line in note], [True] * bool(said and training), note)

    def testConstantsBesideFlags(self):
        """--infer changes one of them."""
        traced = torch.jit.trace(nn.Dropout(0.5), torch.rand(4, 8), check_trace=False)
        path = self.saved(nn.Sequential(nn.Dropout(0.5), traced), True)
        self.assertIn("--infer runs them in eval mode, but not 1: the code there has the mode as a constant",
                      self.pipec(0, "pipe-run", path, "--inputs", "f32[4,8]").err)
        note = self.pipec(0, "pipe-run", path, "--inputs", "f32[4,8]", "--infer").err
        self.assertIn("note: 1 is in training mode (dropout): ", note)
        self.assertIn("save the model after model.eval()", note)


if __name__ == "__main__":
    e2e.main()
