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
        return json.loads(done.out) if done.out else None

    def cluster(self, name, devices, **link):
        links = [{"between": ["*", "*"], **link}]
        Path(name).write_text(json.dumps({"schema_version": 1, "devices": [{"name": f"cpu:{d}", "kind": "cpu"} for d in range(devices)], "links": links}))
        return name

    def testProgramsAndTablesAgree(self):
        """Where nothing but a latency counts, and lanes are wide enough: to the nanosecond, memory included. Orders that were made for these
        very costs may wait a little for a full lane."""
        made = {row["name"] for row in json.loads(e2e.run("pipe-schedule", "--list", "--json").out)["schedules"] if row["looks_at_costs"]}
        cluster = self.cluster("latency.json", RANKS, latency_ns=50_000, bytes_per_second=1)
        for name in self.names:
            table = self.document(name, *SHAPE, "--costs", "f=1.5,i=2,w=1,comm=0.05,mem=64MiB")
            program = self.document(name, *SHAPE, "--costs", "f=1.5,i=2,w=1,mem=64MiB", "--cluster", cluster)
            self.assertEqual(program["options"]["cluster"], cluster)
            for key in ("makespan_ms", "longest_span_ms", "bubble_makespan", "bubble_longest_span", "peak_memory"):
                if name not in made:
                    self.assertEqual(table[key], program[key], (name, key))
            self.assertLess(program["makespan_ms"], table["makespan_ms"] * 1.01, name)

    def testOneBound(self):
        """`all` and `auto` measure every schedule against the same bound, and say which."""
        for shape, costs in ((SHAPE, COSTS), (["--ranks", 3, "--stages", 6, "--microbatches", 5], "f=1,i=1,w=1"),
                             (["--ranks", 8, "--microbatches", 32], "f=14.5,i=15.6,w=9.3,comm=0.3")):
            with self.subTest(shape=shape):
                bounds = {row["search_lower_bound_ms"] for row in self.document("all", *shape, "--costs", costs)["schedules"] if row["makespan_ms"]}
                best = self.document("auto", *shape, "--costs", costs)
                self.assertEqual(bounds, {best["search_lower_bound_ms"]})
                lines = [re.findall(r"(?m)^above bound: .*$", e2e.run("pipe-schedule", which, *shape, "--costs", costs).out) for which in ("all", "auto")]
                self.assertEqual(len(lines[0]), 1, lines)
                self.assertEqual(*lines)
                for row in self.document("all", *shape, "--costs", costs)["schedules"]:
                    if row["makespan_ms"]:
                        self.assertGreaterEqual(row["makespan_ms"], row["search_lower_bound_ms"], row["name"])

    def testTimesAreShownAsTheyWereTyped(self):
        for text in (".2", "1.2.3", "fast", "", "-1", "nan", "inf", "1e308", "1001s", "99999999999999"):
            self.refused(2, f'--costs: f: expected a time from 0 to 1000 s, such as 0.2 or 1.5ms, got "{text}"\n', "pipe-schedule", "1f1b", "--costs", f"f={text},i=1,w=1")
        for text in ("-1", "1e9", "2000TiB", "much"):
            self.refused(2, f'--costs: mem: expected a size from 0 to 1024 TiB, such as 64MiB, got "{text}"\n', "pipe-schedule", "1f1b", "--costs", f"mem={text}")

    def testComparisonsOfSearchesAreLimited(self):
        """Before any work: they would take minutes."""
        self.refused(2, ["--microbatches: expected at most 5357 for 4 stages and 14 schedules, got 100000", "help: compare schedules that no search makes"],
                     "pipe-schedule", "all", "--ranks", 4, "--microbatches", 100000)
        self.pipec(0, "pipe-schedule", "1f1b,zb-h1", "--ranks", 4, "--microbatches", 20000)

    def testHugeNumbersAreRefused(self):
        """By every schedule, with what is possible: a table of that size takes minutes."""
        for name in self.names:
            self.refused(2, "--ranks: expected 1 to 4096, got 1048576", "pipe-schedule", name, "--ranks", 1048576)
            self.refused(2, ["--microbatches: expected at most ", ", got 1048576\n", "help: pass fewer micro-batches"], "pipe-schedule", name, "--ranks", 16, "--microbatches", 1048576)
        self.refused(2, "--microbatches: expected at most 9 for 1048576 stages, got 10", "pipe-schedule", "gpipe", "--ranks", 4096, "--stages", 1048576, "--microbatches", 10)
        self.refused(2, "--microbatches: expected at most 36 for 8192 stages, got 8192, two per rank", "pipe-schedule", "v-half", "--ranks", 4096)
        self.refused(2, ["--stages: expected at most 1000000, got 1048576", "help: "], "pipe-schedule", "auto", "--stages", 1048576)
        for name in ("1f1b", "interleaved-1f1b"):  # ranks follow from the stages
            self.refused(2, ["--microbatches: expected at most 50 for 200000 stages, got ", ", two per rank"], "pipe-schedule", name, "--stages", 200000)
        self.pipec(0, "pipe-schedule", "looped-bfs", "--ranks", 4096, "--microbatches", 8)

    def testWhatHelpsWithMemory(self):
        """Costs per rank do not shrink with more ranks; stages of a model spread over them."""
        perRank = self.refused(12, "no schedule fits", "pipe-schedule", "auto", "--ranks", 2, "--costs", "f=1,i=1,w=1,mem=1GiB", "--memory-limit", "1MiB")
        self.assertNotIn("more ranks need less", perRank.err)
        self.assertIn("for any number of ranks", perRank.err)
        least = lambda ranks: self.refused(12, "expected at least", "pipe-schedule", "auto", "--ranks", ranks, "--costs", "f=1,i=1,w=1,mem=1GiB",
                                           "--memory-limit", "1MiB").err.split("expected at least ")[1].split(" per rank")[0]
        self.assertEqual(least(2), least(8))
        stage = {"forward_ns": 1000, "input_grad_ns": 1000, "weight_grad_ns": 1000, "held_bytes": 1 << 20}
        Path("stages.json").write_text(json.dumps({"schema_version": 1, "stages": [stage] * 4}))
        spread = ["pipe-schedule", "auto", "--costs", "stages.json", "--memory-limit", "100kB", "--ranks"]
        self.assertIn("raise --ranks, so that each rank has fewer stages", self.refused(12, "no schedule fits", *spread, 2).err)
        self.assertNotIn("more ranks", self.refused(12, "no schedule fits", *spread, 4).err)

    def testNarrowActionsShowTheirKind(self):
        """Where a name has no room, kind and micro-batch or the kind alone stand for it, and a line says so."""
        narrow = e2e.run("pipe-schedule", "1f1b", "--ranks", 2, "--microbatches", 60, "--costs", "f=1,i=1,w=30").out
        self.assertIn("F3, F: names shortened to fit", narrow)
        self.assertIn("--svg", narrow)
        rows = [line.split(None, 2)[2] for line in narrow.splitlines() if line.startswith("  rank ") and not line.startswith("  rank  ")]
        for row in rows:
            self.assertNotRegex(row, r"(^|[ .])=", narrow)  # no box without a letter
        wide = e2e.run("pipe-schedule", "1f1b", "--ranks", 2, "--microbatches", 2).out
        self.assertNotIn("does not fit", wide)

    def testBytesTakeTime(self):
        """A chain of two: F 1 ms, 10 MB at 10 GB/s 1 ms, and back; the lower bound knows it."""
        costs = "f=1,i=1,w=1,mem=1GB"
        document = self.document("gpipe", "--ranks", 2, "--microbatches", 1, "--costs", costs + ",bytes=10MB,rate=10GB")
        self.assertEqual(document["makespan_ms"], 1 + 1 + 1 + 2 + 1 + 2)
        # Rank 0 also has the buffer that it posted for the gradient.
        self.assertEqual(document["peak_memory"], [1_020_000_000, 1_010_000_000])
        document = self.document("gpipe", "--ranks", 2, "--microbatches", 1, "--costs", costs + ",bytes=10MB,rate=10GB,comm=0.5,opt=3")
        self.assertEqual(document["makespan_ms"], 8 + 2 * 0.5 + 3)
        self.assertGreaterEqual(document["makespan_ms"], document["lower_bound_ms"])

    def testSharedLinksAndDevices(self):
        costs = ["--costs", "f=1,i=1,w=1,mem=1GB,bytes=10MB"]
        shape = ["1f1b", "--ranks", 4, "--microbatches", 8]
        own = self.document(*shape, *costs, "--cluster", self.cluster("own.json", 4, latency_ns=0, bytes_per_second=10**10))
        shared = self.document(*shape, *costs, "--cluster", self.cluster("shared.json", 4, latency_ns=0, bytes_per_second=10**10, shared=True))
        turns = self.document(*shape, *costs, "--cluster", self.cluster("turns.json", 2, latency_ns=0, bytes_per_second=10**10))
        self.assertGreater(shared["makespan_ms"], own["makespan_ms"])
        self.assertGreaterEqual(shared["lower_bound_ms"], 8 * 2 * 3)  # 8 micro-batches, there and back, over 3 gaps, 1 ms each
        self.assertGreaterEqual(turns["makespan_ms"], 2 * 8 * 3)  # two ranks' work on one device
        for document in (own, shared, turns):
            self.assertLessEqual(document["lower_bound_ms"], document["makespan_ms"])

    def testTheBestOfAllIsPricedAsEachOne(self):
        """`auto` looks for the shortest step of the very simulation that its result shows: with bytes, links, the optimizer, a cluster."""
        cluster = self.cluster("best.json", 2, latency_ns=1000, bytes_per_second=10**10, shared=True)
        whole = "f=1,i=1,w=1"
        for costs in (["--costs", whole + ",opt=5"], ["--costs", whole + ",mem=1GB,bytes=100MB,rate=100GB"],
                      ["--costs", whole + ",mem=1GB,bytes=10MB,comm=0.1,rate=10GB", "--memory-limit", "5GB"],
                      ["--costs", whole + ",mem=1GB,bytes=1MB", "--cluster", cluster]):
            best = self.document("auto", *SHAPE, *costs)
            self.assertTrue(best["valid"], costs)
            self.assertEqual(best["candidates"][0]["step_ms"], best["makespan_ms"], costs)
            self.assertLessEqual(best["search_lower_bound_ms"], best["makespan_ms"])
            for name in ("1f1b", "zb-h1", "gpipe"):
                one = json.loads(e2e.run("pipe-schedule", name, *SHAPE, *costs, "--json").out)
                if one["valid"]:
                    self.assertLessEqual(best["makespan_ms"], one["makespan_ms"], (name, costs))
        none = self.document("auto", *SHAPE, "--costs", whole + ",mem=1GB,bytes=1GB,rate=100GB", "--memory-limit", "5GB", code=12)
        self.assertIs(none["valid"], False)
        self.assertIn("expected at least", none["why"])
        full = self.document("auto", *SHAPE, "--costs", whole + ",comm=5")  # lanes fill up: a table does not know
        self.assertEqual(full["candidates"][0]["step_ms"], full["makespan_ms"])

    def testAutoMarksOnlyWhatFits(self):
        costs = ["--costs", "f=8,i=8,w=8,mem=1GiB,bytes=100MiB,rate=100GB", "--memory-limit", "5100273664B"]
        fixed = [name for name in self.names if name not in ("zb-auto", "zb-v-auto", "v-half", "v-min")]  # these choose by the limit
        for row in self.document("auto", "--ranks", 4, "--microbatches", 8, *costs)["candidates"]:
            if row["valid"] and row["schedule"] in fixed:
                one = self.document(row["schedule"], "--ranks", 4, "--stages", row["stages"], "--microbatches", 8, *costs)
                self.assertIs(one["valid"], True, row)

    def testTimesThatNobodyHasAreRefused(self):
        done = e2e.run("pipe-schedule", "1f1b", "--costs", "f=9000000000s")
        self.assertEqual(done.code, 2)
        self.assertIn('--costs: f: expected a time from 0 to 1000 s, such as 0.2 or 1.5ms, got "9000000000s"', done.err)

    def testCostsOfAFile(self):
        """The same numbers in a file."""
        stage = {"forward_ns": 1_000_000, "input_grad_ns": 1_000_000, "weight_grad_ns": 1_000_000, "held_bytes": 10**9, "value_bytes": 10**7,
                 "optimizer_ns": 3_000_000}
        Path("bytes.json").write_text(json.dumps({"schema_version": 1, "stages": [stage] * 4, "latency_ns": 500_000, "bytes_per_second": 10**10}))
        for name in ("gpipe", "1f1b", "zb-h1"):
            texts = self.document(name, *SHAPE, "--costs", "f=1,i=1,w=1,mem=1GB,bytes=10MB,rate=10GB,comm=0.5,opt=3")
            file = self.document(name, *SHAPE, "--costs", "bytes.json")
            self.assertEqual({key: texts[key] for key in KEYS - {"options"}}, {key: file[key] for key in KEYS - {"options"}})

    def testWhatWaitsForW(self):
        """From I to W a stage may hold more than from F to I, and schedules with a limit leave room for it."""
        stage = {"forward_ns": 1000, "input_grad_ns": 1000, "weight_grad_ns": 1000, "held_bytes": 1000, "pending_bytes": 3000}
        Path("pending.json").write_text(json.dumps({"schema_version": 1, "stages": [stage]}))
        Path("split.csv").write_text("0F0,0F1,0I0,0I1,0W0,0W1\n")
        Path("whole.csv").write_text("0F0,0F1,0B0,0B1\n")
        for extra in ([], ["--cluster", self.cluster("one", 1, bytes_per_second=10**9, latency_ns=0)]):
            self.assertEqual(self.document("split.csv", "--costs", "pending.json", *extra)["peak_memory"], [6000])
            self.assertEqual(self.document("whole.csv", "--costs", "pending.json", *extra)["peak_memory"], [2000])
        Path("pending.json").write_text(json.dumps({"schema_version": 1, "stages": [stage] * 2}))
        for limit in (3000, 5000, 8000):
            peaks = self.document("zb-auto", "--ranks", 2, "--microbatches", 6, "--costs", "pending.json", "--memory-limit", f"{limit}B")["peak_memory"]
            self.assertEqual([peak for peak in peaks if not 3000 <= peak <= limit], [], limit)
        none = self.document("zb-auto", "--ranks", 2, "--costs", "pending.json", "--memory-limit", "2999B", code=12)
        self.assertIn("the least found needs", none["why"])
        stage["freed_by_input_grad_bytes"] = 0
        Path("both.json").write_text(json.dumps({"schema_version": 1, "stages": [stage]}))
        self.refused(2, "stages[0].pending_bytes: expected it without freed_by_input_grad_bytes, got both", "pipe-schedule", "split.csv", "--costs", "both.json")

    def testAnEmptyName(self):
        self.refused(2, ['NAME|FILE: expected something on both sides of each comma, got "1f1b,"', "help: pass 1f1b"], "pipe-schedule", "1f1b,", "--ranks", 2)

    def testPrograms(self):
        for name in self.names:
            self.document(name, *SHAPE, "--program", "program.txt", "--force")
            text = Path("program.txt").read_text()
            self.assertTrue(text.startswith(f"program ranks={RANKS}\n"), name)
            count = {op: len(re.findall(rf"^  {op} ", text, re.MULTILINE)) for op in ("F", "POST", "SEND", "TAKE", "OPT")}
            self.assertEqual(count["F"] % MICRO_BATCHES, 0)
            self.assertEqual((count["SEND"], count["SEND"]), (count["TAKE"], count["POST"]))
            self.assertEqual(count["OPT"], 0)
            read = self.document("program.txt")
            self.assertEqual((read["valid"], pieces(read["actions"])), (True, pieces(self.document(name, *SHAPE)["actions"])), name)

    def testProgramsByHand(self):
        self.document("1f1b", *SHAPE, "--program", "hand.txt", "--force")
        lines = Path("hand.txt").read_text().split("\n")
        take = next(i for i, line in enumerate(lines) if line.startswith("  TAKE "))
        Path("hand.txt").write_text("\n".join(lines[:take] + lines[take + 1:]))
        done = e2e.run("pipe-schedule", "hand.txt")
        self.assertEqual(done.code, 5, done)
        Path("hand.txt").write_text("# by hand\nprogram ranks=two\n")
        self.assertEqual(e2e.run("pipe-schedule", "hand.txt").code, 3)

    def testTablesWithSendsAndReceives(self):
        for name in self.names:
            self.document(name, *SHAPE, "--comms", "comms.csv", "--force")
            text = Path("comms.csv").read_text()
            count = {word: len(re.findall(rf"\d{word}\d", text)) for word in ("SEND_F", "RECV_F", "SEND_B", "RECV_B")}
            self.assertGreater(count["SEND_F"], 0, name)
            self.assertEqual((count["SEND_F"], count["SEND_B"]), (count["RECV_F"], count["RECV_B"]), name)
            self.document("comms.csv")
        Path("skip.json").write_text(json.dumps({"schema_version": 1, "stages": [{"forward_ns": 1}] * 3, "skips": [[0, 2]]}))
        done = e2e.run("pipe-schedule", "1f1b", "--ranks", 3, "--costs", "skip.json", "--comms", "never.csv")
        self.assertEqual((done.code, Path("never.csv").exists()), (2, False), done)
        self.assertIn("--comms: program: channel 2 (c2) goes from stage 0 to stage 2: PyTorch sends to the next stage only", done.err)

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

    def testTextMayBeginWithAByteOrderMark(self):
        mark = b"\xef\xbb\xbf"
        Path("marked.csv").write_bytes(mark + b"0F0,0B0\n1F0,1B0\n")
        Path("plain.csv").write_bytes(b"0F0,0B0\n1F0,1B0\n")
        stage = {"forward_ns": 1_000_000, "input_grad_ns": 1_000_000, "weight_grad_ns": 1_000_000}
        Path("marked.json").write_bytes(mark + json.dumps({"schema_version": 1, "stages": [stage] * 2}).encode())
        marked, plain = (self.document(f"{name}.csv", "--costs", "marked.json") for name in ("marked", "plain"))
        self.assertEqual({key: marked[key] for key in KEYS - {"options"}}, {key: plain[key] for key in KEYS - {"options"}})
        Path("marked.csv").write_bytes(mark + mark + b"0F0,0B0\n1F0,1B0\n")  # one mark, and no more
        self.document("marked.csv", code=3)

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
        for text in ("0F0,0B0,0F9223372036854775807", "0F0,0B0,9223372036854775807F0", "0F0,0B0,99999999999999999999F0", "0F0,0B0,0RECV_B9223372036854775807"):
            Path("large.csv").write_text(text + "\n")
            document = self.document("large.csv", code=3)
            self.assertEqual(document["why"], f'schedule: line 1, column 3: action "{text.split(",")[2]}": expected a stage and a micro-batch below 1048576')

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
