"""pipe-schedule: what its documents, pictures, traces and tables say agrees with each other, for every schedule there is."""
import json
import re
import xml.etree.ElementTree as xml
from pathlib import Path

import e2e

KEYS = {"schema_version", "options", "makespan_ms", "longest_span_ms", "bubble_makespan", "bubble_longest_span", "peak_memory", "lower_bound_ms",
        "actions", "valid", "why"}
RANKS, MICRO_BATCHES = 4, 8
SHAPE = ["--ranks", RANKS, "--microbatches", MICRO_BATCHES]
COSTS = "f=1.5,i=2,w=1,comm=0.25"


def pieces(actions):
    """Every action of every rank; a pair is two."""
    return [piece for row in actions for cell in row for piece in re.findall(r"\d+[FBIWR]\d+", cell)]


class Schedules(e2e.Case):
    @classmethod
    def setUpClass(cls):
        cls.names = [row["name"] for row in json.loads(e2e.run("pipe-schedule", "--list", "--json").out)["schedules"]]
        assert len(cls.names) >= 15, cls.names

    def document(self, *arguments, code=0):
        done = e2e.run("pipe-schedule", *arguments, "--json")
        self.assertEqual(done.code, code, done)
        return json.loads(done.out)

    def testDocuments(self):
        for name in self.names:
            document = self.document(name, *SHAPE, "--costs", COSTS)
            self.assertEqual(set(document), KEYS, name)
            self.assertIs(document["valid"], True)
            self.assertEqual(document["why"], "")
            self.assertEqual((len(document["actions"]), len(document["peak_memory"])), (RANKS, RANKS))
            self.assertGreaterEqual(document["makespan_ms"] + 1e-9, document["lower_bound_ms"])
            work = MICRO_BATCHES * (1.5 if name == "forward-only" else 4.5)
            for span, bubble in (("makespan_ms", "bubble_makespan"), ("longest_span_ms", "bubble_longest_span")):
                self.assertAlmostEqual(document[bubble], 1 - work / document[span], places=9, msg=name)
            found = pieces(document["actions"])
            self.assertEqual(len(found), len(set(found)), name)

    def testTablesRoundTrip(self):
        for name in self.names:
            made = self.document(name, *SHAPE, "--costs", COSTS, "--csv", f"{name}.csv", "--force")
            read = self.document(f"{name}.csv", "--costs", COSTS, "--csv", "again.csv", "--force")
            self.assertEqual(Path(f"{name}.csv").read_bytes(), Path("again.csv").read_bytes(), name)
            for key in KEYS - {"options"}:
                self.assertEqual(made[key], read[key], f"{name}: {key}")

    def testPictures(self):
        for name in self.names:
            document = self.document(name, *SHAPE, "--svg", "picture.svg", "--force")
            picture = xml.parse("picture.svg").getroot()
            boxes = [box.text.split(":")[0] for box in picture.iter("{http://www.w3.org/2000/svg}title")]
            self.assertEqual(sorted(boxes), sorted(pieces(document["actions"])), name)
            first = Path("picture.svg").read_bytes()
            self.document(name, *SHAPE, "--svg", "picture.svg", "--force")
            self.assertEqual(first, Path("picture.svg").read_bytes(), "same schedule, same bytes")

    def testTraces(self):
        for name in self.names:
            document = self.document(name, *SHAPE, "--costs", COSTS, "--trace", "trace.json", "--force")
            events = json.loads(Path("trace.json").read_text())["traceEvents"]
            spans = [event for event in events if event["ph"] == "X"]
            self.assertEqual(len(spans), len(pieces(document["actions"])), name)
            self.assertAlmostEqual(max(span["ts"] + span["dur"] for span in spans), document["makespan_ms"] * 1000, places=3)
            starts = {event["id"]: event for event in events if event["ph"] == "s"}
            ends = {event["id"]: event for event in events if event["ph"] == "f"}
            self.assertEqual(set(starts), set(ends))
            self.assertTrue(starts)
            for number, start in starts.items():
                self.assertNotEqual(start["pid"], ends[number]["pid"])
                self.assertGreaterEqual(ends[number]["ts"], start["ts"] + 249.999)  # the latency
            if name != "forward-only":
                held = {}
                for event in events:
                    if event["ph"] == "C":
                        held.setdefault(event["pid"], []).append(event["args"]["held"])
                self.assertEqual([values[-1] for values in held.values()], [0] * RANKS, "what was held is given back")

    def testInvalid(self):
        Path("bad.csv").write_text("0F0,0W0,0I0\n1F0,1I0,1W0\n")
        document = self.document("bad.csv", "--svg", "never.svg", code=5)
        self.assertEqual(set(document), KEYS)
        self.assertIs(document["valid"], False)
        self.assertIn("0W0", document["why"])
        self.assertIsNone(document["makespan_ms"])
        self.assertEqual(document["actions"], [["0F0", "0W0", "0I0"], ["1F0", "1I0", "1W0"]])
        self.assertFalse(Path("never.svg").exists())
        Path("no-table.csv").write_text("stage,time\n")
        document = self.document("no-table.csv", code=3)
        self.assertIs(document["valid"], False)
        self.assertIn("line 1, column 1", document["why"])

    def testNothingIsOverwritten(self):
        Path("mine.svg").write_text("mine")
        done = e2e.run("pipe-schedule", "1f1b", "--svg", "mine.svg")
        self.assertEqual(done.code, 2, done)
        self.assertIn("--force", done.err)
        self.assertEqual(Path("mine.svg").read_text(), "mine")

    def testStartsWithoutLibTorch(self):
        libraries = e2e.run("pipe-schedule", env={"LD_TRACE_LOADED_OBJECTS": "1"}).out
        self.assertIn("libc.so", libraries)
        self.assertNotIn("torch", libraries)


if __name__ == "__main__":
    e2e.main()
