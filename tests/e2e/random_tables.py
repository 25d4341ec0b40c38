"""random_tables.py: tables in a random possible order train as the unsplit model; damaged ones are refused; none hangs.

    --count N    tables (default: 16)
    --first S    the first seed (default: 0)
"""
import random
import sys
from collections import Counter

import torch
from torch import Tensor, nn

import e2e

STAGES, SAMPLES = 4, 13
STEPS = ["--train", "--inputs", "tables.batch.pt", "--steps", 2, "--optimizer", "sgd,lr=0.1,momentum=0.9", "--force"]
ORDERS = ([], ["--dynamic", 1], ["--dynamic", 2])
REFUSALS = (2, 5)  # an order that no run has, or a table that is no schedule


class Model(nn.Module):
    """A skip over a cut, random numbers, and state that every micro-batch writes if `norm` has some."""

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 6), norm, nn.Linear(6, 6)
        self.drop, self.third, self.last = nn.Dropout(0.3), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.first(x))
        z = self.drop(torch.tanh(self.second(y)))
        w = self.third(z) + y
        return ((self.last(torch.tanh(w)) + z) ** 2).mean()


def option(name, default):
    return int(e2e.NAMES[e2e.NAMES.index(name) + 1]) if name in e2e.NAMES else default


def table(seed, writes_state=True):
    """Actions of a random possible order, per rank, and the number of micro-batches. Without state each stage has its own order of forwards."""
    draw = random.Random(seed)
    micro, ranks = draw.randint(1, 4), draw.randint(1, 4)
    rank_of = list(range(ranks)) + [draw.randrange(ranks) for _ in range(STAGES - ranks)]
    draw.shuffle(rank_of)
    is_split = [draw.random() < 0.5 for _ in range(STAGES)]
    open_actions = [(kind, stage, k) for stage in range(STAGES) for k in range(micro) for kind in ("FIW" if is_split[stage] else "FB")]
    done, rows = set(), [[] for _ in range(ranks)]

    def has_come_back(stage, k):
        return stage == STAGES or ("B", stage, k) in done or ("I", stage, k) in done

    def is_ready(action):
        kind, stage, k = action
        if kind == "F":  # state is written in the order of micro-batches
            return (stage == 0 or ("F", stage - 1, k) in done) and (k == 0 or not writes_state or ("F", stage, k - 1) in done)
        return ("I", stage, k) in done if kind == "W" else ("F", stage, k) in done and has_come_back(stage + 1, k)

    while open_actions:
        action = draw.choice([each for each in open_actions if is_ready(each)])
        open_actions.remove(action)
        done.add(action)
        rows[rank_of[action[1]]].append("{1}{0}{2}".format(*action))
    return rows, micro


def damaged(rows, seed):
    """The same with two actions of a rank exchanged, or one missing: impossible, or another possible order."""
    draw = random.Random(seed)
    rows = [list(row) for row in rows]
    row = max(rows, key=len)
    a, b = draw.sample(range(len(row)), 2)
    if draw.random() < 0.5:
        row[a], row[b] = row[b], row[a]
    else:
        del row[a]
    return rows


class RandomTables(e2e.Case):
    def prepare(self, norm):
        torch.manual_seed(0)
        torch.jit.script(Model(norm)).save("tables.pt")
        torch.save((torch.randn(SAMPLES, 6),), "tables.batch.pt")
        self.pipec(0, "pipe-compile", "tables.pt", "--train", "--at", "second,third,last", "--inputs", "tables.batch.pt", "--schedule", "1f1b", "--cost", "analytic",
                   "--recompute", "never", "-o", "tables.pipe", "--force")
        for micro in range(1, 5):
            self.pipec(0, "pipe-run", "tables.pt", *STEPS, "--microbatches", micro, "--emit-grads", f"{micro}.grads.pt", "--output", f"{micro}.state.pt")
        first = option("--first", 0)
        return range(first, first + option("--count", 16))

    def test(self):
        outcomes = Counter()
        for seed in self.prepare(nn.BatchNorm1d(6)):
            rows, micro = table(seed)
            self.assertTrue(self.trains(rows, micro, f"seed {seed}"), f"seed {seed}: a possible order was refused")
            outcomes["possible orders"] += 1
            outcomes["damaged, equal" if self.trains(damaged(rows, seed), micro, f"seed {seed}, damaged") else "damaged, refused"] += 1
        print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())), file=sys.stderr)
        self.assertGreater(outcomes["damaged, refused"], 0)

    def testForwardsInAnyOrder(self):
        """Without state a table may begin with any micro-batch in each stage. In dynamic order, too, no stage then waits for one that waits for it."""
        seeds = self.prepare(nn.LayerNorm(6))
        rows = ["0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1".split(), "2F1 3F1 2F0 3F0 3B1 2B1 3B0 2B0".split()]  # each rank begins with another one
        for order in ORDERS:
            self.assertTrue(self.trains(rows, 2, f"two ranks, {order}", *order))
        shuffled = 0
        for seed in seeds:
            rows, micro = table(seed, writes_state=False)
            forwards = [[action for action in sum(rows, []) if action.startswith(f"{stage}F")] for stage in range(STAGES)]
            shuffled += any(each != sorted(each) for each in forwards)
            for order in ORDERS:
                self.assertTrue(self.trains(rows, micro, f"seed {seed}, {order}", *order), f"seed {seed}, {order}: refused")
        self.assertGreater(shuffled, 0)

    def trains(self, rows, micro, what, *options):
        """False: refused. A hang ends with the time limit of e2e.run."""
        with open("table.csv", "w", encoding="utf-8") as out:
            out.writelines(",".join(row) + "\n" for row in rows)
        done = e2e.run("pipe-run", "tables.pipe", *STEPS, "--schedule", "table.csv", "--emit-grads", "grads.pt", "--output", "state.pt", *options, timeout=60)
        if done.code:
            self.assertIn(done.code, REFUSALS, f"{what}: {done.err}")
            return False
        for kind in ("grads", "state"):
            self.sameBits(torch.load(f"{micro}.{kind}.pt"), torch.load(f"{kind}.pt"), f"{what}: {kind}")
        return True


if __name__ == "__main__":
    e2e.main()
