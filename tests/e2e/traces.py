"""pipe-run --trace: every op of a step is there with its time, arrows join the ranks, and pipe-inspect --html --trace shows it beside the simulated step."""
import json
import math
import re
import statistics
from collections import defaultdict
from pathlib import Path

import torch

import e2e

USAGE, UNREADABLE = 2, 3
ACTIONS = set("FBIWR")


class Net(torch.nn.Module):
    """A chain with a skip over all of it, so that gradients come back over two channels."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(8))

    def forward(self, x):
        first = x
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if i == 0:
                first = x
        return x + first


class WithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.net(x), target)


def spans(trace):
    """The spans of each row, in the file's order."""
    rows = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            rows[event["pid"]].append(event)
    return rows


def microseconds(text):
    """Of a time with three digits and its unit, or 0."""
    number, _, unit = text.partition(" ")
    return float(number) * {"": 0, "ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[unit]


class Traces(e2e.Case):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        torch.jit.script(Net()).save("net.pt")
        torch.jit.script(WithLoss()).save("loss.pt")
        torch.save((torch.randn(8, 32), torch.randn(8, 32)), "batch.pt")
        torch.save((torch.randn(2, 32), torch.randn(2, 32)), "micro.pt")

    def read(self, path):
        trace = json.loads(Path(path).read_text(encoding="utf-8"))
        rows, ranks = spans(trace), trace["otherData"]["ranks"]
        self.assertEqual(sorted(rows), list(range(2 * ranks)))
        for pid, row in rows.items():
            ends = [(event["ts"], event["ts"] + event["dur"]) for event in row]
            self.assertTrue(all(start >= 0 and end >= start for start, end in ends), pid)
        for rank in range(ranks):  # one thread: nothing overlaps but the clock's last digit
            at = 0.0
            for event in rows[rank]:
                self.assertGreaterEqual(event["ts"] + 1e-3, at, event)
                at = event["ts"] + event["dur"]
        return trace, rows, ranks

    def actions(self, rows, ranks):
        return {(event["args"]["stage"], event["args"]["micro_batch"], event["cat"]) for rank in range(ranks)
                for event in rows[rank] if event["cat"] in ACTIONS}

    def arrows(self, trace):
        ends = defaultdict(dict)
        for event in trace["traceEvents"]:
            if event["ph"] in "sf":
                ends[event["id"]][event["ph"]] = event
        return ends

    def messages(self, trace, rows, ranks):
        """The messages of the step. In both sets of rows each has a SEND, on another rank a POST and after it a TAKE, and one arrow, from SEND to TAKE."""
        arrows = {(ends["f"]["pid"], ends["f"]["name"]): ends for ends in self.arrows(trace).values()}
        self.assertEqual(len(arrows), len(self.arrows(trace)))
        sets = []
        for first in 0, ranks:
            found = defaultdict(dict)
            for pid in range(first, first + ranks):
                for event in rows[pid]:
                    word, _, message = event["name"].partition(" ")
                    if word in ("POST", "SEND", "TAKE"):
                        self.assertNotIn(word, found[message], event)
                        self.assertEqual(event["cat"], "transfer")
                        found[message][word] = event
            for message, ops in found.items():
                self.assertEqual(sorted(ops), ["POST", "SEND", "TAKE"], message)
                self.assertEqual(ops["POST"]["pid"], ops["TAKE"]["pid"])
                self.assertNotEqual(ops["SEND"]["pid"], ops["TAKE"]["pid"])
                self.assertLessEqual(ops["POST"]["ts"], ops["TAKE"]["ts"] + 1e-3)
                ends = arrows.pop((ops["TAKE"]["pid"], ops["TAKE"]["name"]))
                self.assertEqual((ends["s"]["pid"], ends["s"]["ts"]), (ops["SEND"]["pid"], ops["SEND"]["ts"]))
                self.assertAlmostEqual(ends["f"]["ts"], ops["TAKE"]["ts"] + ops["TAKE"]["dur"], delta=1e-3)
                self.assertLessEqual(ends["s"]["ts"], ends["f"]["ts"] + 1e-3)
            sets.append(sorted(found))
        self.assertEqual(arrows, {})
        self.assertEqual(*sets)
        return sets[0]

    def testEveryOpOfATrainingStepIsThere(self):
        self.compiled("loss.pt", "loss.pipe", "--train", "--stages", "4", "--inputs", "micro.pt")
        for schedule in "1f1b", "zb-h1", "interleaved-1f1b", "zb-v":
            with self.subTest(schedule):
                self.pipec(0, "pipe-run", "loss.pipe", "--train", "--inputs", "batch.pt", "--steps", "3", "--microbatches", "4",
                           "--schedule", schedule, "--optimizer", "sgd", "--trace", "trace.json", "--force")
                trace, rows, ranks = self.read("trace.json")
                self.assertEqual(trace["otherData"]["schedule"], schedule)
                split = schedule.startswith("zb")
                kinds = "FIW" if split else "FB"
                found = self.actions(rows, ranks)
                self.assertEqual({(stage, k, kind) for stage, k, kind in found if kind in kinds},
                                 {(stage, k, kind) for stage in range(4) for k in range(4) for kind in kinds})
                names = [event["name"] for rank in range(ranks) for event in rows[rank]]
                updates = [event for row in rows.values() for event in row if event["name"].startswith("OPT")]
                self.assertEqual([event["cat"] for event in updates], ["optimizer"] * 4 * 2)  # measured and predicted
                self.assertEqual(sum(name.startswith("NORM") for name in names), ranks)
                self.assertTrue(self.messages(trace, rows, ranks))

    def testAStepOfSeveralBatches(self):
        """The trace is of its last batch, and says so; the prediction is of all."""
        self.compiled("loss.pt", "several.pipe", "--train", "--stages", "2", "--inputs", "micro.pt")
        result = self.pipec(0, "pipe-run", "several.pipe", "--train", "--inputs", "batch.pt", "--steps", "3", "--microbatches", "4", "--optimizer", "sgd",
                            "--accumulate", "3", "--trace", "several.json", "--json")
        trace, rows, ranks = self.read("several.json")
        self.assertEqual(trace["otherData"]["batches"], 3)
        report, last = json.loads(result.out[result.out.index("\n{\n"):]), trace["otherData"]["predicted_step_ns"] / 1e6
        # The batches before the last one have no optimizer.
        updates = sum(event["dur"] for pid in range(ranks, 2 * ranks) for event in rows[pid] if event["name"].startswith(("OPT", "NORM"))) / 1e3
        self.assertTrue(3 * last - 2 * updates - 1e-6 <= report["predicted_step_ms"] <= 3 * last, (report["predicted_step_ms"], last, updates))
        self.pipec(0, "pipe-inspect", "several.pipe", "--html", "several.html", "--trace", "several.json")
        self.assertIn("of its 3 batches the last one, with 4 micro-batches", Path("several.html").read_text(encoding="utf-8"))

    def testAnInferenceHasATraceToo(self):
        plan = self.compiled("net.pt", "net.pipe", "--stages", "3", "--ranks", "3", "--inputs", "f32[2,32]")
        result = self.pipec(0, "pipe-run", "net.pipe", "--inputs", "f32[8,32]", "--microbatches", "4", "--repeat", "3",
                            "--trace", "infer.json", "--json")
        report = json.loads(result.out)
        trace, rows, ranks = self.read("infer.json")
        self.assertEqual(self.actions(rows, ranks), {(stage, k, "F") for stage in range(3) for k in range(4)})
        sent = [f"ch={number} mb={k}" for number, channel in enumerate(plan["channels"]) for _ in {port["stage"] for port in channel["to"]} for k in range(4)]
        self.assertEqual(sorted(message.partition(" lane=")[0] for message in self.messages(trace, rows, ranks)), sorted(sent))
        self.assertGreater(len(sent), 8, "the skip, too")
        self.assertAlmostEqual(report["predicted_step_ms"], trace["otherData"]["predicted_step_ns"] / 1e6)
        for key in "bubble_makespan", "bubble_longest_span":
            self.assertTrue(0 <= report[key]["predicted"] < 1, report[key])

    def testADynamicOrderKeepsItsLimitAndTheBits(self):
        """Micro-batches of a stage that are between F and the end of their backward: at most N, and with a large N more than the schedule has."""
        self.compiled("loss.pt", "dynamic.pipe", "--train", "--stages", "3", "--ranks", "3", "--inputs", "micro.pt")
        run = ["pipe-run", "dynamic.pipe", "--train", "--inputs", "batch.pt", "--steps", "2", "--microbatches", "8", "--schedule", "zb-h1",
               "--optimizer", "sgd", "--force"]
        self.pipec(0, *run, "--output", "static.pt")
        expected = torch.load("static.pt")
        for most in 1, 2, 100:
            result = self.pipec(0, *run, "--dynamic", most, "--output", "dynamic.pt", "--trace", "dynamic.json", "--json")
            self.assertIn(f'"dynamic":{most}', result.out.replace(" ", ""))
            actual = torch.load("dynamic.pt")
            self.assertTrue(all(torch.equal(expected[name], actual[name]) for name in expected), most)
            _, rows, ranks = self.read("dynamic.json")
            self.assertEqual(len(self.actions(rows, ranks)), 3 * 8 * 3)
            for rank in range(ranks):
                open_, highest = 0, 0
                for event in rows[rank]:
                    open_ += {"F": 1, "W": -1}.get(event["cat"], 0)
                    highest = max(highest, open_)
                self.assertTrue(1 <= highest <= min(most, 8), (rank, most, highest))

    def testADynamicInferenceHasTheSameResults(self):
        self.compiled("net.pt", "ready.pipe", "--stages", "3", "--ranks", "2", "--inputs", "f32[2,32]")
        batch = ["--inputs", "batch.inputs.pt", "--microbatches", "4", "--force"]
        torch.save((torch.load("batch.pt")[0],), "batch.inputs.pt")
        self.pipec(0, "pipe-run", "ready.pipe", *batch, "--output", "static.pt")
        for most in 1, 3:
            self.pipec(0, "pipe-run", "ready.pipe", *batch, "--dynamic", most, "--repeat", "3", "--expect", "static.pt")

    def testThePredictionIsTheSimulationOfTheMeasuredStages(self):
        """One rank: the step is the sum of what its stages took, in both rows."""
        self.compiled("net.pt", "one.pipe", "--stages", "2", "--ranks", "1", "--inputs", "f32[2,32]")
        self.pipec(0, "pipe-run", "one.pipe", "--inputs", "f32[8,32]", "--microbatches", "4", "--trace", "one.json")
        trace, rows, ranks = self.read("one.json")
        measured = [event["dur"] for event in rows[0] if event["cat"] == "F"]
        predicted = [event["dur"] for event in rows[1] if event["cat"] == "F"]
        for stage in 0, 1:
            of = [event["dur"] for event in rows[0] if event["cat"] == "F" and event["args"]["stage"] == stage]
            self.assertTrue(math.isclose(statistics.mean(of),
                                         next(e["dur"] for e in rows[1] if e["cat"] == "F" and e["args"]["stage"] == stage), abs_tol=2e-3))
        self.assertEqual(len(measured), len(predicted))
        self.assertTrue(math.isclose(sum(predicted), trace["otherData"]["predicted_step_ns"] / 1e3, abs_tol=1e-2))

    def testWholeAndSplitBackwardsOfAStageAreApart(self):
        """dualpipev runs some backwards of a stage whole and splits others: in the prediction, each action takes the mean of its kind."""
        self.compiled("loss.pt", "dual.pipe", "--train", "--stages", "4", "--inputs", "micro.pt")
        self.pipec(0, "pipe-run", "dual.pipe", "--train", "--inputs", "batch.pt", "--steps", "1", "--microbatches", "4", "--schedule", "dualpipev",
                   "--optimizer", "sgd", "--trace", "dual.json")
        _, rows, ranks = self.read("dual.json")
        measured, predicted = defaultdict(list), defaultdict(set)
        for pid, row in rows.items():
            for event in row:
                if event["cat"] in ACTIONS:
                    key = event["args"]["stage"], event["cat"]
                    (measured[key].append if pid < ranks else predicted[key].add)(event["dur"])
        kinds = {stage: {kind for of, kind in measured if of == stage} for stage in range(4)}
        self.assertTrue(any({"B", "I", "W"} <= of for of in kinds.values()), kinds)
        self.assertEqual(set(measured), set(predicted))
        for key, times in measured.items():
            mean = statistics.mean(times)
            for time in predicted[key]:
                self.assertTrue(math.isclose(time, mean, abs_tol=2e-3), (key, time, mean))

    def testThePageShowsBothSteps(self):
        self.compiled("loss.pt", "page.pipe", "--train", "--stages", "2", "--inputs", "micro.pt")
        self.pipec(0, "pipe-run", "page.pipe", "--train", "--inputs", "batch.pt", "--microbatches", "4", "--trace", "page.json")
        self.pipec(0, "pipe-inspect", "page.pipe", "--html", "without.html")
        self.pipec(0, "pipe-inspect", "page.pipe", "--html", "with.html", "--trace", "page.json")
        without, shown = (Path(name).read_text(encoding="utf-8") for name in ("without.html", "with.html"))
        self.assertNotIn("A measured step", without)
        self.assertIn("A measured step", shown)
        self.assertEqual(shown.count("<svg"), without.count("<svg") + 2)
        self.drawn("page.json", shown)

    def testThePageShowsAnInference(self):
        self.compiled("net.pt", "seen.pipe", "--stages", "3", "--ranks", "3", "--inputs", "f32[2,32]")
        self.pipec(0, "pipe-run", "seen.pipe", "--inputs", "f32[8,32]", "--microbatches", "4", "--trace", "seen.json")
        self.pipec(0, "pipe-inspect", "seen.pipe", "--html", "seen.html", "--trace", "seen.json")
        page = Path("seen.html").read_text(encoding="utf-8")
        self.assertRegex(page, r"The last step of a run under [\w-]+ with 4 micro-batches: ")
        self.drawn("seen.json", page)

    def drawn(self, path, page):
        """The page has the times of the trace: of both steps all actions, the last of which ends when the text says, and how long ranks are idle."""
        trace, rows, ranks = self.read(path)
        section = page[page.index('<section id="measured">'):]
        section = section[:section.index("</section>")]
        said = [re.search(pattern, section)[1] for pattern in (r": ([\d.]+ \w+) from its first action to its last\.", r"with the times of its stages: ([\d.]+ \w+)\.")]
        pictures = re.findall(r"<svg.*?</svg>", section, re.DOTALL)
        self.assertEqual(len(pictures), 2)
        for first, text, picture in zip((0, ranks), said, pictures):
            actions = [[event for event in rows[pid] if event["cat"] in ACTIONS] for pid in range(first, first + ranks)]
            makespan = max(event["ts"] + event["dur"] for row in actions for event in row)
            self.assertTrue(math.isclose(microseconds(text), makespan, rel_tol=0.006), (text, makespan))
            boxes = {name: (start, end) for name, start, end in re.findall(r"<title>(\w+): (.*?) to (.*?)</title>", picture)}
            named = {f"{event['args']['stage']}{event['cat']}{event['args']['micro_batch']}": event for row in actions for event in row}
            self.assertEqual(set(boxes), set(named))
            for name, times in boxes.items():
                for shown, exact in zip(times, (named[name]["ts"], named[name]["ts"] + named[name]["dur"])):
                    self.assertTrue(math.isclose(microseconds(shown), exact, rel_tol=0.006, abs_tol=2e-3), (name, shown, exact))
            self.assertEqual(max((end for _, end in boxes.values()), key=microseconds), text)
            idle = [float(part) for part in re.findall(r">idle ([\d.]+) %<", picture)]
            for row, part in zip(actions, idle, strict=True):
                self.assertAlmostEqual(part, 100 - 100 * sum(event["dur"] for event in row) / makespan, delta=0.1)

    def testATrainingArtifactHasItsScheduleDrawn(self):
        plan = self.compiled("loss.pt", "drawn.pipe", "--train", "--stages", "2", "--inputs", "micro.pt", "--schedule", "1f1b",
                             "--microbatches", "4")
        self.assertEqual(len(plan["training"]["costs"]), 2)
        self.assertTrue(all(stage["forward_ns"] > 0 and stage["weight_grad_ns"] > 0 for stage in plan["training"]["costs"]))
        drawn = self.pipec(0, "pipe-inspect", "drawn.pipe", "--schedule").out
        for text in "rank 0", "rank 1", "predicted from", "lower bound":
            self.assertIn(text, drawn)

    def traceOf(self, artifact):
        self.pipec(0, "pipe-run", artifact, "--inputs", "f32[8,32]", "--trace", "other.json", "--force")
        return "other.json"

    def testRefusals(self):
        self.compiled("net.pt", "refused.pipe", "--stages", "2", "--inputs", "f32[2,32]")
        run = ["pipe-run", "refused.pipe", "--inputs", "f32[8,32]"]
        self.refused(USAGE, "--trace: expected an artifact, got a .pt", "pipe-run", "net.pt", "--inputs", "f32[8,32]", "--trace", "x.json")
        self.refused(USAGE, "--dynamic: expected an artifact, got a .pt", "pipe-run", "net.pt", "--inputs", "f32[8,32]", "--dynamic", "2")
        self.refused(USAGE, "--dynamic: expected at least 1, got 0", *run, "--dynamic", "0")
        Path("there.json").write_text("{}", encoding="utf-8")
        self.refused(USAGE, ["--trace: expected a new file, got there.json, which exists", "pass --force to replace it"], *run, "--trace", "there.json")
        self.refused(USAGE, "--trace: expected --html with it, got none", "pipe-inspect", "refused.pipe", "--trace", "there.json")
        page = ["pipe-inspect", "refused.pipe", "--html", "x.html", "--trace"]
        self.refused(UNREADABLE, "expected a trace that pipe-run wrote", *page, "there.json")
        self.refused(8, "--trace", *page, "absent.json")
        self.compiled("net.pt", "more.pipe", "--stages", "4", "--ranks", "4", "--inputs", "f32[2,32]")
        self.pipec(0, "pipe-run", "more.pipe", "--inputs", "f32[8,32]", "--trace", "more.json")
        self.refused(USAGE, "expected a trace of at most 2 ranks, got 4", *page, "more.json")
        self.compiled("net.pt", "fewer.pipe", "--stages", "4", "--ranks", "1", "--inputs", "f32[2,32]")
        self.refused(USAGE, ["expected a trace of 4 stages, got one of 2", "pass a trace that pipe-run wrote for this artifact"], "pipe-inspect", "fewer.pipe",
                     "--html", "x.html", "--trace", self.traceOf("refused.pipe"))
        self.compiled("loss.pt", "trained.pipe", "--train", "--stages", "2", "--inputs", "micro.pt")
        self.refused(USAGE, "expected a trace with backwards, got one without", "pipe-inspect", "trained.pipe", "--html", "x.html", "--trace",
                     self.traceOf("refused.pipe"))
        text = Path("more.json").read_text(encoding="utf-8")
        Path("bad.json").write_text(text.replace('"dur":', '"dur":-', 1).replace('"ranks":4', '"ranks":2'), encoding="utf-8")
        self.assertIn(e2e.run(*page, "bad.json").code, (USAGE, UNREADABLE))
        self.assertFalse(Path("x.html").exists())


if __name__ == "__main__":
    e2e.main()
