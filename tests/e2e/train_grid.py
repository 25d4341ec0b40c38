"""train_grid.py: trainings under every schedule give the loss, the gradients and the weights of the unsplit model.

    train_grid.py                  pairs of schedules, stages, micro-batches, recompute and order, each at least once per model
    train_grid.py --all [MODEL...] every combination in the schedule's order
    train_grid.py --table FILE     also writes a row per combination
    train_grid.py --device DEVICE  with "test" or "test:any" of a test build, the order of streams is checked, too; needs a GPU: "cuda"

Each cell trains two steps with momentum and compares the gradients of the last step and all weights and buffers with
`pipe-run MODEL.pt --train`. Bits must be equal; where a weight is tied over stages, its sum is made in another order, and everything may
differ by a relative L2 of 1e-6, also after two steps.
"""
import csv
import itertools
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

SCHEDULES = ["gpipe", "1f1b", "eager-1f1b", "interleaved-1f1b", "interleaved-zb", "looped-bfs", "zb-h1", "zb-h2", "zb-auto", "zb-v", "zb-v-auto", "v-half",
             "v-min", "dualpipev"]
STAGES = [1, 2, 3, 4, 8]
MICRO_BATCHES = [1, 2, 3, 5, 8]  # of 10 samples: even and uneven
RECOMPUTE = ["never", "always"]
ORDERS = [0, 1, 3]  # 0: the schedule's; else --dynamic N
OPTIMIZER = ["--steps", 2, "--optimizer", "sgd,lr=0.1,momentum=0.9"]
TOLERANCE = 1e-6


def fits(schedule, stages, micro):
    """The schedules that need two stages per rank need an even number of stages."""
    if schedule in ("zb-v", "zb-v-auto", "v-half", "v-min", "dualpipev", "interleaved-1f1b", "interleaved-zb", "looped-bfs") and stages % 2:
        return False
    return not (schedule == "dualpipev" and micro < stages)


def cells(names, everything):
    """Combinations of (model, stages, recompute, schedule, micro-batches, order); without `everything` so many that each pair of values comes once."""
    rows = []
    for name in names:
        all_cells = [cell for cell in itertools.product([name], STAGES, RECOMPUTE, SCHEDULES, MICRO_BATCHES, ORDERS[:1] if everything else ORDERS)
                     if fits(cell[3], cell[1], cell[4])]
        if everything:
            rows += all_cells
            continue
        random.Random(name).shuffle(all_cells)
        wanted = {pair for cell in all_cells for pair in pairs(cell)}
        while wanted:
            best = max(all_cells, key=lambda cell: sum(pair in wanted for pair in pairs(cell)))
            rows.append(best)
            wanted -= set(pairs(best))
    return rows


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


class TrainGrid(e2e.Case):
    def test(self):
        arguments = list(e2e.NAMES)
        file = arguments.pop(arguments.index("--table") + 1) if "--table" in arguments else None
        self.device = arguments.pop(arguments.index("--device") + 1) if "--device" in arguments else "cpu"
        names = [name for name in arguments if not name.startswith("--")] or list(training_models.MODELS)
        rows = cells(names, "--all" in arguments)
        self.made = {}
        for name in names:
            self.made[name] = training_models.save(name)
            for stages in sorted({row[1] for row in rows if row[0] == name}):
                for recompute in RECOMPUTE:
                    model, batch = self.made[name]
                    self.pipec(0, "pipe-compile", model, "--train", "--stages", stages, "--inputs", batch, "--cost", "analytic", "--schedule", "1f1b",
                               "--recompute", recompute, "-o", f"{name}.{stages}.{recompute}.pipe", "--force")
            for micro in MICRO_BATCHES:
                self.pipec(0, "pipe-run", model, "--train", "--inputs", batch, "--microbatches", micro, *OPTIMIZER, *self.on(), "--emit-grads",
                           f"{name}.{micro}.grads.pt", "--output", f"{name}.{micro}.state.pt", "--force")
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(self.one, rows))
        if file:
            with open(file, "w", newline="", encoding="utf-8") as out:
                csv.writer(out, lineterminator="\n").writerows(
                    [["model", "stages", "recompute", "schedule", "micro_batches", "dynamic", "outcome"], *[[*row, outcome] for row, outcome in zip(rows, found)]])
        wrong = [f"{row}: {outcome}" for row, outcome in zip(rows, found) if outcome.startswith("wrong")]
        equal = sum(outcome == "equal" for outcome in found)
        print(f"{len(rows)} cells: {equal} with equal bits, {len(rows) - equal - len(wrong)} within {TOLERANCE} for tied weights, {len(wrong)} wrong",
              file=sys.stderr)
        self.assertFalse(wrong, "\n".join(wrong))

    def on(self):
        """The reference is on the same kind of device: a GPU rounds differently."""
        return ["--device", self.device] if self.device.startswith("cuda") else []

    def one(self, row):
        name, stages, recompute, schedule, micro, order = row
        out = "-".join(map(str, row))
        done = e2e.run("pipe-run", f"{name}.{stages}.{recompute}.pipe", "--train", "--inputs", self.made[name][1], "--microbatches", micro, "--schedule",
                       schedule, "--device", self.device, *OPTIMIZER, *(["--dynamic", order] if order else []), "--emit-grads", f"{out}.grads.pt", "--output",
                       f"{out}.state.pt", "--force")
        if done.code:
            return f"wrong: exit {done.code}: {done.err.strip()}"
        worst = None
        for kind in ("grads", "state"):
            expected, actual = torch.load(f"{name}.{micro}.{kind}.pt"), torch.load(f"{out}.{kind}.pt")
            if set(actual) - set(expected) or (kind == "grads" and set(expected) != set(actual)):
                return f"wrong: {kind} of other names: {sorted(set(expected) ^ set(actual))[:4]}"
            worst = max(filter(None, (worst, compare(expected, actual, actual))), default=None)
        if worst is None:
            return "equal"
        is_tied = training_models.MODELS[name][2] and stages > 1
        return f"tied: {worst[0]:.1e}" if is_tied and worst[0] <= TOLERANCE else f"wrong: {worst[1]} differs by {worst[0]:.1e}"


if __name__ == "__main__":
    e2e.main()
