"""Part of tools/gpu-check: checks that stages on the GPU give the unsplit model's numbers, and times both in turn. BIN WORK"""
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from gpu_commands import run

TURNS, STEPS, WARMUP = 3, 20, 5
MODELS = ("mlp_wide", "unet", "lstm", "demo_resnet50", "demo_gpt2")
STAGES = (1, 2, 4)


class Case:
    """One model: its files, and what is wrong with it."""

    def __init__(self, bin, work, name):
        self.bin, self.work, self.name, self.unsplit = bin, work, name, f"{work}/{name}.pt"
        self.common = ["--inputs", f"{work}/{name}.inputs4.pt", "--microbatches", "4", "--device", "cuda:0"]
        self.absent = self.error = None

    def artifact(self, stages):
        return f"{self.work}/{self.name}-{stages}.pipe"

    def check(self):
        """Several run at once: none measures time."""
        made = subprocess.run([sys.executable, "tests/support/models.py", self.work, self.name], capture_output=True, text=True)
        if made.returncode:
            said = made.stderr.strip().splitlines()[-1]
            self.absent, self.error = ("ModuleNotFoundError" in said), f"not made: {said}"  # torchvision and transformers need not be here
            return
        try:
            reference = f"{self.work}/{self.name}.unsplit.pt"
            run(f"{self.bin}/pipe-run", self.unsplit, *self.common, "--output", reference)
            for stages in STAGES:
                run(f"{self.bin}/pipe-compile", self.unsplit, "--stages", str(stages), "--cost", "analytic", "--inputs", f"{self.work}/{self.name}.inputs.pt",
                    "-o", self.artifact(stages))
                run(f"{self.bin}/pipe-run", self.artifact(stages), *self.common, "--expect", reference, "--rtol", "0", "--atol", "0")
        except RuntimeError as error:
            self.error = f"FAILED: {error}"

    def median(self, what):
        report = run(f"{self.bin}/pipe-run", what, *self.common, "--repeat", str(STEPS), "--warmup", str(WARMUP), "--json")
        return json.loads(report)["step_ms"]["median"]

    def time(self):
        turns = [[self.median(what) for what in (self.unsplit, *map(self.artifact, STAGES))] for _ in range(TURNS)]
        unsplit, *staged = map(statistics.median, zip(*turns))
        return f"unsplit {unsplit:8.3f} ms   " + "   ".join(f"{n} stages {ms:8.3f} ms, {ms / unsplit:.3f}" for n, ms in zip(STAGES, staged))


def main(bin, work):
    print(f"inference, staged against unsplit on one GPU, 4 micro-batches: medians over {TURNS} turns of {STEPS} steps each; outputs equal bit for bit", flush=True)
    cases = [Case(bin, work, name) for name in MODELS]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 3)) as pool:
        list(pool.map(Case.check, cases))
    for case in cases:
        try:
            print(f"  {case.name:14} {case.error or case.time()}", flush=True)
        except RuntimeError as error:
            case.error = str(error)
            print(f"  {case.name:14} FAILED: {error}", flush=True)
    return any(case.error and not case.absent for case in cases)


sys.exit(main(*sys.argv[1:]))
