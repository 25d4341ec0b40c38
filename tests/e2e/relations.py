"""Samples that affect each other in a way that no test run of a few samples shows: one note or warning, and none where there is nothing to say."""
from pathlib import Path

import torch

import e2e
import relation_models


def x(samples=4):
    return (torch.randn(samples, 8),)


def tokens(samples=4, steps=6):
    return torch.randn(samples, steps, 8), torch.randint(0, 8, (samples, steps))


def masked(samples=4):
    return torch.randn(samples, 6, 8), torch.ones(samples, 6, dtype=torch.int64)


SIZES = {"LargeBatches": (x(), 65, "aten::gt .*the constant 64"), "AllButOne": (x(), 24, "aten::eq .*the constant 24"), "ManyTokens": (tokens()[:1], 17, "prim::max .*the constant 100"),
         "FirstForty": (x(), 41, "the constant 40"), "Sixteens": (x(), 16, "aten::floordiv .*the constant 16"), "Halved": (x(), 21, "aten::gt"),
         "SizeInTensor": (x(), 21, "aten::gt .*the constant 20"), "OneOfShapes": (x(), 48, "aten::eq .*sizes that follow the batch"),
         "SingleSamples": (x(), 2, "aten::squeeze"), "Places33": (x(), 33, "places of samples in the batch"),
         "PlacesBelow": (x(), 31, "aten::lt .*the constant 30"), "PlacesInGroups": (x(), 17, "aten::floor_divide .*the constant 16"), "LimitInBuffer": (x(), 101, "aten::slice")}
OPERATORS = {"Capacity": "aten::cumsum", "Ranks": "aten::argsort", "LimitedGroups": "aten::bincount", "Counts": "aten::sum", "AnyBranch": "aten::any", "ItemScale": "aten::max",
             "ClampedScale": "aten::amax", "Distance": "aten::dist", "Gram": "aten::matmul", "LoopSum": "aten::add", "FirstOfMany": "aten::nonzero", "ManyRows": "aten::index",
             "BentMean": "aten::relu", "Pairs": "aten::matmul", "PairsOfConditions": "aten::__and__", "WhileLarge": "aten::max", "BothConditions": "aten::any", "RareRows": "aten::sum", "RareCounts": "unique", "UntilAll": "aten::all",
             "CopiesBefore": "aten::copy_", "AddsNear": "aten::add_", "HalvesRest": "aten::copy_", "TakesBest": "a branch", "ReturnsEarly": "a loop", "Decays": "a branch",
             "ComparesNext": "aten::s", "ScalesAll": "a branch", "CountsKeys": "aten::_set_item",
             "PooledSamples": "aten::max_pool1d", "ColumnNorms": "aten::renorm",
             "NormedNeighbours": "aten::avg_pool", "PairsOfEinsum": "aten::einsum",
             "KeepsThree": "a branch", "SwapsPairs": "aten::copy_", "RemembersLast": "aten::_set_item", "AddsLarge": "aten::sum",
             "ListMaximum": "prim::max", "AppendedMaximum": "prim::max", "ListMember": "aten::__contains__", "NextOfList": "aten::slice", "FilledWithMaximum": "aten::max", "MaximumOfRepeated": "aten::max", "SeenBefore": "aten::isin",
             "RankBySearch": "aten::searchsorted", "RowBefore": "aten::index", "RowBeforeByPadding": "aten::pad", "EluMean": "aten::elu", "AbsoluteLossOfMean": "aten::l1_loss", "LargestMean": "aten::amax"}
AVERAGES = {"Tokens": (tokens(), "aten::cross_entropy_loss"), "IgnoresZero": ((torch.randn(4, 8), torch.full((4,), 3)), "aten::cross_entropy_loss"),
            "MaskedMean": (masked(), "aten::div"), "SelectedMean": (masked(), "aten::mean")}
SILENT = {"Norms": (torch.randn(4, 3, 8, 8),), "Steps": (torch.randn(5, 4, 8),), "Attention": (torch.randn(4, 6, 8), torch.ones(4, 6)), "Masks": x(), "Places": x(),
          "Sorted": (torch.randn(4, 8), torch.tensor([3, 1, 2, 5])), "Grouped": x(), "Chosen": x(), "Labels": (torch.randn(4, 8), torch.randint(0, 8, (4,))), "Refuses": x(),
          "PerSample": x(), "PaddedToLongest": (torch.randn(4, 6, 8), torch.tensor([6, 3, 5, 4])),
          "TableInDict": ({"x": torch.randn(4, 8), "table": torch.randn(9, 8), "ids": torch.tensor([8, 0, 3, 3])},),
          "OwnRows": (torch.randn(4, 6, 8), torch.tensor([6, 3, 5, 4])), "OwnRowsFromSecond": x(), "OwnColumns": x(), "OwnWindows": (torch.randn(4, 6, 8),),
          "Detections": x(),
          "LinearOfMeans": (torch.randn(4, 8), torch.randint(0, 8, (4,))), "OwnPlaces": (torch.randn(4, 6, 8), torch.tensor([5, 0, 3, 2])),
          "OwnEnds": (torch.randn(4, 6, 8), torch.tensor([6, 3, 5, 4])), "OwnLists": (torch.randn(4, 6, 8), torch.tensor([6, 3, 5, 4]), 7)}
NOTE = "look at several samples|mean over the elements that count|differs from that of micro-batches|were not compared"


class Relations(e2e.Case):
    def compile(self, name, inputs, *more):
        torch.manual_seed(11)
        torch.jit.script(getattr(relation_models, name)().eval()).save(f"{name}.pt")
        torch.save(inputs, "example.pt")
        return self.pipec(0, "pipe-compile", f"{name}.pt", "-o", f"{name}.pipe", "--stages", 2, "--inputs", "example.pt", "--force", *more)

    def said(self, result):
        return [line for line in result.err.splitlines() if line.startswith(("note: ", "warning: "))]

    def testSizesAreTried(self):
        """The difference is measured: the batch on one side of the constant, its halves on the other."""
        for name, (inputs, samples, operator) in SIZES.items():
            with self.subTest(name):
                result = self.compile(name, inputs)
                self.assertRegex(result.err, f"warning: the result of a batch of {samples} differs from that of micro-batches of .*{operator}")
                batch = tuple(torch.randn(samples, *one.shape[1:]) for one in inputs)
                whole = torch.jit.load(f"{name}.pt")(*batch)
                parts = torch.cat([torch.jit.load(f"{name}.pt")(*part) for part in zip(*(one.tensor_split(2) for one in batch))])
                self.assertFalse(whole.shape == parts.shape and torch.allclose(whole, parts, rtol=1e-4, atol=1e-5), "the warning is true")

    def testPlacesInColumns(self):
        for way, operator in enumerate(("aten::lt", "aten::lt", "aten::clamp", "aten::lt", "aten::gt", "aten::to")):
            with self.subTest(way=way):
                result = self.compile("PlacesInColumns", (*x(), way))
                self.assertRegex(result.err, f"warning: the result of a batch of 31 differs from that of micro-batches of .*{operator}")

    def testAListThatEnds(self):
        self.assertRegex(self.compile("ShortList", x()).err, "warning: .*of a batch of 33 differs from that of micro-batches of 17 and 16 .*smaller batches do not show the cause")

    def testASingleSampleThatLosesItsDimension(self):
        """Its features are no samples."""
        self.compile("SingleSamples", x())
        for model in ("SingleSamples.pipe", "SingleSamples.pt"):
            self.assertRegex(self.pipec(1, "pipe-run", model, "--inputs", "example.pt", "--microbatches", 4).err,
                             r"micro-batch 0 of 1 sample gives a tensor of \[8\], expected 2 dimensions as in the example\nhelp: .*run fewer micro-batches")
        self.pipec(0, "pipe-run", "SingleSamples.pipe", "--inputs", "example.pt", "--microbatches", 2)

    def testALargeConstantIsNamed(self):
        class Huge(relation_models.Layers):
            def forward(self, x: torch.Tensor):
                return self.features(x) * 2 if x.size(0) > 100000 else self.features(x)
        relation_models.Huge = Huge
        self.assertRegex(self.compile("Huge", x()).err, "note: aten::gt .* depends on the constant 100000 and a size that follows the batch; .*not compared")

    def testEverySmallConstantIsNamed(self):
        for limit in range(1, 13):
            class Limit(relation_models.Layers):
                def __init__(self, most: int):
                    super().__init__()
                    self.most = most

                def forward(self, x: torch.Tensor):
                    return self.features(x) * 2 if x.size(0) > self.most else self.features(x)
            torch.jit.script(Limit(limit)).save("limit.pt")
            torch.save(x(), "example.pt")
            done = self.pipec(0, "pipe-compile", "limit.pt", "--stages", 2, "--inputs", "example.pt", "--cost", "analytic", "-o", "limit.pipe", "--force")
            self.assertIn("warning:", done.err, f"{limit}: {done.err}")

    def testOperatorsAreNamed(self):
        for name, operator in OPERATORS.items():
            with self.subTest(name):
                result = self.compile(name, x())
                notes = [line for line in self.said(result) if "look at several samples" in line]
                self.assertEqual(len(notes), 1, result.err)
                self.assertIn(operator, notes[0])
                self.assertRegex(notes[0], r" at (relation_models|functional)\.py:")
                self.assertIn("pipe-run MODEL.pt", notes[0])

    def testALimitThatIsGiven(self):
        """Its number is that of the example."""
        said = "\n".join(self.said(self.compile("LimitGiven", (*x(), 20))))
        self.assertRegex(said, "warning: the result of a batch of 21 differs from that of micro-batches of .*|note: .*aten::nonzero")

    def testAveragesOfSelectedElements(self):
        for name, (inputs, operator) in AVERAGES.items():
            with self.subTest(name):
                notes = [line for line in self.said(self.compile(name, inputs)) if "mean over the elements that count" in line]
                self.assertEqual(len(notes), 1, name)
                self.assertIn(operator, notes[0])

    def testOthersAreLeftAlone(self):
        for name, inputs in SILENT.items():
            with self.subTest(name):
                self.assertNotRegex(self.compile(name, inputs).err, NOTE)

    def testDrawsThatFollowValues(self):
        """A change of one sample changes how many numbers rrelu draws, and so the draws of the others: no dependence."""
        torch.manual_seed(11)
        torch.jit.script(relation_models.Noisy().train()).save("noisy.pt")
        torch.save((torch.randn(4, 8),), "example.pt")
        said = "draws depends on the values of its input"
        drawn = self.pipec(0, "pipe-compile", "noisy.pt", "-o", "noisy.pipe", "--stages", 2, "--inputs", "example.pt")
        self.assertRegex(drawn.err, "note: the number of random numbers that aten::rrelu at .* " + said)
        self.assertNotIn("micro-batch affect each other", drawn.err)
        self.assertNotIn("micro-batch affect each other", self.pipec(0, "pipe-run", "noisy.pt", "--inputs", "example.pt", "--microbatches", 2).err)
        calm = self.pipec(0, "pipe-compile", "noisy.pt", "-o", "calm.pipe", "--stages", 2, "--inputs", "example.pt", "--infer")
        self.assertNotIn(said, calm.err)

    def testModelsOfTheSuiteAreLeftAlone(self):
        for path in sorted(Path(e2e.MODELS).glob("*.inputs.pt")):
            model = path.with_name(path.name.replace(".inputs", ""))
            with self.subTest(model.stem):
                one = () if "markers" in model.stem else ("--stages", 1)
                result = self.pipec(0, "pipe-compile", model, "-o", "any.pipe", *one, "--inputs", path, "--force")
                self.assertNotRegex(result.err, NOTE)


if __name__ == "__main__":
    e2e.main()
