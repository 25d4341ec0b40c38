"""Automatic cuts: what they are planned from, what is said of them, and that they hold what they promise."""
import json
import shutil
from pathlib import Path
from typing import List

import torch

import damage
import e2e

MLP = [e2e.MODELS / "mlp.pt", "--inputs", e2e.MODELS / "mlp.inputs.pt"]
UNET = [e2e.MODELS / "unet.pt", "--inputs", e2e.MODELS / "unet.inputs.pt"]


class Branches(torch.nn.Module):
    def forward(self, x):
        a = torch.relu(x)
        b = torch.exp(x)
        c = torch.tanh(x)
        return a + b + c


class Remembers(torch.nn.Module):
    """Reads an attribute behind what moves over it, and assigns it: both count as arithmetic on whole numbers."""

    history: List[int]

    def __init__(self):
        super().__init__()
        self.history = [1, 2]

    def forward(self, x):
        a = torch.exp(x)
        b = torch.sin(x)
        n = int(a.sum())
        self.history = [self.history[-1], n]
        return a * n + b


class Totals(torch.nn.Module):
    """Asks for the size of a buffer that it writes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        a = torch.exp(x)
        b = torch.sin(x)
        k = self.total.size(0) + 1
        m = a.mean(0) * k
        self.total.add_(m)
        return torch.cos(m) + b + self.total


class Wide(torch.nn.Module):
    """Weights of 3, 4 and 1 parts next to each other."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = torch.nn.Linear(64, 3000), torch.nn.Linear(64, 4000), torch.nn.Linear(64, 1000)

    def forward(self, x):
        return self.a(x).sum(1) + self.b(x).sum(1) + self.c(x).sum(1)


class Dense(torch.nn.Module):
    def forward(self, x):
        y = torch.linalg.inv(x + 9 * torch.eye(16))
        y = torch.sort(torch.softmax(y.tanh(), -1), -1)[0]
        return torch.fft.fft(y @ x).real


class Towers(torch.nn.Module):
    """Two branches that do not wait for each other."""

    def forward(self, x):
        return torch.exp(x), torch.sin(x)


class EitherOf(torch.nn.Module):
    """What is written and what is not may be one memory to who comes after."""

    def forward(self, x):
        p = torch.tan(x)
        a = torch.log(p.abs() + 2)
        torch.nn.functional.elu_(a)
        c = torch.exp(x).mean(0)
        e = torch.cos(c)
        r = torch.sin(p + e)
        if bool(x.sum() > 0):
            d = a
        else:
            d = c.expand_as(a)
        return r + d + e


class Planner(e2e.Case):
    def document(self, *arguments):
        done = e2e.run("pipe-compile", *arguments, "--json", "--force")
        self.assertEqual(done.code, 0, done)
        return json.loads(done.out), done.err

    def refused(self, code, *arguments, saying):
        done = e2e.run("pipe-compile", *arguments, "-o", "never.pipe", "--force")
        self.assertEqual((done.code, Path("never.pipe").exists()), (code, False), done)
        for text in saying:
            self.assertIn(text, done.err)
        return done

    def testReport(self):
        report, _ = self.document(*UNET, "--stages", 4, "--ranks", 4, "-o", "report.pipe")
        partition, prediction, stages = report["partition"], report["prediction"], report["stages"]
        self.assertEqual(set(partition), {"bottleneck_ms", "lower_bound_ms", "gap", "moved_operators"})
        self.assertGreaterEqual(partition["bottleneck_ms"], partition["lower_bound_ms"])
        self.assertAlmostEqual(partition["gap"], 1 - partition["lower_bound_ms"] / partition["bottleneck_ms"], places=9)
        times = [stage["forward_ms"] for stage in stages]
        self.assertLessEqual(max(times), partition["bottleneck_ms"])  # which sends, too
        self.assertLess(max(times), 1.35 * sum(times) / len(times))
        self.assertGreaterEqual(partition["lower_bound_ms"], sum(times) / len(times) * 0.999)
        for stage in stages:
            self.assertGreater(stage["memory_bytes"], stage["parameter_bytes"])
        self.assertEqual((prediction["schedule"], prediction["microbatches"]), ("forward-only", 4))
        self.assertGreaterEqual(prediction["step_ms"], sum(times) + 3 * max(times))
        self.assertAlmostEqual(prediction["bubble"], 1 - 4 * max(times) / prediction["step_ms"], places=3)
        self.assertFalse(Path("report.pipe/costs.json").exists(), "counted costs are no measurement")

    def testGivenCuts(self):
        report, _ = self.document(*MLP, "--at", "layers.4,head", "-o", "given.pipe")
        self.assertNotIn("partition", report)
        self.assertEqual(set(report["prediction"]), {"schedule", "microbatches"})
        report, _ = self.document(*MLP, "--at", "layers.4,head", "--cost", "analytic", "-o", "given.pipe")
        self.assertNotIn("partition", report)
        self.assertGreater(report["prediction"]["step_ms"], 0)
        self.refused(2, *MLP, "--at", "layers.4", "--memory-limit", "1GiB", saying=["--memory-limit: expected automatic cuts"])

    def testMemoryLimit(self):
        free, _ = self.document(*MLP, "--stages", 3, "-o", "free.pipe")
        needs = max(stage["memory_bytes"] for stage in free["stages"])
        fits, _ = self.document(*MLP, "--stages", 3, "--memory-limit", 2 * needs, "-o", "fits.pipe")
        self.assertEqual([stage["nodes"] for stage in fits["stages"]], [stage["nodes"] for stage in free["stages"]])
        done = self.refused(12, *MLP, "--stages", 3, "--memory-limit", "1kB", saying=["no cut into 3 stages fits: expected at least", " KiB) per device, got 1000 bytes"])
        # More stages are advised only if they can suffice.
        self.assertIn("help: raise the memory limit; this model can be cut into at most 33 stages, one of which then still needs", done.err)
        self.refused(12, *MLP, "--stages", 3, "--memory-limit", "40KiB", saying=["no cut into 3 stages fits", "help: more stages need less memory per stage"])
        least = int(done.err.split("expected at least ")[1].split()[0])
        tight, _ = self.document(*MLP, "--stages", 3, "--memory-limit", least, "-o", "tight.pipe")
        self.assertLessEqual(max(stage["memory_bytes"] for stage in tight["stages"]), least)
        self.refused(12, *MLP, "--stages", 3, "--memory-limit", least - 1, saying=[f"at least {least} bytes"])

    def testMemoryLimitIsWhatTheReportSays(self):
        """Of weights that two stages read, of buffers, of results that are alive in one stage only."""
        for name in ("lstm", "unet", "gpt2", "resnet50"):
            model = [e2e.MODELS / f"{name}.pt", "--inputs", e2e.MODELS / f"{name}.inputs.pt", "--stages", 2, "--dry-run", "--verify", "none"]
            needs = lambda *limit: max(stage["memory_bytes"] for stage in self.document(*model, *limit)[0]["stages"])
            free = needs()
            self.assertEqual(needs("--memory-limit", free), free, name)
            done = self.refused(12, *model, "--memory-limit", "1kB", saying=["no cut into 2 stages fits"])
            least = int(done.err.split("expected at least ")[1].split()[0])
            self.assertLessEqual(least, free, name)
            self.assertEqual(needs("--memory-limit", least), least, name)
            self.refused(12, *model, "--memory-limit", least - 1, saying=[f"expected at least {least} bytes"])

    def testMemoryMayNeedAnotherOrder(self):
        """In program order a stage has weights of 5 parts, in another one of 4."""
        torch.jit.script(Wide()).save("wide.pt")
        model = ["wide.pt", "--inputs", "f32[2,64]", "--stages", 2]
        part = 65 * 1000 * 4
        report, _ = self.document(*model, "--memory-limit", 4 * part + 100_000, "-o", "wide.pipe")
        self.assertLessEqual(max(stage["memory_bytes"] for stage in report["stages"]), 4 * part + 100_000)
        self.assertGreater(report["partition"]["moved_operators"], 0)
        self.assertLessEqual(report["partition"]["lower_bound_ms"], report["partition"]["bottleneck_ms"])
        self.assertEqual(e2e.run("pipe-check", "wide.pipe", "--against", "wide.pt").code, 0)
        done = self.refused(12, *model, "--memory-limit", "1kB", saying=["no cut into 2 stages fits"])
        self.assertLess(int(done.err.split("expected at least ")[1].split()[0]), 4 * part + 100_000)

    def testOperatorsWithoutAFormula(self):
        """What is more than a walk over its bytes is named; what is not, or was counted, is not."""
        torch.jit.script(Dense()).save("dense.pt")
        done = e2e.run("pipe-compile", "dense.pt", "--inputs", "f32[2,16,16]", "--stages", 2, "--dry-run")
        self.assertEqual(done.code, 0, done)
        self.assertIn("no cost formula for aten::fft_fft, aten::linalg_inv, aten::sort; estimated from memory traffic (--cost measured times them)", done.err)
        for name in ("mlp", "unet", "gpt2", "bert", "t5", "lstm", "resnet50"):
            done = e2e.run("pipe-compile", e2e.MODELS / f"{name}.pt", "--inputs", e2e.MODELS / f"{name}.inputs.pt", "--stages", 2, "--dry-run",
                           "--verify", "none")
            self.assertNotIn("no formula", done.err, name)

    def testWeightsInLists(self):
        """Recurrent modules read theirs as lists: these bytes need room and have gradients like any others."""
        lstm = [e2e.MODELS / "lstm.pt", "--inputs", e2e.MODELS / "lstm.inputs.pt"]
        weights = {p.data_ptr(): p.numel() * p.element_size() for p in torch.jit.load(str(lstm[0])).parameters()}
        self.document(*lstm, "--ranks", 2, "--train", "--cost", "analytic", "--emit-costs", "lstm.json", "--dry-run")
        rows = json.loads(Path("lstm.json").read_text())["operators"]
        self.assertEqual(sum(row.get("trained_bytes", 0) for row in rows), sum(weights.values()))
        for row in rows:
            if row["op"] == "aten::lstm":
                self.assertGreater(min(row["weight_bytes"], row["weight_grad_ns"]), 0, row)
        done = self.refused(12, *lstm, "--stages", 2, "--memory-limit", "200KiB", saying=["no cut into 2 stages fits"])
        self.assertGreater(int(done.err.split("expected at least ")[1].split()[0]), sum(weights.values()) // 2)

    def testAutoSchedule(self):
        given, _ = self.document(*UNET, "--stages", 4, "--ranks", 2, "--microbatches", 4, "-o", "blocks.pipe")
        chosen, _ = self.document(*UNET, "--stages", 4, "--ranks", 2, "--microbatches", 4, "--schedule", "auto", "-o", "auto.pipe")
        self.assertLessEqual(chosen["prediction"]["step_ms"], given["prediction"]["step_ms"])
        self.assertGreaterEqual(chosen["prediction"]["step_ms"], 0.999 * chosen["prediction"]["lower_bound_ms"])
        free, _ = self.document(*UNET, "--ranks", 2, "--schedule", "auto", "-o", "free.pipe")
        self.assertIn(len(free["stages"]), (2, 4, 6, 8))
        self.assertLessEqual(free["prediction"]["bubble"], 0.5)
        plan = json.loads(Path("free.pipe/plan.json").read_text())
        self.assertEqual((plan["ranks"], plan["schedule"]), (2, "forward-only"))
        self.assertEqual(free["prediction"]["microbatches"], plan["microbatches"])
        self.assertEqual(e2e.run("pipe-check", "free.pipe").code, 0)
        again, _ = self.document(*UNET, "--ranks", 2, "--schedule", "auto", "-o", "again.pipe")
        self.assertEqual(e2e.files("free.pipe"), e2e.files("again.pipe"))
        self.refused(12, *MLP, "--ranks", 2, "--schedule", "auto", "--memory-limit", "1kB", saying=["expected at least", "got 1000"])
        self.refused(2, MLP[0], "--ranks", 2, "--schedule", "auto", saying=["--schedule auto: expected example inputs, got none"])

    def testScheduleTable(self):
        """Stages 0 and 3 on one rank, 1 and 2 on the other, three micro-batches in an order of its own."""
        rows = ["0F0,0F1,0F2,3F0,3F1,3F2", "1F0,2F0,1F1,2F1,1F2,2F2"]
        Path("v.csv").write_text("\n".join(rows) + "\n")
        report, _ = self.document(*MLP, "--schedule", "v.csv", "--cost", "analytic", "-o", "table.pipe")
        self.assertEqual([stage["rank"] for stage in report["stages"]], [0, 1, 1, 0])
        self.assertEqual((report["prediction"]["schedule"], report["prediction"]["microbatches"]), ("table", 3))
        self.assertEqual(Path("table.pipe/schedule.csv").read_text().split(), rows)
        plan = json.loads(Path("table.pipe/plan.json").read_text())
        self.assertEqual((plan["schedule"], plan["ranks"], plan["required_features"]), ("table", 2, ["schedule-table"]))
        self.assertEqual(e2e.run("pipe-check", "table.pipe", "--against", MLP[0]).code, 0)
        four = ["--inputs", e2e.MODELS / "mlp.inputs4.pt", "--expect", e2e.MODELS / "mlp.expected4.pt"]
        self.assertEqual(e2e.run("pipe-run", "table.pipe", *four).code, 0)
        self.assertEqual(e2e.run("pipe-run", "table.pipe", *four, "--microbatches", 4, "--schedule", "forward-only").code, 0)
        done = e2e.run("pipe-run", "table.pipe", *four, "--microbatches", 4)
        self.assertEqual(done.code, 2, done)
        self.assertIn("micro-batches: expected 3, the number in the artifact's schedule, got 4", done.err)
        self.document(*MLP, "--at", "layers.4,layers.8,head", "--schedule", "v.csv", "-o", "given.pipe")
        self.refused(2, *MLP, "--at", "layers.4", "--schedule", "v.csv", saying=["--schedule: expected a table of 2 stages, as the cuts make, got 4"])
        for option, said, got in (("--stages", "3 stages", 4), ("--ranks", "3 ranks", 2), ("--microbatches", "2 micro-batches", 3)):
            self.refused(2, *MLP, option, said[0], "--schedule", "v.csv", saying=[f"--schedule: expected a table of {said}, as {option} requests, got {got}"])
        Path("train.csv").write_text("0F0,0B0\n1F0,1B0\n")
        self.refused(2, *MLP, "--schedule", "train.csv", saying=["--schedule: expected a table of forward actions, got one with backward actions"])
        Path("twice.csv").write_text("0F0,0F0\n1F0\n")
        self.refused(2, *MLP, "--schedule", "twice.csv", saying=["--schedule: ", "0F0"])
        Path("text.csv").write_text("hello\n")
        self.refused(3, *MLP, "--schedule", "text.csv", saying=["--schedule: "])
        Path("empty.csv").write_text("")
        self.refused(3, *MLP, "--schedule", "empty.csv", saying=["--schedule: empty.csv is empty"])
        self.refused(8, *MLP, "--schedule", "none.csv", saying=["--schedule: cannot read none.csv"])
        self.refused(2, *MLP, "--schedule", "1f1b", saying=["--schedule: expected forward-only, auto or a CSV file, got 1f1b"])

    def testTableGivesTheSameBytes(self):
        self.document(*UNET, "--stages", 3, "--emit-costs", "table.json", "-o", "counted.pipe")
        table = json.loads(Path("table.json").read_text())
        self.assertGreater(sum(row["forward_ns"] for row in table["operators"]), 0)
        for name in ("one.pipe", "two.pipe"):
            self.document(*UNET, "--stages", 3, "--cost", "table.json", "-o", name)
        self.assertEqual(e2e.files("one.pipe"), e2e.files("two.pipe"))
        self.assertEqual(Path("one.pipe/costs.json").read_bytes(), Path("table.json").read_bytes())
        self.document(*UNET, "--stages", 3, "--cost", "one.pipe/costs.json", "-o", "three.pipe")
        self.assertEqual(e2e.files("one.pipe"), e2e.files("three.pipe"))
        self.assertEqual(e2e.run("pipe-check", "one.pipe", "--against", UNET[0]).code, 0)

    def testTableDecides(self):
        self.document(*MLP, "--stages", 2, "--emit-costs", "even.json", "-o", "even.pipe")
        table = json.loads(Path("even.json").read_text())
        for i, row in enumerate(table["operators"]):
            row["forward_ns"] = 1_000_000 if i == 0 else 1000
        Path("first.json").write_text(json.dumps(table))
        report, _ = self.document(*MLP, "--stages", 2, "--cost", "first.json", "-o", "first.pipe")
        self.assertEqual(report["stages"][0]["nodes"], 1)
        self.assertAlmostEqual(report["stages"][0]["forward_ms"], 1)

    def testOperatorsThatRunInAnotherOrder(self):
        """3, 4 and 1 ms next to each other: in program order the busiest of two stages has 5, in another one 4."""
        torch.jit.script(Branches()).save("branches.pt")
        batch = torch.randn(4, 3)
        torch.save(batch, "batch.pt")
        model = ["branches.pt", "--inputs", "batch.pt", "--stages", 2]
        self.writeTimes(model, {"aten::relu": 3, "aten::exp": 4, "aten::tanh": 1})
        report, _ = self.document(*model, "--cost", "table.json", "-o", "one.pipe")
        self.assertEqual(report["partition"]["moved_operators"], 1)
        self.assertAlmostEqual(report["partition"]["bottleneck_ms"], 4, delta=0.1)
        self.assertEqual(report["partition"]["gap"], 0)
        self.assertAlmostEqual(max(stage["forward_ms"] for stage in report["stages"]), 4, delta=0.1)
        plan = json.loads(Path("one.pipe/plan.json").read_text())
        self.assertIn("reorder operators 1 0 2-4", plan["obligations"])
        self.assertIn("moved-operators", plan["required_features"])
        self.assertNotIn("moved-operators", json.loads(Path("counted.pipe/plan.json").read_text())["required_features"])
        self.futureFeatureIsAVersion("one.pipe", plan)
        said = self.pipec(0, "pipe-compile", *model, "--cost", "table.json", "-o", "two.pipe", "--force").out
        self.assertIn("; 1 operator runs earlier or later than in the program", said)
        self.assertEqual(e2e.files("one.pipe"), e2e.files("two.pipe"))
        self.pipec(0, "pipe-check", "one.pipe")
        self.pipec(0, "pipe-check", "one.pipe", "--against", "branches.pt")
        self.pipec(0, "pipe-run", "one.pipe", "--inputs", "batch.pt", "--microbatches", 2, "--threads", 1, "--output", "out.pt", "--force")
        self.sameBits(Branches()(batch), torch.load("out.pt"), "stages in another order")
        self.pipec(0, "pipe-merge", "one.pipe", "-o", "merged.pt")
        self.pipec(0, "pipe-check", "one.pipe", "--against", "merged.pt")

    def testOperatorsMovedOverState(self):
        """Reading it counts as arithmetic on whole numbers, which the proof puts elsewhere: that is no other order of writes."""
        torch.save(torch.randn(4, 3), "batch.pt")
        for made, slow in ((Remembers, "aten::mul"), (Totals, "aten::cos")):
            with self.subTest(made.__name__):
                torch.jit.script(made()).save("state.pt")
                model = ["state.pt", "--inputs", "batch.pt", "--stages", 2]
                self.writeTimes(model, {"aten::exp": 1, "aten::sin": 3, slow: 2})
                report, _ = self.document(*model, "--cost", "table.json", "-o", "state.pipe")
                self.assertAlmostEqual(report["partition"]["bottleneck_ms"], 3, delta=0.1)  # in program order 4
                self.assertGreater(report["partition"]["moved_operators"], 0)
                self.pipec(0, "pipe-check", "state.pipe", "--against", "state.pt")

    def testOperatorsMovedAroundAWrite(self):
        """The planner knows as much of the order of writes as who puts operators in order: it made exit 2 of its own plan."""
        torch.jit.script(EitherOf()).save("either.pt")
        torch.save(torch.randn(64, 64), "batch.pt")
        model = ["either.pt", "--inputs", "batch.pt", "--stages", 2]
        self.writeTimes(model, {"aten::tan": 2, "aten::exp": 3, "aten::mean": 0.2, "aten::cos": 0.2, "aten::sin": 1.6, "aten::log": 0.05,
                                "aten::elu_": 0.05})
        self.document(*model, "--cost", "table.json", "-o", "either.pipe")
        self.pipec(0, "pipe-check", "either.pipe", "--against", "either.pt")

    def testBranchesThatDoNotWait(self):
        """No step of theirs needs the time of both one after the other."""
        torch.jit.script(Towers()).save("towers.pt")
        torch.save(torch.randn(64, 64), "batch.pt")
        model = ["towers.pt", "--inputs", "batch.pt", "--stages", 2]
        self.writeTimes(model, {"aten::exp": 1, "aten::sin": 2})
        for batches in (1, 4):
            report, _ = self.document(*model, "--cost", "table.json", "--schedule", "auto", "--microbatches", batches, "-o", "towers.pipe")
            self.assertAlmostEqual(report["prediction"]["step_ms"], 2 * batches, delta=0.1 * batches)

    def writeTimes(self, model, milliseconds):
        """A table for the model, table.json: these operators, and the others a microsecond each."""
        self.document(*model, "--emit-costs", "table.json", "-o", "counted.pipe")
        table = json.loads(Path("table.json").read_text())
        for row in table["operators"]:
            row["forward_ns"] = 1_000_000 * milliseconds.get(row["op"], 0.001)
        Path("table.json").write_text(json.dumps(table))

    def futureFeatureIsAVersion(self, artifact, plan):
        """As a pipec sees a plan with moved operators that does not know of them: not as a damaged artifact."""
        text = json.dumps(plan).replace("moved-operators", "moved-elsewhere").replace("reorder operators", "reorder otherwise")
        shutil.copytree(artifact, "future.pipe", dirs_exist_ok=True)
        Path("future.pipe/plan.json").write_text(text)
        damage.manifest(Path("future.pipe"))
        self.assertIn('needs feature "moved-elsewhere"', self.pipec(6, "pipe-inspect", "future.pipe").err)

    def testMeasured(self):
        report, _ = self.document(*UNET, "--stages", 3, "--cost", "measured", "--cost-budget", "2s", "-o", "measured.pipe")
        self.assertIn("measure costs", [phase["name"] for phase in report["phases"]])
        self.assertGreater(min(stage["forward_ms"] for stage in report["stages"]), 0)
        again, _ = self.document(*UNET, "--stages", 3, "--cost", "measured.pipe/costs.json", "-o", "again.pipe")
        self.assertEqual(e2e.files("measured.pipe"), e2e.files("again.pipe"))
        self.assertEqual([stage["forward_ms"] for stage in report["stages"]], [stage["forward_ms"] for stage in again["stages"]])

    def testTableOfOlderVersions(self):
        self.document(*UNET, "--stages", 2, "--cost", "measured", "--cost-budget", "1s", "--emit-costs", "new.json", "-o", "new.pipe")
        table = json.loads(Path("new.json").read_text())
        self.assertIn(table.pop("at_once", 1), (1, 2))  # no more than there are ranks
        self.assertGreater(sum(row["weight_bytes"] for row in table["operators"] if "weight_bytes" in row), 0)
        for row in table["operators"]:
            for key in set(row) - {"op", "module", "forward_ns", "output_bytes"}:
                del row[key]
        Path("old.json").write_text(json.dumps(table))
        new, _ = self.document(*UNET, "--stages", 2, "--cost", "new.json", "-o", "new.pipe")
        old, _ = self.document(*UNET, "--stages", 2, "--cost", "old.json", "-o", "old.pipe")
        self.assertEqual([stage["forward_ms"] for stage in old["stages"]], [stage["forward_ms"] for stage in new["stages"]])
        self.assertGreaterEqual(old["prediction"]["step_ms"], sum(stage["forward_ms"] for stage in old["stages"]))
        table["at_once"] = 0
        Path("old.json").write_text(json.dumps(table))
        self.refused(2, *UNET, "--stages", 2, "--cost", "old.json", saying=["--cost: old.json: at_once"])

    def testWrongTables(self):
        self.document(*MLP, "--stages", 2, "--emit-costs", "mlp.json", "-o", "mlp.pipe")
        self.refused(2, *UNET, "--stages", 2, "--cost", "mlp.json", saying=["mlp.json: expected the costs of", "operators, got"])
        table = json.loads(Path("mlp.json").read_text())
        table["operators"][1]["op"] = "aten::other"
        Path("other.json").write_text(json.dumps(table))
        self.refused(2, *MLP, "--stages", 2, "--cost", "other.json", saying=["operators[1]: expected aten::", "got aten::other"])
        self.refused(8, *MLP, "--stages", 2, "--cost", "none.json", saying=["cannot read none.json", "analytic, measured or a table"])
        self.refused(2, e2e.MODELS / "mlp.pt", "--stages", 2, "--cost", "measured", saying=["--cost: expected example inputs"])
        self.refused(2, *MLP, "--stages", 2, "--cost-budget", "1s", saying=["expected --cost measured"])
        done = e2e.run("pipe-compile", *MLP, "--stages", 2, "--emit-costs", "mlp.json", "-o", "never.pipe")
        self.assertEqual((done.code, Path("never.pipe").exists()), (2, False), done)

    def testCluster(self):
        clusters = e2e.SOURCE / "docs/clusters"
        two, _ = self.document(*UNET, "--cluster", clusters / "two-cores.json", "-o", "two.pipe")
        self.assertEqual(len(two["stages"]), 2)  # as many as devices
        given, _ = self.document(*MLP, "--at", "layers.4,head", "--cluster", clusters / "four-gpus.json", "-o", "given.pipe")
        self.assertEqual([stage["rank"] for stage in given["stages"]], [0, 1, 2])  # as many as the cuts make
        slow, _ = self.document(*UNET, "--stages", 4, "-o", "cpu.pipe")
        fast, _ = self.document(*UNET, "--stages", 4, "--cluster", clusters / "four-gpus.json", "-o", "gpus.pipe")
        self.assertLess(fast["prediction"]["step_ms"], slow["prediction"]["step_ms"] / 10)
        cluster = json.loads((clusters / "four-gpus.json").read_text())
        cluster["devices"][2]["memory_bytes"] = 1000
        Path("small.json").write_text(json.dumps(cluster))
        self.refused(12, *UNET, "--stages", 4, "--cluster", "small.json", saying=["no cut into 4 stages fits"])
        cluster["devices"][2]["memory_bytes"] = 2**30
        Path("mixed.json").write_text(json.dumps(cluster))
        _, notes = self.document(*UNET, "--stages", 4, "--cluster", "mixed.json", "-o", "mixed.pipe")
        self.assertIn("devices differ", notes)
        cluster["devices"][1]["kind"] = "tpu"
        Path("wrong.json").write_text(json.dumps(cluster))
        self.refused(2, *UNET, "--stages", 4, "--cluster", "wrong.json", saying=["--cluster: wrong.json: devices[1].kind: expected cpu or cuda"])
        self.refused(8, *UNET, "--stages", 4, "--cluster", "none.json", saying=["--cluster: cannot read none.json"])


    def testRanksThatShareADevice(self):
        """Four ranks on two devices take turns: no step is shorter than what each device has to do."""
        two = e2e.SOURCE / "docs/clusters/two-cores.json"
        report, _ = self.document(*UNET, "--stages", 4, "--ranks", 4, "--cluster", two, "--cost", "analytic", "--microbatches", 8, "--dry-run")
        times = [stage["forward_ms"] for stage in report["stages"]]
        self.assertGreaterEqual(report["prediction"]["step_ms"], 8 * max(times[0] + times[2], times[1] + times[3]) * 0.999)
        self.assertNotIn("ranks_why", report)

    def testWhyThereAreFewerRanks(self):
        said = e2e.run("pipe-compile", *UNET, "--stages", 4, "--cluster", e2e.SOURCE / "docs/clusters/two-cores.json", "--cost", "analytic", "--dry-run")
        self.assertIn("ranks: 2, one per device of --cluster, for 4 stages; --ranks 4 gives one per stage\n", said.out)
        self.document(*UNET, "--stages", 2, "--cost", "analytic", "--emit-costs", "counted.json", "--dry-run")
        table = json.loads(Path("counted.json").read_text())
        Path("beside.json").write_text(json.dumps({**table, "at_once": 2}))
        report, _ = self.document(*UNET, "--stages", 4, "--cost", "beside.json", "-o", "beside.pipe")
        self.assertEqual(report["ranks_why"], "the number that the cost table was measured with")
        drawn = e2e.run("pipe-inspect", "beside.pipe", "--schedule").out
        self.assertIn("predicted from measured times, assuming that 2 ranks always run at once (the compile report counts", drawn)

    def testUnlikeDevices(self):
        """A device that does three times as much gets three quarters of the work, wherever it is in the file, and no bound denies it."""
        def cluster(name, rates, memory=None, links=None):
            devices = [{"name": f"d{i}", "kind": "cpu", "flops_per_second": rate * 10**9, "bytes_per_second": rate * 25 * 10**7,
                        **({"memory_bytes": memory[i]} if memory else {})} for i, rate in enumerate(rates)]
            Path(name).write_text(json.dumps({"schema_version": 1, "devices": devices, "links": links or []}))
            return ["--cluster", name]

        gpt2 = [e2e.MODELS / "gpt2.pt", "--inputs", e2e.MODELS / "gpt2.inputs.pt", "--cost", "analytic"]
        slow, _ = self.document(*gpt2, *cluster("slow.json", (50, 50)), "--dry-run")
        for rates in ((50, 150), (150, 50)):
            report, notes = self.document(*gpt2, *cluster("unlike.json", rates), "-o", "unlike.pipe")
            self.assertIn("devices differ", notes)
            partition = report["partition"]
            self.assertLess(partition["bottleneck_ms"], 0.55 * slow["partition"]["bottleneck_ms"])
            self.assertLessEqual(partition["lower_bound_ms"], partition["bottleneck_ms"])
            self.assertLess(partition["gap"], 0.03)
            ranks = [stage["rank"] for stage in report["stages"]]
            self.assertEqual(sorted(ranks), [0, 1])
            times = [stage["forward_ms"] for stage in report["stages"]]  # each on its device
            self.assertLess(max(times), 1.05 * min(times))
            self.assertGreaterEqual(report["prediction"]["step_ms"], sum(times) + max(times))
            self.assertLess(report["prediction"]["step_ms"], 0.55 * slow["prediction"]["step_ms"])
            self.pipec(0, "pipe-check", "unlike.pipe", "--against", gpt2[0])
        # What the fast one has no room for goes to the slow one, or nowhere.
        weights = sum(stage["parameter_bytes"] for stage in slow["stages"])
        tight, _ = self.document(*gpt2, *cluster("tight.json", (50, 150), (2 * weights, weights // 3)), "--dry-run")
        needs = {stage["rank"]: stage["memory_bytes"] for stage in tight["stages"]}
        self.assertLessEqual(needs[1], weights // 3)
        self.refused(12, *gpt2, *cluster("too-small.json", (50, 150), (1000, 1000)),
                     saying=["no cut into 2 stages fits", "this is the limit of the device with the least memory"])
        # Several stages on each, or links that differ: planned for the slowest, but no bound is above what the fastest could do.
        many, _ = self.document(*gpt2, *cluster("unlike.json", (50, 150)), "--stages", 4, "--dry-run")
        self.assertLessEqual(3 * many["partition"]["lower_bound_ms"], many["partition"]["bottleneck_ms"] * 1.001)
        links = [{"between": ["d0", "d1"], "latency_ns": 0, "bytes_per_second": 10**12}, {"between": ["*", "*"], "latency_ns": 10**6}]
        far, _ = self.document(*gpt2, *cluster("links.json", (50, 50, 50), links=links), "--dry-run")
        self.assertLess(far["partition"]["lower_bound_ms"], 23 * 1.05 / 3 * 1.01)


if __name__ == "__main__":
    e2e.main()
