"""zoo.py [NAME...]: real models compile at 2, 4 and 8 stages or refuse as tests/support/zoo/table.csv says, and give the unsplit model's bits.

    zoo.py              the light ones, the CTest entry e2e-zoo
    zoo.py --all        all 48: 2.4 GB of models are made first; half an hour of one core

Each artifact runs on the batch of 2 that it was compiled with, and on a batch of 4, whole and as two micro-batches. The reference is pipe-run on the
unsplit file, and that must equal torch.jit.load with the optimiser off where the model draws no random numbers. Models are made
where $PIPEC_ZOO says, by default beside the other test models, and again only when their scripts change.
"""
import json
import os
import re
import sys
from pathlib import Path

import torch

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support" / "zoo"))
import count_cuts  # noqa: E402
import table  # noqa: E402
import zoo  # noqa: E402

DIRECTORY = Path(os.environ.get("PIPEC_ZOO", e2e.MODELS.parent / "zoo")).resolve()
STAGES = [2, 4, 8]
REFUSED = 4


def libraries():
    """Detectors use operators of torchvision."""
    import torchvision

    return ["--load-library", next(Path(torchvision.__file__).parent.glob("_C*.so"))]


class Zoo(e2e.Case):
    def test(self):
        self.refusals = {row["name"]: ".*".join(re.escape(part) for part in row["message"].split("{}"))
                         for row in json.loads(e2e.run("pipe-opt", "--list-refusals").out)["refusals"]}
        self.assertGreaterEqual(sum(row.stages >= 8 for row in table.read()), table.REACH_8)
        rows = {row.name: row for row in table.read()}
        everything = "--all" in sys.argv
        names = [name for name in e2e.NAMES if name != "--all"] or [row.name for row in rows.values() if row.light or everything]
        for name in names:
            with self.subTest(model=name):
                print(f"{name} ", end="", file=sys.stderr, flush=True)
                self.one(rows[name], zoo.MODELS[name])

    def one(self, row, entry):
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        self.options = libraries() if row.name.startswith("tv_fasterrcnn") else []  # before the count, which loads the model too
        zoo.make(row.name, DIRECTORY)
        self.assertEqual(count_cuts.count(DIRECTORY, row.name), row.stages, "count_cuts.py and table.csv disagree")
        self.model = DIRECTORY / f"{row.name}.pt"
        artifacts = [f"{stages}.pipe" for stages in STAGES if self.compiles(row, stages)]
        if not artifacts:
            return
        signature = e2e.plan(artifacts[0])["signature"]
        split = any(value["batch_dim"] is not None for value in signature["inputs"])
        for suffix, parts in [("", 1), ("4", 1), ("4", 2)]:
            if parts > 1 and not split or suffix and parts == 1 and split and not signature["batch_symbolic"]:
                continue
            inputs = DIRECTORY / f"{row.name}.inputs{suffix}.pt"
            expected = self.ran(self.model, inputs, parts)
            if parts == 1 and not entry.random:
                self.sameBits(self.inPyTorch(inputs), expected, f"pipe-run of the unsplit model {inputs.name}")
            for artifact in artifacts:
                self.sameBits(expected, self.ran(artifact, inputs, parts), f"{artifact}, {inputs.name}, {parts} micro-batches")

    def compiles(self, row, stages):
        """True when there is an artifact; a refusal must be the table's."""
        command = [self.model, "--stages", stages, "--inputs", DIRECTORY / f"{row.name}.inputs.pt", "-o", f"{stages}.pipe", "--force"]
        result = e2e.run("pipe-compile", *command, *self.options, timeout=900)
        if result.code == REFUSED and stages > row.stages:
            self.assertRegex(result.err, self.refusals[row.refusal])
            return False
        self.assertEqual(result.code, 0, f"{stages} stages of {row.stages}: exit {result.code}: {result.err}")
        self.assertLessEqual(stages, row.stages, f"{row.name}: the table counts {row.stages} stages at most, and it compiled to {stages}")
        return True

    def ran(self, model, inputs, parts):
        self.pipec(0, "pipe-run", model, "--inputs", inputs, "--microbatches", parts, "--threads", 1, "--output", "output.pt", "--force",
                   *self.options, timeout=900)
        return torch.load("output.pt", weights_only=False)

    def inPyTorch(self, inputs):
        arguments = torch.load(inputs, weights_only=False)
        with torch.no_grad(), torch.jit.optimized_execution(False):
            return plain(torch.jit.load(self.model)(*arguments))


def plain(value):
    """Named tuples as pipec writes them: tuples."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return list(map(plain, value))
    return {key: plain(part) for key, part in value.items()} if isinstance(value, dict) else value


if __name__ == "__main__":
    e2e.main()
