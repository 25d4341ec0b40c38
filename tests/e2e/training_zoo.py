"""training_zoo.py [NAME...]: real models with a loss on top, in training mode, compile with --train to 4 stages, every gradient compared with the unsplit model's.

    training_zoo.py            the light ones
    training_zoo.py --all      all 48
    training_zoo.py --table FILE [...]   also writes what was found, as docs/training.md has it

A model of which PyTorch itself computes no gradients is left out and named. The compile fails where a gradient differs.
"""
import csv
import json
import os
import re
import sys
from pathlib import Path

import torch

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support" / "zoo"))
import table  # noqa: E402
import with_loss  # noqa: E402
import zoo  # noqa: E402

DIRECTORY = Path(os.environ.get("PIPEC_ZOO", e2e.MODELS.parent / "zoo")).resolve()
STAGES = 4
OWN_LOSS = {"tv_fasterrcnn", "tv_fasterrcnn_mnv3_320"}  # in training they want targets and return a dict of losses


class TrainingZoo(e2e.Case):
    def test(self):
        arguments = list(e2e.NAMES)
        file = arguments.pop(arguments.index("--table") + 1) if "--table" in arguments else None
        everything = "--all" in arguments
        names = [name for name in arguments if not name.startswith("--")]
        rows = [row for row in table.read() if row.name in names or not names and (row.light or everything)]
        found = []
        for row in rows:
            if row.name in OWN_LOSS:
                continue
            print(f"{row.name} ", end="", file=sys.stderr, flush=True)
            with self.subTest(model=row.name):
                found.append([row.name, *self.one(row)])
                print(*found[-1][1:], file=sys.stderr, flush=True)
        if file:
            with open(file, "w", newline="", encoding="utf-8") as out:
                csv.writer(out, lineterminator="\n").writerows([["model", "outcome", "gradients", "split_stages", "why"], *found])

    def one(self, row):
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        zoo.make(row.name, DIRECTORY)
        example = torch.load(DIRECTORY / f"{row.name}.inputs.pt", weights_only=False)
        torch.save(example, "inputs.pt")
        torch.manual_seed(0)
        torch.set_num_threads(1)
        try:
            model = with_loss.with_loss(torch.jit.load(DIRECTORY / f"{row.name}.pt"), example, ".", row.name)
            expected = with_loss.gradients(model, example)
        except Exception as error:  # noqa: BLE001  whatever PyTorch says
            return "left out", 0, 0, "PyTorch: " + str(error).strip().splitlines()[-1][:120]
        model.save("loss.pt")
        result = e2e.run("pipe-compile", "loss.pt", "--train", "--stages", STAGES, "--inputs", "inputs.pt", "--cost", "analytic",
                         "-o", "loss.pipe", "--force", "--json", timeout=1800)
        if result.code == 4:
            return "refused", expected, 0, result.err.splitlines()[0][:160]
        self.assertEqual(result.code, 0, result.err)
        report = json.loads(result.out)
        tested = " ".join(report["tested"])
        compared = re.search(r"the loss and (\d+) gradients? have the same bits", tested)
        self.assertTrue(compared, tested)
        self.assertEqual(int(compared[1]), expected, "gradients that were compared, and that PyTorch computes")
        whole = [note for note in report["notes"] if "cannot split its backward" in note]
        tied = re.search(r"(\d+) gradients? summed over several stages", tested)
        outcome = ("equal" if not tied else f"equal, {tied[1]} within 1e-6")
        return outcome, expected, STAGES - len(whole), "; ".join(sorted({note.split(": ", 1)[1] for note in whole}))


if __name__ == "__main__":
    e2e.main()
