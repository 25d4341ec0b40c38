"""once_broken_models.py: each compiles with and without example inputs, and gives the bits of the unsplit model per micro-batch."""
from pathlib import Path

import torch
from torch import randn

import e2e
import once_broken_models as models

SCRIPTED = [(models.MultipliesInALoop, lambda batch: (randn(batch, 4), randn(batch, 3, 4)), "b#2"),
            (models.TreeOfResults, lambda batch: (randn(batch, 4),), "layers.1,layers.3"),
            (models.MaybeAResult, lambda batch: (randn(batch, 6),), "cell,b"),
            (models.EncoderWithoutMask, lambda batch: (randn(batch, 5, 8),), "encoder.layers.1,encoder.layers.3"),
            (models.HasAnObjectThatTrains, lambda batch: (randn(batch, 4),), "b"),
            (models.WritesInTraining, lambda batch: (randn(batch, 4),), "b"),
            (models.WritesWhatDropoutReturned, lambda batch: (randn(batch, 4),), "b"),
            (models.OneResultPerSample, lambda batch: (randn(batch, 4),), "b"),
            (models.HandsOnObjects, lambda batch: (randn(batch, 4),), "b,c"),
            (models.NamesItsParts, lambda batch: (randn(batch, 4),), "b"),
            (models.GrowsListsInContainers, lambda batch: (randn(batch, 4),), "b"),
            (models.WritesTensorsInContainers, lambda batch: (randn(batch, 4),), "b"),
            (models.KeepsTensorsInLists, lambda batch: (randn(batch, 4),), "second,a"),
            (models.GrowsListsBetweenModules, lambda batch: (randn(batch, 4),), "b,d"),
            (models.clampsInPlace, lambda batch: (randn(batch, 2, 3, 3) * 30,), "clamp,b")]
TRACED = [(models.WritesAConstant, lambda batch: (randn(batch, 4),), "b,c"),
          (models.HasAModuleOfConstants, lambda batch: (randn(batch, 4),), "b")]
STAGES = 3


class Found(e2e.Case):
    def testEqualBits(self):
        for traced, rows in ((False, SCRIPTED), (True, TRACED)):
            for build, inputsFor, at in rows:
                with self.subTest(model=build.__name__):
                    torch.manual_seed(7)
                    module = build().eval()
                    saved = torch.jit.trace(module, inputsFor(2), check_trace=False) if traced else torch.jit.script(module)
                    self.one(saved, Path(f"{build.__name__}.pt"), inputsFor, at)

    def testAutocastIsNotIgnoredInSilence(self):
        torch.jit.script(models.NamesItsParts().eval()).save("autocast.pt")
        self.pipec(0, "pipe-compile", "autocast.pt", "--at", "b", "--dry-run", saying="torch.autocast in the model has no effect")

    def testObjectsBehindAnyAreRefused(self):
        torch.jit.script(models.AsksObjectsForTheirClass().eval()).save("any.pt")
        self.pipec(4, "pipe-compile", "any.pt", "--at", "b", "--dry-run", saying="of class __torch__.once_broken_models.Seen that cannot be replaced by")

    def testEachResultIsAsItWasMade(self):
        """A buffer is returned and then written by the next micro-batch."""
        torch.manual_seed(7)
        module = models.ReturnsItsState().eval()
        torch.jit.script(module).save("state.pt")
        torch.save((randn(4, 4),), "halves.pt")
        self.compiled("state.pt", "state.pipe", "--stages", 2, "--inputs", "halves.pt")
        first = [module(half)[1].clone() for half in torch.load("halves.pt")[0].chunk(2)]
        for what in ("state.pt", "state.pipe"):
            self.pipec(0, "pipe-run", what, "--inputs", "halves.pt", "--microbatches", 2, "--threads", 1, "--output", "actual.pt", "--force")
            _, sums, _, names = torch.load("actual.pt")
            self.sameBits([value.detach() for value in first], sums, what)
            self.assertEqual(names, [["call"], ["call", "call"]], what)

    def testListsWithAnEntryPerSampleAreNotCut(self):
        """Three colours are no batch of three."""
        torch.jit.script(models.TakesPictures().eval()).save("pictures.pt")
        for batch in (2, 3):
            torch.save(([torch.rand(3, 4 + i, 5) for i in range(batch)],), f"pictures{batch}.pt")
        why = "pictures is a list with an entry per sample"
        self.pipec(0, "pipe-compile", "pictures.pt", "-o", "pictures.pipe", "--stages", 2, "--inputs", "pictures2.pt", saying=why)
        self.pipec(2, "pipe-run", "pictures.pt", "--inputs", "pictures3.pt", "--microbatches", 2, saying="micro-batches: expected 1, got 2: " + why)
        for batch in (2, 3):
            for what, output in (("pictures.pt", "expected.pt"), ("pictures.pipe", "actual.pt")):
                self.pipec(0, "pipe-run", what, "--inputs", f"pictures{batch}.pt", "--threads", 1, "--output", output, "--force")
            self.sameBits(torch.load("expected.pt"), torch.load("actual.pt"), f"{batch} pictures")

    def testListsOfFeaturesAreCutAlongAFixedBatch(self):
        """However many features the model takes, they are not its samples."""
        module = torch.jit.script(models.TakesFeatures().eval())
        module.save("features.pt")
        torch.save(([randn(4, 4), randn(4, 4)],), "features4.pt")
        batch = [randn(8, 4), randn(8, 4)]
        torch.save((batch,), "features8.pt")
        self.pipec(0, "pipe-compile", "features.pt", "-o", "features.pipe", "--stages", 2, "--inputs", "features4.pt", saying="only micro-batches of 4")
        expected = torch.cat([module([x[i : i + 4] for x in batch]) for i in (0, 4)])
        for what in ("features.pt", "features.pipe"):
            self.pipec(0, "pipe-run", what, "--inputs", "features8.pt", "--microbatches", 2, "--threads", 1, "--output", "actual.pt", "--force")
            self.sameBits(expected, torch.load("actual.pt"), what)
        self.pipec(2, "pipe-run", "features.pt", "--inputs", "features8.pt", "--microbatches", 4,
                   saying="expected a batch of 4 samples (the model's constants fix it), got 2")

    def testWholeArgumentsAreWrittenByEachMicroBatchAlone(self):
        """As if each were the only one: none sees what another wrote, and the caller's tensor stays."""
        whole = "cache=none"
        for build, cache in ((models.WritesAnOptionalArgument, randn(2, 4)), (models.WritesAnArgumentsElement, (randn(2, 4), randn(2, 4)))):
            with self.subTest(model=build.__name__):
                model = Path(f"{build.__name__}.pt")
                torch.jit.script(build().eval()).save(str(model))
                torch.save((randn(4, 4), cache), "whole.pt")
                self.compiled(model, "whole.pipe", "--at", "b", "--nearest", "--batch-dim", whole)
                self.pipec(0, "pipe-run", model, "--inputs", "whole.pt", "--microbatches", 2, "--threads", 1, "--batch-dim", whole,
                           "--output", "expected.pt", "--force")
                self.pipec(0, "pipe-run", "whole.pipe", "--inputs", "whole.pt", "--microbatches", 2, "--threads", 1, "--expect", "expected.pt",
                           "--rtol", 0, "--atol", 0)

    def one(self, saved, model, inputsFor, at):
        saved.save(str(model))
        torch.save(inputsFor(2), "example.pt")
        torch.save(inputsFor(5), "inputs.pt")
        self.compiled(model, "typed.pipe", "--stages", STAGES, "--inputs", "example.pt")
        self.compiled(model, "untyped.pipe", "--at", at, "--nearest")
        self.pipec(0, "pipe-merge", "typed.pipe", "-o", "merged.pt", "--force")
        for parts in (1, 2):
            self.pipec(0, "pipe-run", model, "--inputs", "inputs.pt", "--microbatches", parts, "--threads", 1, "--output", "expected.pt", "--force")
            expected = torch.load("expected.pt")
            if parts == 1:
                with torch.no_grad(), torch.jit.optimized_execution(False):
                    self.sameBits(torch.jit.load(model)(*torch.load("inputs.pt")), expected, "pipe-run of the unsplit model")
            for artifact in ("typed.pipe", "untyped.pipe", "merged.pt"):
                self.pipec(0, "pipe-run", artifact, "--inputs", "inputs.pt", "--microbatches", parts, "--threads", 1, "--output", "actual.pt", "--force")
                self.sameBits(expected, torch.load("actual.pt"), f"{artifact}, {parts} micro-batches")


if __name__ == "__main__":
    e2e.main()
