"""train_grid.py: trainings under every schedule give the losses, the gradients and the weights of the unsplit model.

    train_grid.py                  pairs of schedules, stages, micro-batches, recompute and order, each at least once per model
    train_grid.py --all [MODEL...] every combination in the schedule's order, and those of the first line in another order
    train_grid.py --table FILE     also writes a row per combination into FILE; rows of other models stay there
    train_grid.py --device DEVICE  with "test" or "test:any" of a test build, the order of streams is checked, too; needs a GPU: "cuda"

Each cell trains two steps with momentum and compares the losses, the gradients of the last step and all weights and buffers with
`pipe-run MODEL.pt --train`. Schedules are those of `pipe-schedule --list`. Every model has dropout. Bits must be equal; where a weight is tied over
stages, its sum is made in another order, and everything may differ by a relative L2 of 1e-6, also after two steps.
"""
import csv
import functools
import itertools
import json
import queue
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import e2e
from fork_server import ForkServer

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

STAGES = [1, 2, 3, 4, 8]
MICRO_BATCHES = [1, 2, 3, 5, 8]  # of 10 samples: even and uneven
RECOMPUTE = ["never", "always"]
ORDERS = [0, 1, 3]  # 0: the schedule's; else --dynamic N
STEPS = 2
OPTIMIZER = ["--steps", STEPS, "--optimizer", "sgd,lr=0.1,momentum=0.9"]
TOLERANCE = 1e-6
DROP = 0.1
HEADER = ["model", "stages", "recompute", "schedule", "micro_batches", "dynamic", "outcome"]


@functools.lru_cache(maxsize=None)
def schedules():
    """Those of trainings by name, in the order of the list."""
    rows = json.loads(e2e.run("pipe-schedule", "--list", "--json").out)["schedules"]
    return {row["name"]: row for row in rows if row["name"] != "forward-only"}


def fits(schedule, stages, micro):
    """As many stages and micro-batches as the schedule accepts."""
    row = schedules()[schedule]
    if row["placement"] == "v":
        return stages % 2 == 0 and not (schedule == "dualpipev" and micro < stages)
    return stages >= row["least_stages_per_rank"]


def cells(name, everything):
    """Combinations of (model, stages, recompute, schedule, micro-batches, order); without `everything` so many that each pair of values comes once."""
    every = [cell for cell in itertools.product([name], STAGES, RECOMPUTE, schedules(), MICRO_BATCHES, ORDERS) if fits(cell[3], cell[1], cell[4])]
    shuffled = random.Random(name).sample(every, len(every))
    rows, wanted = [], {pair for cell in every for pair in pairs(cell)}
    while wanted:
        best = max(shuffled, key=lambda cell: sum(pair in wanted for pair in pairs(cell)))
        rows.append(best)
        wanted -= set(pairs(best))
    return [cell for cell in every if not cell[5] or cell in rows] if everything else rows


def pairs(cell):
    return [(i, j, cell[i], cell[j]) for i, j in itertools.combinations(range(1, len(cell)), 2)]


def compare(expected, actual, keys):
    """None: equal bits; otherwise the largest relative L2 distance and its key."""
    worst = None
    for key in keys:
        a, b = expected[key], actual[key]
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf"), key
        if torch.equal(a, b):
            continue
        a, b = a.double(), b.double()
        worst = max(worst or (0.0, ""), (((a - b).norm() / (a.norm() + 1e-30)).item(), key))
    return worst


def losses(done):
    """Of each step, from the JSON that a run printed."""
    return json.loads("\n".join(done.out.splitlines()[STEPS:]))["loss"]


def areSameLosses(expected, actual, tolerance):
    return len(actual) == STEPS and all(a == b or abs(a - b) <= tolerance * abs(a) for a, b in zip(expected, actual, strict=True))


def summary(rows):
    """What the documentation says of a grid or a table of one."""
    outcomes = [row[-1] for row in rows]
    equal, wrong = outcomes.count("equal"), sum(outcome.startswith("wrong") for outcome in outcomes)
    worst = max((float(outcome.removeprefix("tied: ")) for outcome in outcomes if outcome.startswith("tied: ")), default=0)
    return f"{len(rows)} cells: {equal} with equal bits, {len(rows) - equal - wrong} within {worst:.2g} for tied weights, {wrong} wrong"


def intoTable(path, rows):
    """Replaces the rows of these models in a table, or makes one; returns all of its rows."""
    kept = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            kept = [row for row in csv.reader(file) if row != HEADER and row[0] not in {new[0] for new in rows}]
    rows = sorted(kept + rows, key=lambda row: list(training_models.MODELS).index(row[0]))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    return rows


class TrainGrid(e2e.Case):
    def test_grid(self):
        arguments = list(e2e.NAMES)
        file = arguments.pop(arguments.index("--table") + 1) if "--table" in arguments else None
        self.device = arguments.pop(arguments.index("--device") + 1) if "--device" in arguments else "cpu"
        names = [name for name in arguments if not name.startswith("--")] or list(training_models.MODELS)
        self.runners, self.compilers = queue.SimpleQueue(), queue.SimpleQueue()
        for _ in range(2):
            for servers, tool in ((self.runners, "pipe-run"), (self.compilers, "pipe-compile")):
                server = ForkServer(tool)
                self.addCleanup(server.close)
                servers.put(server)
        rows = []
        for name in names:
            self.model, self.batch = training_models.save(name, drop=DROP)
            self.losses = {}  # of the unsplit model by micro-batches
            these = cells(name, "--all" in arguments)
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(self.compile, sorted({row[:3] for row in these})))
                list(pool.map(self.reference, MICRO_BATCHES))
                found = list(pool.map(self.one, these))
            these = [[*row, outcome] for row, outcome in zip(these, found)]
            print(f"{name}: {summary(these)}", file=sys.stderr, flush=True)
            rows += these
            if file:
                print(f"table: {summary(intoTable(Path('..') / file, these))}", file=sys.stderr, flush=True)
        print(summary(rows), file=sys.stderr)
        wrong = [row for row in rows if row[-1].startswith("wrong")]
        self.assertFalse(wrong, "\n".join(map(str, wrong)))

    def served(self, servers, *arguments):
        server = servers.get()
        try:
            return server.run(*arguments)
        finally:
            servers.put(server)

    def compile(self, row):
        name, stages, recompute = row
        done = self.served(self.compilers, self.model, "--train", "--stages", stages, "--inputs", self.batch, "--cost", "analytic", "--schedule", "1f1b",
                           "--recompute", recompute, "-o", f"{name}.{stages}.{recompute}.pipe", "--force")
        self.assertEqual(done.code, 0, f"{row}: {done.err}")

    def train(self, what, micro, out, *options):
        return self.served(self.runners, what, "--train", "--inputs", self.batch, "--microbatches", micro, *OPTIMIZER, *options, "--emit-grads",
                           f"{out}.grads.pt", "--output", f"{out}.state.pt", "--force", "--json")

    def reference(self, micro):
        """On the same kind of device: a GPU rounds differently."""
        done = self.train(self.model, micro, f"{self.model}.{micro}", *(["--device", self.device] if self.device.startswith("cuda") else []))
        self.assertEqual(done.code, 0, f"{self.model}, {micro} micro-batches: {done.err}")
        self.losses[micro] = losses(done)

    def one(self, row):
        name, stages, recompute, schedule, micro, order = row
        out = "-".join(map(str, row))
        done = self.train(f"{name}.{stages}.{recompute}.pipe", micro, out, "--schedule", schedule, "--device", self.device,
                          *(["--dynamic", order] if order else []))
        if done.code:
            return f"wrong: exit {done.code}: {done.err.strip()}"
        is_tied = training_models.MODELS[name][2] and stages > 1
        if not areSameLosses(self.losses[micro], losses(done), TOLERANCE if is_tied else 0):
            return f"wrong: losses: {self.losses[micro]} of the unsplit model, {losses(done)}"
        worst = None
        for kind in ("grads", "state"):
            expected, actual = loaded(f"{self.model}.{micro}.{kind}.pt"), torch.load(f"{out}.{kind}.pt")
            if set(actual) - set(expected) or (kind == "grads" and set(expected) != set(actual)):
                return f"wrong: {kind} of other names: {sorted(set(expected) ^ set(actual))[:4]}"
            worst = max(filter(None, (worst, compare(expected, actual, actual))), default=None)
            Path(f"{out}.{kind}.pt").unlink()
        if worst is None:
            return "equal"
        return f"tied: {worst[0]:.1e}" if is_tied and worst[0] <= TOLERANCE else f"wrong: {worst[1]} differs by {worst[0]:.1e}"

    def test_table(self):
        """A second run replaces its model's rows and keeps the others, in the order of models."""
        path = Path("table.csv")
        intoTable(path, [["gpt", 2, "never", "1f1b", 3, 0, "tied: 2.0e-07"]])
        intoTable(path, [["mlp", 1, "never", "1f1b", 3, 0, "wrong: exit 1"]])
        rows = intoTable(path, [["mlp", 1, "never", "1f1b", 3, 0, "equal"], ["mlp", 1, "never", "gpipe", 3, 0, "equal"]])
        self.assertEqual([(row[0], row[-1]) for row in rows], [("mlp", "equal"), ("mlp", "equal"), ("gpt", "tied: 2.0e-07")])
        self.assertEqual(summary(rows), "3 cells: 2 with equal bits, 1 within 2e-07 for tied weights, 0 wrong")
        self.assertEqual(len(path.read_text(encoding="utf-8").splitlines()), 4)

    def test_losses(self):
        for actual, tolerance, same in (([1.0, 2.0], 0, True), ([1.0, 2.000001], 0, False), ([1.0], 0, False), ([1.0, 2.000001], TOLERANCE, True),
                                        ([1.00001, 2.0], TOLERANCE, False)):
            self.assertEqual(areSameLosses([1.0, 2.0], actual, tolerance), same, (actual, tolerance))

    def test_server(self):
        """A forked run is as a run of the command."""
        server = ForkServer("pipe-run")
        self.addCleanup(server.close)
        for arguments in (["--version"], ["nothing.pipe"], ["--version"]):
            self.assertEqual(server.run(*arguments), e2e.run("pipe-run", *arguments))
        self.assertIsNone(server.process.poll())
        with self.assertRaises(subprocess.TimeoutExpired):
            server.run("--version", timeout=0)


@functools.lru_cache(maxsize=64)
def loaded(path):
    return torch.load(path)


if __name__ == "__main__":
    e2e.main()
