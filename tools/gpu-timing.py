"""Part of tools/gpu-check: checks that stages on the GPU give the unsplit model's numbers, and times both in turn."""
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from gpu_commands import SUPPORT, parsed, run

MODELS = ("mlp_wide", "unet", "lstm", "demo_resnet50", "demo_gpt2")
SHORT_MODELS = ("mlp",)


class Extent:
    """How much is measured."""

    def __init__(self, short):
        self.models = SHORT_MODELS if short else MODELS
        self.stages = (2,) if short else (1, 2, 4)
        self.turns, self.steps, self.warmup = (1, 2, 0) if short else (3, 20, 5)


class Case:
    """One model: its files, and what is wrong with it."""

    def __init__(self, bin, work, device, name, extent):
        self.bin, self.work, self.name, self.extent, self.unsplit = bin, work, name, extent, f"{work}/{name}.pt"
        # One intra-op thread: on a CPU, the bits depend on their number.
        self.common = ["--inputs", f"{work}/{name}.inputs4.pt", "--microbatches", "4", "--threads", "1", "--device", device]
        self.absent = self.error = None

    def artifact(self, stages):
        return f"{self.work}/{self.name}-{stages}.pipe"

    def check(self):
        """Several run at once: none measures time."""
        made = subprocess.run([sys.executable, SUPPORT / "models.py", self.work, self.name], capture_output=True, text=True)
        if made.returncode:
            said = made.stderr.strip().splitlines()[-1]
            self.absent, self.error = ("ModuleNotFoundError" in said), f"not made: {said}"  # torchvision and transformers need not be here
            return
        try:
            reference = f"{self.work}/{self.name}.unsplit.pt"
            run(f"{self.bin}/pipe-run", self.unsplit, *self.common, "--output", reference, "--force")
            for stages in self.extent.stages:
                run(f"{self.bin}/pipe-compile", self.unsplit, "--stages", str(stages), "--cost", "analytic", "--inputs", f"{self.work}/{self.name}.inputs.pt",
                    "-o", self.artifact(stages), "--force")
                run(f"{self.bin}/pipe-run", self.artifact(stages), *self.common, "--expect", reference, "--rtol", "0", "--atol", "0")
        except RuntimeError as error:
            self.error = f"FAILED: {error}"

    def median(self, what):
        report = run(f"{self.bin}/pipe-run", what, *self.common, "--repeat", str(self.extent.steps), "--warmup", str(self.extent.warmup), "--json")
        return json.loads(report)["step_ms"]["median"]

    def time(self):
        turns = [[self.median(what) for what in (self.unsplit, *map(self.artifact, self.extent.stages))] for _ in range(self.extent.turns)]
        unsplit, *staged = map(statistics.median, zip(*turns))
        return f"unsplit {unsplit:8.3f} ms   " + "   ".join(f"{n} stages {ms:8.3f} ms, {ms / unsplit:.3f}" for n, ms in zip(self.extent.stages, staged))


def main():
    arguments = parsed(__doc__, MODELS + SHORT_MODELS)
    extent = Extent(arguments.short)
    print(f"inference, staged against unsplit on one {arguments.device}, 4 micro-batches: medians over {extent.turns} turns of {extent.steps} steps each; "
          "outputs equal bit for bit", flush=True)
    cases = [Case(arguments.bin, arguments.work, arguments.device, name, extent) for name in arguments.models or extent.models]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 3)) as pool:
        list(pool.map(Case.check, cases))
    for case in cases:
        try:
            print(f"  {case.name:14} {case.error or case.time()}", flush=True)
        except RuntimeError as error:
            case.error = str(error)
            print(f"  {case.name:14} FAILED: {error}", flush=True)
    return any(case.error and not case.absent for case in cases)


if __name__ == "__main__":
    sys.exit(main())
