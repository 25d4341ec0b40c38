"""Part of tools/gpu-check: trains small models in stages and unsplit on one device, in float32 and in bfloat16, compares their gradients, and times both in
turn. Compares the peak of the device's allocator with the planned one. BIN WORK [DEVICE]"""
import json
import math
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
from gpu_commands import run

TURNS, STEPS, WARMUP = 2, 24, 8
SCHEDULES = ("1f1b", "gpipe", "zb-h1")
LAYOUTS = ((1, "never"), (2, "never"), (4, "never"), (4, "always"))  # stages, recompute
TIMED_STAGES = (1, 2, 4)
LIMIT = 1e-4  # relative L2 of gradients: kernels of a GPU may add in an order that changes
BF16_LIMIT = 2e-2  # the same in bfloat16, which has 8 bits
# cuBLAS takes 32 MiB of the allocator's memory for itself, unless it is told to take little.
SMALL_WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}


def distance(expected, actual):
    """None: equal bits; else the largest relative L2 distance of two dicts of tensors."""
    if set(expected) != set(actual):
        raise RuntimeError(f"gradients of other names: {sorted(set(expected) ^ set(actual))[:4]}")
    worst = None
    for name, a in expected.items():
        if not torch.equal(a, actual[name]):
            a, b = a.double(), actual[name].double()
            apart = ((a - b).norm() / (a.norm() + 1e-30)).item()
            worst = max(worst or 0.0, math.inf if math.isnan(apart) else apart)
    return worst


def togetherDistance(expected, actual):
    """Relative L2 of all gradients as one vector: small ones, whose bits are noise in bfloat16, weigh little. 0: equal bits."""
    both = [(expected[name].double(), actual[name].double()) for name in expected]
    apart, size = (sum(each.square().sum().item() for each in all) for all in ([a - b for a, b in both], [a for a, _ in both]))
    return math.inf if math.isnan(apart / size) else (apart / size) ** 0.5


def train(bin, what, batch, device, grads, *options, steps=2):
    """Milliseconds of a step, and the report."""
    out = run(f"{bin}/pipe-run", what, "--train", "--inputs", batch, "--microbatches", 4, "--device", device, "--optimizer", "adamw,lr=0.001",
              "--clip-norm", 1, "--steps", steps, "--emit-grads", grads, "--force", "--json", *options)
    lines, at = [], 0
    while (at := out.find("{", at)) >= 0:  # one document per step, and the report
        document, at = json.JSONDecoder().raw_decode(out, at)
        lines.append(document)
    times = [line["step_ms"] for line in lines if "step" in line and isinstance(line.get("step_ms"), (int, float))]
    return statistics.median(times[WARMUP:] or times), lines[-1]


class Case:
    """One model: its files, and what its checks found. Checks run several at once: they measure no time."""

    def __init__(self, bin, work, device, name, model, batch, example=None):
        self.bin, self.work, self.device, self.name, self.model, self.batch = bin, work, device, name, model, batch
        self.example = example or batch  # what compiles run on the CPU
        self.reference = f"{work}/{name}.reference.pt"

    def artifact(self, stages, recompute):
        return f"{self.work}/{self.name}.{stages}.{recompute}.pipe"

    def train(self, what, grads, *options, steps=2):
        return train(self.bin, what, self.batch, self.device, grads, *options, steps=steps)

    def compareGradients(self):
        """Lines, each with whether it is right."""
        try:
            self.train(self.model, self.reference)
            expected = torch.load(self.reference)
        except RuntimeError as error:
            return [(False, f"  {self.name:11} FAILED: {error}")]
        return [self.compareTo(expected, *layout) for layout in LAYOUTS] + [self.compareBf16(expected)]

    def compareTo(self, expected, stages, recompute):
        what = f"  {self.name:11} {stages} stages{', recomputed' if recompute == 'always' else '':13}"
        actual = f"{self.work}/{self.name}.{stages}.{recompute}.actual.pt"
        try:
            run(f"{self.bin}/pipe-compile", self.model, "--train", "--stages", stages, "--inputs", self.example, "--cost", "analytic", "--schedule", "1f1b",
                "--recompute", recompute, "-o", self.artifact(stages, recompute), "--force")
            worst = {}
            for schedule in SCHEDULES:
                self.train(self.artifact(stages, recompute), actual, "--schedule", schedule)
                worst[schedule] = distance(expected, torch.load(actual))
        except (RuntimeError, ValueError) as error:
            return False, f"{what} FAILED: {error}"
        far = ", ".join(f"{schedule} within {apart:.0e}" for schedule, apart in worst.items() if apart is not None)
        return max(filter(None, worst.values()), default=0.0) <= LIMIT, f"{what} gradients {far or 'equal bit for bit'}"

    def compareBf16(self, full):
        """Two steps under autocast, staged and unsplit; float32 has other gradients."""
        expected, actual = (f"{self.work}/{self.name}.{what}.bf16.pt" for what in ("expected", "actual"))
        what = f"  {self.name:11} 2 stages, bfloat16  "
        try:
            self.train(self.model, expected, "--precision", "bf16")
            self.train(self.artifact(2, "never"), actual, "--precision", "bf16")
            worst, rounding = togetherDistance(torch.load(expected), torch.load(actual)), togetherDistance(full, torch.load(expected))
        except (OSError, RuntimeError, ValueError) as error:
            return False, f"{what} FAILED: {error}"
        return rounding > 0 and worst <= BF16_LIMIT, f"{what} gradients {f'within {worst:.0e}' if worst else 'equal bit for bit'}, {rounding:.0e} from float32"

    def time(self):
        turns = []
        for _ in range(TURNS):
            turns.append([self.train(what, f"{self.work}/{self.name}.timed.pt", steps=STEPS)[0]
                          for what in (self.model, *(self.artifact(n, "never") for n in TIMED_STAGES))])
        unsplit, *staged = map(statistics.median, zip(*turns))
        return f"  {self.name:11} unsplit {unsplit:8.3f} ms   " + "   ".join(
            f"{n} stages {ms:8.3f} ms, {ms / unsplit:.3f}, {1000 * ms / (8 * n):.1f} us per action" for n, ms in zip(TIMED_STAGES, staged))


def checkPeak(bin, work, device, model, batch, stages):
    """The most bytes that the allocator gave out, and the planned ones of all stages: they share the device, and their peaks may come at different times."""
    artifact = f"{work}/peak.{stages}.pipe"
    report = json.loads(run(f"{bin}/pipe-compile", model, "--train", "--stages", stages, "--inputs", batch, "--batch", 2048, "--microbatches", 4, "--cost", "analytic",
                            "--schedule", "1f1b", "--recompute", "never", "-o", artifact, "--force", "--json"))
    planned = sum(report["prediction"]["peak_memory"])
    out = run(f"{bin}/pipe-run", artifact, "--train", "--inputs", batch, "--microbatches", 4, "--device", device, "--optimizer", "adamw,lr=0.001",
              "--steps", 3, "--json", env=SMALL_WORKSPACE)
    measured = max(json.loads(out[out.index("\n{\n"):])["peak_memory_bytes"])
    return f"peak {measured / 2**20:.1f} MiB   planned {planned / 2**20:.1f} MiB   ratio {measured / planned:.3f}"


def saveWide(training_models):
    """A transformer of 30 million parameters: here the GPU's work takes longer than its launches."""
    torch.jit.script(training_models.Gpt(width=512, layers=8, words=8192, length=64)).save("gpt_wide.pt")
    for file, samples in (("gpt_wide.batch.pt", 64), ("gpt_wide.example.pt", 2)):
        torch.save((torch.randint(0, 8192, (samples, 64)), torch.randint(0, 8192, (samples, 64))), file)
    return "gpt_wide", "gpt_wide.pt", "gpt_wide.batch.pt", "gpt_wide.example.pt"


def main(bin, work, device="cuda:0"):
    sys.path.insert(0, "tests/support")
    import training_models
    os.chdir(work)
    cases = [Case(bin, work, device, name, *training_models.save(name)) for name in training_models.MODELS]
    cases.append(Case(bin, work, device, *saveWide(training_models)))
    failed = 0

    print(f"training on {device}, 4 micro-batches, {', '.join(SCHEDULES)}: gradients of the second step, staged and unsplit", flush=True)
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 3)) as pool:
        for lines in pool.map(Case.compareGradients, cases):
            failed += sum(not right for right, _ in lines)
            print("\n".join(line if right else f"{line}   TOO FAR" for right, line in lines), flush=True)

    print(f"training on {device}, 4 micro-batches, 1f1b: medians over {TURNS} turns of {STEPS - WARMUP} steps each; an action is one F or B", flush=True)
    for case in cases:
        try:
            print(case.time(), flush=True)
        except (RuntimeError, ValueError) as error:
            failed += 1
            print(f"  {case.name:11} FAILED: {error}", flush=True)

    print(f"memory on {device}: 8 linear layers of 1,024, 4 micro-batches of 512, adamw, 1f1b; all stages on this device", flush=True)
    torch.jit.script(training_models.Mlp(1024, 8)).save("peak.pt")
    torch.save((torch.randn(2048, 1024), torch.randint(0, 5, (2048,))), "peak.batch.pt")
    for stages in (1, 2, 4):
        try:
            print(f"  {stages} stages: {checkPeak(bin, work, device, 'peak.pt', 'peak.batch.pt', stages)}", flush=True)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            failed += 1
            print(f"  {stages} stages: FAILED: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
