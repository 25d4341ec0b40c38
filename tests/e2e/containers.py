"""container_models.py: lists and dicts that branches and loops change leave as many places to cut as the table says, and give the unsplit model's bits."""
import re
from pathlib import Path

import torch
from torch import randn

import container_models as models
import e2e

REFUSED = 4
MORE_THAN_ANY = 999


def rows(batch):
    return (randn(batch, 6),)


# The class, what it is called with, and how many stages it can have at least.
MODELS = [(models.DenseFeatures, rows, 30),
          (models.DenseFeaturesOrNot, rows, 30),
          (models.HiddenStates, rows, 20),
          (models.MaybeHiddenStates, rows, 30),
          (models.HiddenStatesOrNone, rows, 20),
          (models.DictOrNone, rows, 15),
          (models.NamedByNumber, rows, 20),
          (models.NoneByEnum, rows, 15),
          (models.TuplesOfHiddenStates, rows, 30),
          (models.KeyValueCache, lambda batch: (randn(batch, 6), [(randn(batch, 6), randn(batch, 6)) for _ in range(8)]), 60),
          (models.CacheByName, rows, 20),
          (models.ListMethods, rows, 20),
          (models.ListMethodsInBranches, rows, 70),
          (models.SortedNumbers, lambda batch: (randn(batch, 6), [3, 0, 2]), 8),
          (models.Beams, rows, 20),
          (models.LoopOutputs, lambda batch: (randn(batch, 5, 6),), 20),
          (models.NestedLists, rows, 16),
          (models.ListOfDicts, rows, 30),
          (models.ListFromBranch, lambda batch: (randn(batch, 6), True), 20),
          (models.DictFromBranch, lambda batch: (randn(batch, 6), True), 20),
          (models.PyramidLevels, rows, 8),
          (models.SeenTwice, rows, 30),
          (models.ChosenList, rows, 4),
          (models.GivenList, lambda batch: ([randn(batch, 6), randn(batch, 6)],), 40),
          (models.GivenCache, lambda batch: (randn(batch, 6), [randn(batch, 6), randn(batch, 6)]), 40),
          (models.WhileGrowing, rows, 13),
          (models.EarlyExits, rows, 20),
          (models.CacheInBranches, rows, 60),
          (models.DictMethods, rows, 30),
          (models.ReportOnDemand, rows, 15),
          (models.LossesOnDemand, lambda batch: (randn(batch, 6), randn(batch, 6)), 15),
          (models.GivenDict, lambda batch: (randn(batch, 6), {"p": randn(batch, 6), "q": randn(batch, 6)}), 1),
          (models.LeftEarly, lambda batch: (randn(batch, 6), 3), 3),
          (models.Counters, lambda batch: (randn(batch, 6), ["a", "b", "a"]), 15),
          (models.LateTargets, rows, 10),
          (models.MaybeGivenList, rows, 15),
          (models.SharedObjects, rows, 20),
          (models.ChosenObject, rows, 4),
          (models.QueueOfObjects, rows, 20),
          (models.ObjectsByName, rows, 20)]


class Containers(e2e.Case):
    def test(self):
        for build, inputsFor, least in MODELS:
            if e2e.NAMES and build.__name__ not in e2e.NAMES:
                continue
            with self.subTest(model=build.__name__):
                self.one(build, inputsFor, least)

    def one(self, build, inputsFor, least):
        torch.manual_seed(7)
        model = Path(f"{build.__name__}.pt")
        torch.jit.script(build().eval()).save(str(model))
        torch.save(inputsFor(2), "example.pt")
        torch.save(inputsFor(5), "inputs.pt")
        refusal = self.pipec(REFUSED, "pipe-compile", model, "--inputs", "example.pt", "--stages", MORE_THAN_ANY, "-o", "none.pipe").err
        most = int(re.search(r"at most (\d+)", refusal)[1])
        self.assertGreaterEqual(most, least, refusal)
        stages = [count for count in (2, 4, 8) if count <= most]
        for count in stages:
            self.compiled(model, f"{count}.pipe", "--inputs", "example.pt", "--stages", count)
        self.compiled(model, "1.pipe", "--stages", 1, "--inputs", "example.pt")
        for parts in (1, 2):
            expected = self.ran(model, parts)
            if parts == 1:
                with torch.no_grad(), torch.jit.optimized_execution(False):
                    self.sameBits(torch.jit.load(model)(*torch.load("inputs.pt")), expected, "pipe-run of the unsplit model")
            for count in [1, *stages] if parts > 1 else stages[-1:]:
                self.sameBits(expected, self.ran(f"{count}.pipe", parts), f"{count} stages, {parts} micro-batches")

    def ran(self, model, parts):
        self.pipec(0, "pipe-run", model, "--inputs", "inputs.pt", "--microbatches", parts, "--threads", 1, "--output", "output.pt", "--force")
        return torch.load("output.pt")


if __name__ == "__main__":
    e2e.main()
