"""How a batch is cut and its results become one: no result differs from the whole batch's without a word."""
from pathlib import Path

import torch

import batch_models
import e2e


def close(got, expected):
    """Up to rounding, in trees that may hold strings."""
    if isinstance(expected, (list, tuple)):
        assert type(got) is type(expected) and len(got) == len(expected), f"{type(got)} of {len(got)}, expected {len(expected)}"
        for one, other in zip(got, expected):
            close(one, other)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            close(got[key], expected[key])
    elif isinstance(expected, float):
        assert abs(got - expected) <= 1e-5 * (1 + abs(expected)), f"{got}, expected {expected}"
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    else:
        assert got == expected, f"{got}, expected {expected}"


class Batches(e2e.Case):
    def save(self, name, training=False):
        torch.manual_seed(11)
        model = getattr(batch_models, name)()
        path = Path(f"{name}.pt")
        torch.jit.script(model if training else model.eval()).save(str(path))
        return path

    def whole(self, model, inputs):
        with torch.no_grad(), torch.jit.optimized_execution(False):
            return torch.jit.load(model)(*inputs)

    def compile(self, model, inputs, *more):
        torch.manual_seed(5)
        torch.save(inputs, "example.pt")
        artifact = f"{model.stem}.pipe"
        result = self.pipec(0, "pipe-compile", model, "-o", artifact, "--stages", 2, "--inputs", "example.pt", "--force", "--json", *more)
        return artifact, result

    def runBoth(self, model, artifact, inputs, parts, *more):
        """The result of the artifact, whose bits are those of the unsplit model's micro-batches."""
        torch.save(inputs, "batch.pt")
        how = ["--inputs", "batch.pt", "--microbatches", parts, "--threads", 1]
        self.pipec(0, "pipe-run", model, *how, "--output", "reference.pt", "--force", *more)
        self.pipec(0, "pipe-run", artifact, *how, "--expect", "reference.pt", "--rtol", 0, "--atol", 0, saying="PASSED")
        return torch.load("reference.pt", weights_only=False)

    def results(self, result):
        import json
        return {row["path"]: row for row in json.loads(result.out)["results"]}

    def sameAsWhole(self, name, make, parts=((4, 2), (5, 2), (6, 4)), merges=None):
        model = self.save(name)
        artifact, result = self.compile(model, make(4))
        self.assertNotIn("affect each other", result.err)
        rows = self.results(result)
        self.assertEqual({row["equals_whole_batch"] for row in rows.values()}, {"yes"})
        for path, merge in (merges or {}).items():
            self.assertEqual(rows[path]["merge"], merge, path)
        for samples, count in parts:
            torch.manual_seed(samples)
            batch = make(samples)
            got, expected = self.runBoth(model, artifact, batch, count), self.whole(model, batch)
            close(got, expected)
        return result

    def testListsPerSample(self):
        x = lambda samples: (torch.randn(samples, 8),)
        self.sameAsWhole("Detector", x, merges={"0": "join", "1": "join"})
        self.sameAsWhole("Ragged", x, merges={"result": "join"})
        self.sameAsWhole("ListsInADict", x, merges={"boxes": "join", "scores": "join"})
        self.assertEqual(e2e.plan("Detector.pipe")["required_features"], ["merge-rules"])

    def testATableAsLongAsTheBatch(self):
        """Samples are what leaves the others alone; protos stay whole however many samples there are."""
        for name, order in (("Prototypes", 1), ("PrototypesFirst", -1)):
            make = lambda samples: (torch.randn(samples, 8), torch.randn(4, 8))[::order]
            result = self.sameAsWhole(name, make, parts=((8, 2), (4, 2), (5, 3)))
            self.assertIn("this one fits the test runs best; --batch-dim protos=none", result.err)
            self.assertNotIn("are not samples", result.err)
            dims = {row["name"]: row.get("batch_dim") for row in self.json(result)["inputs"]}
            self.assertEqual(dims, {"x": 0, "protos": None})
        report = self.pipec(0, "pipe-compile", "Prototypes.pt", "--stages", 2, "--inputs", "f32[4,8],f32[4,8]", "--dry-run").out
        self.assertRegex(report, r"protos +Tensor +float32\[[?4],8\] +whole")
        self.assertRegex(report, r"x +Tensor +float32\[B,8\] +cut along dimension 0")

    def testPartsOfAnArgument(self):
        """A dict of samples and a table, whose rows may be as many as the samples, in either order."""
        for rows in (10, 4):
            for order in (1, -1):
                make = lambda samples: (dict([("x", torch.randn(samples, 8)), ("table", torch.randn(rows, 8))][::order]),)
                result = self.sameAsWhole("OneDict", make, parts=((8, 2), (5, 3)))
                self.assertEqual(self.json(result)["inputs"][0]["parts"], {"x": 0, "table": None})
                plan = e2e.plan("OneDict.pipe")
                self.assertEqual(plan["required_features"], ["parts-of-arguments"])
                self.assertEqual(plan["format_version"], {"major": 1, "minor": 4})
        self.assertIn("--batch-dim batch.table=none", result.err)
        self.pipec(0, "pipe-check", "OneDict.pipe", "--against", "OneDict.pt")
        self.assertRegex(self.pipec(0, "pipe-inspect", "OneDict.pipe").out, "table whole, x cut along dimension 0")
        # A part that the example did not have may be samples: no micro-batch gets it whole in silence.
        torch.save(({"x": torch.randn(8, 8), "table": torch.randn(4, 8), "mask": torch.randn(8, 2)},), "more.pt")
        self.refused(2, "argument batch: expected the parts of the example inputs", "pipe-run", "OneDict.pipe", "--inputs", "more.pt", "--microbatches", 2)

    def testNamedParts(self):
        model, table = self.save("OneDict"), torch.randn(4, 8)
        dims = ["--batch-dim", "batch.table=none"]
        self.compile(model, ({"x": torch.randn(4, 8), "table": table},), *dims)
        batch = ({"x": torch.randn(6, 8), "table": table},)
        close(self.runBoth(model, "OneDict.pipe", batch, 3, *dims), self.whole(model, batch))
        self.refused(2, "expected a part of batch (x, table), got batch.tabel", "pipe-compile", model, "--stages", 2, "--inputs", "example.pt",
                     "--batch-dim", "batch.tabel=none", "-o", "no.pipe")
        for twice in ("x=0,x=none", "x=none,x=1"):
            self.refused(2, "--batch-dim: expected one dimension for x, got ", "pipe-compile", self.save("Prototypes"), "--batch-dim", twice, "--at", "b", "-o", "no.pipe")
        self.refused(2, "got a path into x, which has type Tensor", "pipe-compile", self.save("Prototypes"), "--stages", 2, "--batch-dim", "x.0=0",
                     "-o", "no.pipe")
        # Without an example the names are looked up when values come.
        self.pipec(0, "pipe-compile", model, "--at", "b", *dims, "-o", "unseen.pipe")
        close(self.runBoth(model, "unseen.pipe", batch, 3, *dims), self.whole(model, batch))
        self.pipec(0, "pipe-compile", model, "--at", "b", "--batch-dim", "batch.tabel=none", "-o", "typo.pipe")
        self.refused(2, "expected a part of batch (x, table), got batch.tabel", "pipe-run", "typo.pipe", "--inputs", "batch.pt", "--microbatches", 2)

    def testTablesAmongThePartsAreFound(self):
        """Micro-batches give the rows of the whole batch though every tensor of the argument has as many rows as the batch."""
        rows = lambda: torch.randn(4, 8)
        for name, example, parts in (("BankAndBias", ((rows(), rows(), torch.randn(4)),), {"0": 0, "1": None, "2": None}),
                                     ("ManyParts", ({key: rows() for key in ("x", "m1", "m2", "m3", "bank")},), {"x": 0, "m1": 0, "m2": 0, "m3": 0, "bank": None}),
                                     ("ListWithTable", ([rows(), rows()],), {"0": 0, "1": None})):
            model = self.save(name)
            _, result = self.compile(model, example)
            self.assertEqual(self.json(result)["inputs"][0]["parts"], parts, name)
            close(self.runBoth(model, f"{name}.pipe", example, 2), self.whole(model, example))

    def testTablesBeforeTheBatch(self):
        """The first input is a table that has as many rows as the example has samples. pipec cuts the second input."""
        ids, rows = lambda n: torch.randint(0, 4, (n, 3)), lambda n: torch.randn(n, 8)
        for name, make in (("TableThenIds", ids), ("FeaturesOfIds", ids), ("TableThenRows", rows)):
            model = self.save(name)
            _, result = self.compile(model, (rows(4), make(4)))
            self.assertEqual([one.get("batch_dim") for one in self.json(result)["inputs"]], [None, 0], name)
            self.assertRegex(result.err, "gets the whole of table and a part of dimension 0 of (ids|x), although table has 4 rows like the batch: .*--batch-dim table=none confirms it")
            for samples in (5, 4):
                batch = (rows(4), make(samples))
                close(self.runBoth(model, f"{name}.pipe", batch, 2, *(() if samples == 4 else ("--batch-dim", "table=none"))), self.whole(model, batch))

    def testListsWithAnEntryPerSample(self):
        """Entries are no batch, neither their features nor their channels; the report says what a list is."""
        vectors, pictures = lambda n: ([torch.randn(8) for _ in range(n)],), lambda n: ([torch.randn(3, 6, 5) for _ in range(n)],)
        unequal = lambda n: ([torch.randn(3 + i % 3, 8) for i in range(n)],)
        for name, make in (("Vectors", vectors), ("LargestOfEach", vectors), ("MeanOfEach", unequal), ("MeanOfEach", lambda n: ([torch.randn(6, 8) for _ in range(n)],))):
            model = self.save(name)
            _, result = self.compile(model, make(4))
            self.assertRegex(result.err, "xs is a list with an entry per sample, and lists are not cut by entries", name)
            self.assertNotIn("--batch-dim", result.err, name)  # the entries have no dimension of samples
            for samples in (4, 7):
                batch = make(samples)
                close(self.runBoth(model, f"{name}.pipe", batch, 1), self.whole(model, batch))
            self.refused(2, "micro-batches: expected 1, got 2", "pipe-run", model, "--inputs", "example.pt", "--microbatches", 2)
        model = self.save("HalvesPictures")
        _, result = self.compile(model, pictures(4))
        self.assertRegex(result.err, "note: dimension 0 of the entries of xs is cut, 3 rows in each of 4 entries: .*--batch-dim xs=none")
        _, result = self.compile(model, pictures(4), "--batch-dim", "xs=none")
        self.assertNotIn("of the entries of xs", result.err)

    def testListsOfNumbersWithAnEntryPerSample(self):
        """No micro-batch reads the entries of another one's samples, whatever the list holds and however many samples the example has."""
        lengths = lambda n: (torch.randn(n, 4, 8), [4, 3, 2, 1, 1, 1, 1, 4][:n])
        sizes = lambda n: (torch.randn(n, 8), [(i + 1, 2 * i + 1) for i in range(n)])
        temperatures = lambda n: (torch.randn(n, 8), [1.0 + i for i in range(n)])
        for name, make in (("MeansOfLengths", lengths), ("ScalesToSizes", sizes), ("DividesByTemperatures", temperatures)):
            model = self.save(name)
            for samples in (4, 7):
                _, result = self.compile(model, make(samples))
                self.assertRegex(result.err, r"(lengths|sizes|temperatures) is a list with an entry per sample", name)
                for size in (samples,) if name == "DividesByTemperatures" else (samples, 8):  # its code has no loop: only the example's sizes are known to run
                    batch = make(size)
                    close(self.runBoth(model, f"{name}.pipe", batch, 1), self.whole(model, batch))
                    torch.save(batch, "batch.pt")
                    for what in (model, f"{name}.pipe"):
                        self.refused(2, "expected 1", "pipe-run", what, "--inputs", "batch.pt", "--microbatches", 2)
        pooled = lambda n: (torch.randn(n, 3, 8), [1, 2, 4, 8])
        self.sameAsWhole("PoolsToSizes", pooled, parts=((8, 2), (4, 2), (5, 3)))

    def testValuesThatTheRuleDoesNotFitEndAlike(self):
        """The model and the artifact both give a list, and both say so."""
        rows = torch.randn(8, 8).clamp(-2, 2)
        rows[6, 3] = 9
        for name, example, batch in (("AnyAbove", (rows[:4],), (rows,)), ("StopsEarly", (torch.tensor([3, 3, 2, 3]),), (torch.tensor([2, 3, 5, 1]),))):
            model = self.save(name)
            artifact, _ = self.compile(model, example)
            torch.save(batch, "batch.pt")
            got = []
            for what in (model, artifact):
                result = self.pipec(0, "pipe-run", what, "--inputs", "batch.pt", "--microbatches", 2, "--threads", 1, "--output", "got.pt", "--force")
                self.assertRegex(result.err, "warning: (the result|result 1) is a list", f"{name} {what}")
                got.append(torch.load("got.pt"))
            close(*got)

    def testAnInputOfOneRowIsGivenWhole(self):
        """An example of one sample does not show it; the message of the first real batch does."""
        model = self.save("AddsRow")
        self.compile(model, (torch.randn(1, 8), torch.randn(1, 8)))
        torch.save((torch.randn(8, 8), torch.randn(1, 8)), "batch.pt")
        self.refused(2, "input row: expected a batch of 8, as input x has, got 1", "pipe-run", "AddsRow.pipe", "--inputs", "batch.pt", "--microbatches", 2)
        self.refused(2, "--batch-dim row=none", "pipe-run", "AddsRow.pipe", "--inputs", "batch.pt", "--microbatches", 2)

    def testListsOfZerosAreNotEmpty(self):
        """They have an entry per sample at each batch size, so joining them is confirmed."""
        for samples in (2, 3, 5):
            _, result = self.compile(self.save("RareFlags"), (torch.randn(samples, 8),))
            row = self.results(result)["1"]
            self.assertEqual((row["merge"], row["equals_whole_batch"]), ("join", "yes"), samples)
            self.assertNotIn("result 1 ", result.err)

    def testWhatCombinesSamplesIsNamed(self):
        _, result = self.compile(self.save("GrowthOfMean"), (torch.randn(4, 8),))
        self.assertRegex(result.err, "note: result 0 follows several samples at once, by aten::mean at batch_models.py:")

    def testPartsAlongDifferentDimensions(self):
        model, dims = self.save("OneList"), ["--batch-dim", "xs.0=1,xs.1=0,xs.2=none"]
        make = lambda samples: ([torch.randn(8, samples), torch.randn(samples, 8), torch.randn(3)],)
        _, result = self.compile(model, make(4), *dims)
        self.assertEqual(self.json(result)["inputs"][0]["parts"], {"0": 1, "1": 0, "2": None})
        batch = make(5)
        close(self.runBoth(model, "OneList.pipe", batch, 2, *dims), self.whole(model, batch))

    def json(self, result):
        import json
        return json.loads(result.out)

    def testReductions(self):
        self.sameAsWhole("Reduces", lambda samples: (torch.randn(samples, 8),),
                         merges={"0": "concat:0", "1": "sum", "2": "mean", "3": "sum", "4": "sum", "5": "sum"})

    def testNumbersOfTheWholeBatch(self):
        model = self.save("Contrasts")
        artifact, result = self.compile(model, (torch.randn(4, 8),))
        rows = self.results(result)
        self.assertEqual({path: row["equals_whole_batch"] for path, row in rows.items()},
                         {"loss": "no", "balance": "no", "largest": "no", "logits": "no", "y": "yes"})
        for path in ("loss", "balance", "largest"):
            self.assertRegex(rows[path]["reason"], r"\d for the whole batch, -?[\d.e-]+ for micro-batches")
            self.assertRegex(result.err, f"warning: result {path} is the mean over micro-batches.*--merge {path}=")
        self.assertRegex(result.err, "warning: result logits is a list.*--merge logits=")
        run = self.pipec(0, "pipe-run", model, "--inputs", "example.pt", "--microbatches", 2)
        self.assertIn("result logits is a list", run.err)
        # Who says how, has it, and is told nothing more.
        merges = ["--merge", "loss=list,logits=list", "--merge", "balance=sum", "--merge", "largest=list"]
        artifact, result = self.compile(model, (torch.randn(4, 8),), *merges)
        self.assertNotIn("--merge", result.err)
        got = self.runBoth(model, artifact, (torch.randn(4, 8),), 2, *merges)
        self.assertEqual(len(got["loss"]), 2)

    def testWholeNumbersThatAddUpByChance(self):
        _, result = self.compile(self.save("Halves"), (torch.randn(4, 8),))
        rows = self.results(result)
        self.assertEqual({path: row["equals_whole_batch"] for path, row in rows.items()},
                         {"0": "yes", "1": "no", "2": "no", "3": "no", "4": "no", "5": "yes"})
        self.assertEqual((rows["1"]["merge"], rows["5"]["merge"]), ("list", "sum"))

    def testZerosOfTheFirstMicroBatchAreNotBelieved(self):
        """A maximum is no sum, although zeros of the first micro-batch make it look like one: both commands say so of the same example."""
        model = self.save("Largest")
        torch.save((torch.randn(6, 8), torch.tensor([0, 0, 0, 1, 2, 2])), "example.pt")
        said = "warning: result 1 is a list with a value per micro-batch, which differs from the whole batch"
        how = ["--inputs", "example.pt"]
        self.pipec(0, "pipe-compile", model, "-o", "largest.pipe", "--stages", 2, *how, saying=said)
        how += ["--microbatches", 3]
        self.pipec(0, "pipe-run", model, *how, "--output", "largest-reference.pt", saying=said)
        self.pipec(0, "pipe-run", "largest.pipe", *how, "--expect", "largest-reference.pt", saying="PASSED")

    def testLossesOverPartsOfUnequalWeight(self):
        """The samples of a trial differ in their labels, also where the example has one, or one label only."""
        for ignored in (3, 1):
            y = torch.randint(0, 8, (1, 6))
            y[0, 6 - ignored:] = -100
            _, result = self.compile(self.save("MaskedLoss"), (torch.randn(1, 6, 8), y))
            self.assertEqual(self.results(result)["result"]["equals_whole_batch"], "no")
            self.assertIn("warning: the result is the mean over micro-batches", result.err)
        for samples in (1, 4):
            _, result = self.compile(self.save("WeightedLoss"), (torch.randn(samples, 8), torch.ones(samples, dtype=torch.long)))
            self.assertEqual(self.results(result)["result"]["equals_whole_batch"], "no")

    def testTheLaterMicroBatchesCount(self):
        """The unsplit model learns from the first micro-batch, and looks at the others."""
        model = self.save("MaskedLoss")
        y = torch.randint(0, 8, (8, 6))
        torch.save((torch.randn(8, 6, 8), y), "all.pt")
        how = ["--inputs", "all.pt", "--microbatches", 4]
        self.assertNotIn("differs from the whole batch", self.pipec(0, "pipe-run", model, *how).err)
        y[5:, 2:] = -100
        torch.save((torch.randn(8, 6, 8), y), "all.pt")
        self.assertRegex(self.pipec(0, "pipe-run", model, *how).err, "warning: the result is the mean over micro-batches, which differs")

    def testASizeThatIsThatOfTheBatchByChance(self):
        _, result = self.compile(self.save("Pairs"), (torch.randn(4, 8),))
        self.assertRegex(result.err, "warning: result 1 is concatenated along dimension 2, only because it has the size of the batch there .*--merge 1=")

    def testSteps(self):
        model = self.save("Greedy")
        _, result = self.compile(model, (torch.randn(4, 8) * 3,))
        self.assertEqual(self.results(result)["result"]["equals_whole_batch"], "no")
        self.assertIn("warning: the result is a list", result.err)

    def testState(self):
        model = self.save("Counts")
        artifact, result = self.compile(model, (torch.randn(4, 8),))
        self.assertIn("the model writes state (calls)", result.err)
        self.assertEqual({row["equals_whole_batch"] for row in self.results(result).values()}, {"no"})
        self.runBoth(model, artifact, (torch.randn(4, 8),), 2)

    def testAnotherStructureInSomeMicroBatchIsSaid(self):
        model, rows = self.save("KeysByValue"), torch.rand(4, 8)
        artifact, result = self.compile(model, (rows,))
        self.assertEqual({row["equals_whole_batch"] for row in self.results(result).values()}, {"yes"})
        torch.save((torch.cat([rows + 3, rows]),), "mixed.pt")
        result = self.pipec(0, "pipe-run", artifact, "--inputs", "mixed.pt", "--microbatches", 2, "--repeat", 2)
        self.assertEqual(result.err.count("warning: the result has another structure in some micro-batch"), 1)
        self.assertIn("--merge result=list", result.err)
        result = self.pipec(0, "pipe-run", artifact, "--inputs", "example.pt", "--microbatches", 2)
        self.assertNotIn("another structure", result.err)

    def testOnlyWhatIsInTrainingModeIsExplained(self):
        for layer, said, unsaid in ((torch.nn.Dropout(0.5), "dropout draws random numbers; ", "batch norm"),
                                    (torch.nn.RReLU(), "rrelu draws random numbers; ", "dropout draws"),
                                    (torch.nn.InstanceNorm1d(4, track_running_stats=True), "instance norm updates its statistics in each micro-batch; ", "batch norm"),
                                    (torch.nn.BatchNorm1d(8), "batch norm uses and updates the statistics of each micro-batch; ", "dropout")):
            torch.jit.script(torch.nn.Sequential(torch.nn.Linear(8, 8), layer, torch.nn.Linear(8, 8))).save("one.pt")
            result = self.compile(Path("one.pt"), (torch.randn(4, 8),))[1]
            note = next(line for line in result.err.splitlines() if "in training mode" in line)
            self.assertIn(said, note)
            self.assertNotIn(unsaid + " ", note)

    def testTrainingMode(self):
        model = self.save("Trains", training=True)
        _, result = self.compile(model, (torch.randn(4, 8),))
        self.assertRegex(result.err, r"note: norm, drop are in training mode .*--infer compiles them in eval mode")
        self.assertEqual(self.results(result)["result"]["equals_whole_batch"], "not tried")
        _, result = self.compile(model, (torch.randn(4, 8),), "--infer")
        self.assertNotIn("training mode", result.err)
        torch.save((torch.randn(4, 8),), "inputs.pt")
        for microBatches in (1, 2):
            result = self.pipec(0, "pipe-run", model, "--inputs", "inputs.pt", "--microbatches", microBatches)
            self.assertRegex(result.err, r"note: norm, drop are in training mode \(batch_norm, dropout\).*--infer runs them in eval mode")
            result = self.pipec(0, "pipe-run", model, "--inputs", "inputs.pt", "--microbatches", microBatches, "--infer")
            self.assertNotIn("training mode", result.err)
        for more in ([], ["--json"], ["--inputs", "inputs.pt"]):
            result = self.pipec(0, "pipe-inspect", model, *more)
            self.assertRegex(result.err, r"note: norm, drop are in training mode \(batch_norm, dropout\).*--infer compiles them in eval mode")
        self.assertNotIn("training mode", self.pipec(0, "pipe-inspect", self.save("Trains")).err)
        for training in (True, False):  # without a forward
            note = self.pipec(0, "pipe-inspect", self.save("TrainsOtherwise", training=training)).err
            self.assertEqual("note: drop is in training mode" in note, training, note)
        traced = torch.jit.trace(batch_models.Trains(), torch.randn(4, 8), check_trace=False)
        traced.save("traced.pt")
        _, result = self.compile(Path("traced.pt"), (torch.randn(4, 8),), "--infer")
        self.assertIn("save the model after model.eval()", result.err)  # a trace
        result = self.pipec(0, "pipe-run", "traced.pt", "--inputs", "inputs.pt", "--infer")
        self.assertRegex(result.err, r"note: norm, drop are in training mode .*save the model after model.eval\(\)")

    def testTimeFirst(self):
        """Steps of a sequence affect each other, samples along the second dimension do not."""
        result = self.sameAsWhole("TimeFirst", lambda samples: (torch.randn(7, samples, 8),))
        self.assertIn("--batch-dim x=1", result.err)

    def testStatesWithSamplesAlongALaterDimension(self):
        """An example of one sample, and of as many as there are layers, shows it as well."""
        one = lambda samples: (torch.randn(samples, 6, 8), torch.randn(1, samples, 8), torch.randn(1, samples, 8))
        pair = lambda samples: (torch.randn(samples, 6, 8), (torch.randn(1, samples, 8), torch.randn(1, samples, 8)))
        for name, make, said in (("PassedState", one, "--batch-dim h=1,c=1"), ("PassedPair", pair, "--batch-dim state=1")):
            result = self.sameAsWhole(name, make, parts=((4, 2), (5, 2), (7, 3)), merges={"1.0": "concat:1"})
            self.assertIn(said, result.err)
            for samples in (1, 2):
                self.compile(self.save(name), make(samples))
                self.runBoth(f"{name}.pt", f"{name}.pipe", make(7), 3)

    def testDependentStepsThatMergeEveryResult(self):
        artifact, result = self.compile(self.save("ScaledSteps"), (torch.randn(6, 2, 8),))
        self.assertEqual([row["merge"] for row in self.results(result).values()], ["concat:1"] * 2)
        self.assertIn("the choice that merges every result; --batch-dim x=1 confirms it", result.err)
        self.assertIn("samples in a micro-batch affect each other", result.err)
        output, state = self.runBoth("ScaledSteps.pt", artifact, (torch.randn(6, 7, 8),), 3)
        self.assertEqual((output.shape, state.shape), ((6, 7, 8), (1, 7, 8)))

    def testMultiplesOfASize(self):
        """Models that take no other sizes are compared at twice the size of the example."""
        for name, samples in (("Guidance", 4), ("Guidance", 2), ("GroupSpread", 4)):
            _, result = self.compile(self.save(name), (torch.randn(samples, 8),))
            self.assertEqual(self.results(result)["result"]["equals_whole_batch"], "no", name)
            self.assertIn("samples in a micro-batch affect each other", result.err, name)

    def testConstantExamples(self):
        """Zeros and ones, as people pass them, show as much as other numbers."""
        for make in (torch.zeros, torch.ones):
            _, result = self.compile(self.save("Centred"), (make(4, 8),))
            self.assertIn("samples in a micro-batch affect each other", result.err)
            model = self.save("Codebook")
            artifact, _ = self.compile(model, (make(4, 8), make(4, 8)))
            batch = (torch.randn(6, 8), torch.randn(4, 8))
            close(self.runBoth(model, artifact, batch, 3), self.whole(model, batch))

    def testIndicesAreNoSums(self):
        """Over several weights: whatever a result becomes, it is said where it is not that of the whole batch."""
        for seed in range(6):
            torch.manual_seed(seed)
            torch.jit.script(batch_models.Indices().eval()).save("Indices.pt")
            _, result = self.compile(Path("Indices.pt"), (torch.randn(4, 8),))
            rows = self.results(result)
            self.assertEqual({rows[path]["equals_whole_batch"] for path in ("0", "1", "2", "3")}, {"no"}, f"seed {seed}")
            self.assertEqual({rows[path]["merge"] for path in ("0", "1")}, {"list"}, f"seed {seed}")

    def testNumbersInLists(self):
        self.sameAsWhole("Floats", lambda samples: (torch.randn(samples, 8),))

    def testTheBatchMayBeTheLastDimension(self):
        """Of features[8, samples] and of pictures[height, width, channels, samples]."""
        for name, make, dim in (("FeaturesFirst", lambda samples: (torch.randn(8, samples), torch.randn(samples)), "x=1"),
                                ("PicturesLast", lambda samples: (torch.randn(4, 5, 3, samples),), "x=3")):
            result = self.sameAsWhole(name, make, parts=((7, 3), (4, 2)))
            self.assertIn(f"the choice that keeps samples independent; --batch-dim {dim} confirms it", result.err)

    def testArgumentsThatNoCutFits(self):
        """They are named; the model is not to blame."""
        for name, shape, words in (("RowsPerHead", (6, 8), "y has 2 rows per sample"), ("PairBias", (3, 3), "dimensions 0 and 1 of y have the size of the batch")):
            _, result = self.compile(self.save(name), (torch.randn(3, 8), torch.randn(*shape)))
            self.assertIn(f"only batches of 3 samples run: {words}", result.err)
            self.assertNotIn("take sizes from the input", result.err)

    def testEqualSamples(self):
        """Test runs of equal values in memory of another alignment may have other bits, and are no repetitions."""
        model = self.save("ThreeLayers")
        for x in (torch.randn(1, 7).expand(4, 7), torch.randn(1, 7).repeat(4, 1)):
            self.compile(model, (x,))

    def testStepsFirstWithAMask(self):
        def make(samples):
            padding = torch.zeros(samples, 5, dtype=torch.bool)
            padding[:, 4] = True
            return torch.randn(5, samples, 16), padding
        model = self.save("StepsFirst")
        artifact, result = self.compile(model, make(2))
        self.assertIn("dimension 1 of x", result.err)
        batch = make(6)
        close(self.runBoth(model, artifact, batch, 3), self.whole(model, batch))

    def testGivenMergesThatDiffer(self):
        _, result = self.compile(self.save("Contrasts"), (torch.randn(4, 8),), "--merge", "loss=mean,balance=list")
        self.assertRegex(result.err, r"warning: result loss, merged by mean as given, differs from that of the whole batch \(.*\d for the whole batch")
        self.assertNotRegex(result.err, "result balance, merged")

    def testMaskedSelections(self):
        """A concatenation is proposed only where it gives the whole batch's result; lists are shown with what they hold."""
        model = self.save("Selects")
        for more, saying in ((), r"which differs from the whole batch \(float32\[\d+\] for the whole batch, a list of float32\[\d+\] and float32\[\d+\] for micro-batches\); "
                                 r"in the test runs, --merge 0=concat:0 gives that of the whole batch"), (("--merge", "0=concat:0"), ""):
            _, result = self.compile(model, (torch.randn(4, 8),), *more)
            if saying:
                self.assertRegex(result.err, "warning: result 0 is a list with a value per micro-batch, " + saying)
            else:
                self.assertNotIn("result 0", result.err)
            self.assertRegex(result.err, r"warning: result 1 is a list .*; to merge it in another way, pass --merge 1=concat:K\|")

    def testOneWarningForOneResult(self):
        """Samples that affect each other are why the given merge differs, so one warning says both."""
        _, result = self.compile(self.save("Contrasts"), (torch.randn(4, 8),), "--merge", "logits=concat:0,balance=list,loss=list,largest=list")
        warnings = [line for line in result.err.splitlines() if line.startswith("warning: ")]
        self.assertEqual(len(warnings), 1, result.err)
        self.assertRegex(warnings[0], r"result logits, merged by concat:0 as given, differs .*; samples in a micro-batch affect each other \(result logits of sample ")

    def testWrongMerges(self):
        model = self.save("Reduces")
        how = ["pipe-compile", model, "--stages", 2, "--inputs", "f32[4,8]", "--dry-run", "--merge"]
        self.refused(2, "--merge: expected a result of the model (0, 1, 2, 3, 4, 5), got y", *how, "y=sum")
        self.refused(2, "--merge 1=concat:0: concat is for tensors with dimensions, got a single number", *how, "1=concat:0")
        self.refused(2, "--merge: expected PATH=concat:K, ", *how, "1=most")
        self.refused(2, ['--merge: expected something on both sides of each comma, got "1=sum,"', "help: pass 1=sum"], *how, "1=sum,")
        self.refused(2, "--merge 5=mean: a mean is of floats, got int64", *how, "5=mean")

    def decode(self, name, steps, tree):
        """Token after token through one artifact, and through plain PyTorch."""
        model = self.save(name)
        torch.manual_seed(3)
        samples, ids = 2, torch.randint(0, 50, (2, steps))
        keys, values = torch.randn(samples, 3, 16), torch.randn(samples, 3, 16)
        for length, path in ((4, "short.pt"), (7, "long.pt")):
            past = torch.randn(samples, length, 16)
            torch.save(tree(ids[:, :1], torch.ones(samples, length + 1, dtype=torch.long), past, past), path)
        report = self.pipec(0, "pipe-compile", model, "-o", f"{name}.pipe", "--stages", 3, "--inputs", "short.pt", "--inputs", "long.pt").out
        self.assertRegex(report, r"sizes in the examples: t = dimension 1 of .*; t \+ 1 = dimension 1 of mask")
        for step in range(steps):
            inputs = tree(ids[:, step:step + 1], torch.ones(samples, keys.size(1) + 1, dtype=torch.long), keys, values)
            torch.save(inputs, "step.pt")
            expected = self.whole(model, inputs)
            self.pipec(0, "pipe-run", f"{name}.pipe", "--inputs", "step.pt", "--microbatches", 1 + step % 2, "--threads", 1, "--output", "out.pt", "--force")
            got = torch.load("out.pt", weights_only=False)
            close(got, expected)
            keys, values = got["past"] if isinstance(got, dict) else got[1:]

    def testCaches(self):
        self.decode("Decoder", 5, lambda ids, mask, keys, values: (ids, mask, keys, values))
        self.decode("TupleDecoder", 4, lambda ids, mask, keys, values: (ids, mask, (keys, values)))

    def testAMaskOfALaterExample(self):
        """Only the first example shows what is cut, and the compile says so."""
        model = self.save("Masked")
        torch.save((torch.randn(4, 8),), "plain.pt")
        torch.save((torch.randn(6, 8), torch.rand(6, 8)), "masked.pt")
        compile = ["pipe-compile", model, "--stages", 2, "-o", "masked.pipe", "--force", "--inputs"]
        run = ["pipe-run", "masked.pipe", "--microbatches", 2, "--inputs"]
        self.pipec(0, *compile, "plain.pt", "--inputs", "masked.pt",
                   saying=["warning: mask is None in the first example", "the mask of example 2 does not count", "pass --inputs of example 2 first"])
        self.refused(2, "help: compile again with a first example (--inputs) that gives mask a value, which shows whether it is cut; or run one micro-batch", *run, "masked.pt")
        result = self.pipec(0, *compile, "masked.pt", "--inputs", "plain.pt")
        self.assertNotIn("does not count", result.err)
        for inputs in ("masked.pt", "plain.pt"):
            self.pipec(0, *run, inputs)

    def testListsOfOneLength(self):
        """A list has one value per micro-batch, also if each of these is a list as long as the others."""
        model = self.save("Distances")
        artifact, _ = self.compile(model, (torch.randn(4, 8),))
        x = torch.randn(8, 8)
        got = self.runBoth(model, artifact, (x,), 4)
        close(got, [self.whole(model, (part,)) for part in x.chunk(4)])

    def testListsPerSampleAreNotCut(self):
        """An artifact says why, as the unsplit model does."""
        model = self.save("Named")
        artifact, _ = self.compile(model, (torch.randn(3, 8), [1, 2, 3]))
        torch.save((torch.randn(6, 8), [1, 2, 3, 4, 5, 6]), "batch.pt")
        self.refused(2, ["no input has a batch dimension (lengths is a list of 6 entries, as many as dimension 0 of x has, and lists are not cut by entries): expected 1 micro-batch, got 3"],
                     "pipe-run", artifact, "--inputs", "batch.pt", "--microbatches", 3)

    def testExamplesThatDisagree(self):
        """One of them is computed by operators that the other one does not have."""
        model = self.save("Ranks")
        self.refused(2, ["example 2: ", "other operators on it than on the first example"], "pipe-compile", model, "--stages", 2, "--dry-run",
                     "--inputs", "f32[4,8]", "--inputs", "f32[4,3,8]")


if __name__ == "__main__":
    e2e.main()
