"""Part of tools/gpu-check: trains small models in stages and unsplit on one device, in float32 and in bfloat16, compares their gradients, and times both in
turn. Compares the peak of the device's allocator with the planned one."""
import itertools
import json
import math
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
from gpu_commands import SUPPORT, parsed, run

sys.path.insert(0, str(SUPPORT))
import training_models  # noqa: E402

LIMIT = 1e-4  # relative L2 of gradients whose bits may differ
BF16_LIMIT = 2e-2  # the same in bfloat16, which has 8 bits
REFERENCES = 2  # trainings of the unsplit model that show whether its bits repeat
# Of the planned peak. All ranks share the device, and their peaks may come at different times: at least that of one rank, at most their sum. The plan leaves
# out the batch, what the update needs for a moment, and the gradients of the micro-batch whose backward runs until they are added.
LEAST_OF_LARGEST, MOST_OF_SUM = 0.9, 1.15
# cuBLAS takes 32 MiB of the allocator's memory for itself, unless it is told to take little.
SMALL_WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}

LAYOUTS = ((1, "never"), (2, "never"), (4, "never"), (4, "always"))  # stages, recompute
ALL_LAYOUTS = tuple(itertools.product((1, 2, 4), ("never", "always")))
# Dropout that is a part of another operator, and no other: name -> family, its options.
DROPOUTS = {
    "attention": ("gpt", {"drop": 0.0, "attention_drop": 0.2, "tied": False}),
    "lstm_layers": ("lstm", {"inside": 0.2}),
}
WIDE = "gpt_wide"
MODELS = (*training_models.MODELS, *DROPOUTS, WIDE)


class Extent:
    """How much is compared and measured."""

    def __init__(self, short):
        self.short = short
        self.models = ("mlp", *DROPOUTS) if short else MODELS
        self.schedules = ("1f1b",) if short else ("1f1b", "gpipe", "zb-h1")
        self.timed = ("mlp",) if short else (*training_models.MODELS, WIDE)
        self.timedStages = (2,) if short else (1, 2, 4)
        self.turns, self.steps, self.warmup = (1, 2, 0) if short else (2, 24, 8)

    def layouts(self, name):
        if self.short:
            return (2, "never"), (2, "always")
        return ALL_LAYOUTS if name in DROPOUTS else LAYOUTS


def sameBits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*(each.contiguous().reshape(-1).view(torch.uint8) for each in (a, b)))


def distance(expected, actual):
    """None: equal bits; else the largest relative L2 distance of two dicts of tensors."""
    if set(expected) != set(actual):
        raise RuntimeError(f"gradients of other names: {sorted(set(expected) ^ set(actual))[:4]}")
    worst = None
    for name, a in expected.items():
        if not sameBits(a, actual[name]):
            a, b = a.double(), actual[name].double()
            apart = ((a - b).norm() / (a.norm() + 1e-30)).item()
            worst = max(worst or 0.0, math.inf if math.isnan(apart) else apart)
    return worst


def togetherDistance(expected, actual):
    """None: equal bits; else the relative L2 of all gradients as one vector: small ones, whose bits are noise in bfloat16, weigh little."""
    if distance(expected, actual) is None:
        return None
    both = [(expected[name].double(), actual[name].double()) for name in expected]
    apart, size = (sum(each.square().sum().item() for each in all) for all in ([a - b for a, b in both], [a for a, _ in both]))
    return math.inf if math.isnan(apart / size) else (apart / size) ** 0.5


def train(bin, what, batch, device, grads, *options, steps=2, warmup=0):
    """Milliseconds of a step, and the report."""
    out = run(f"{bin}/pipe-run", what, "--train", "--inputs", batch, "--microbatches", 4, "--device", device, "--optimizer", "adamw,lr=0.001",
              "--clip-norm", 1, "--steps", steps, "--emit-grads", grads, "--force", "--json", *options)
    lines, at = [], 0
    while (at := out.find("{", at)) >= 0:  # one document per step, and the report
        document, at = json.JSONDecoder().raw_decode(out, at)
        lines.append(document)
    times = [line["step_ms"] for line in lines if "step" in line and isinstance(line.get("step_ms"), (int, float))]
    return statistics.median(times[warmup:]), lines[-1]


class Unsplit:
    """The gradients of the unsplit model, and which distance from them is right."""

    def __init__(self, gradients, isShared, limit):
        self.gradients, self.isShared, self.limit = gradients[0], isShared, limit
        self.apart = max(filter(None, (distance(gradients[0], each) for each in gradients[1:])), default=None)
        self.repeats = all(distance(gradients[0], each) is None for each in gradients[1:])

    def why(self, stages):
        """Why bits may differ; empty: they may not. One stage has all uses of a weight."""
        if not self.repeats:
            return f"the unsplit model does not repeat its bits, within {self.apart or 0.0:.0e}"
        return "a shared weight is summed over stages" if self.isShared and stages > 1 else ""

    def judge(self, stages, apart):
        """Whether the distance is right, and what to say. None: equal bits."""
        if apart is None:
            return True, "equal bit for bit"
        why = self.why(stages)
        return bool(why) and apart <= self.limit, f"within {apart:.0e} ({why or 'expected equal bits'})"


class Case:
    """One model: its files, and what its checks found. Checks run several at once: they measure no time."""

    def __init__(self, arguments, extent, name, isShared, model, batch, example=None):
        self.bin, self.work, self.device, self.extent = arguments.bin, arguments.work, arguments.device, extent
        self.name, self.isShared, self.model, self.batch = name, isShared, model, batch
        self.example = example or batch  # what compiles run on the CPU
        self.numbers = itertools.count()  # of files

    def artifact(self, stages, recompute):
        return f"{self.work}/{self.name}.{stages}.{recompute}.pipe"

    def train(self, what, grads, *options, **how):
        return train(self.bin, what, self.batch, self.device, grads, *options, **how)

    def gradients(self, what, *options):
        path = f"{self.work}/{self.name}.{next(self.numbers)}.grads.pt"
        self.train(what, path, *options)
        return torch.load(path)

    def unsplit(self, limit, *options):
        return Unsplit([self.gradients(self.model, *options) for _ in range(REFERENCES)], self.isShared, limit)

    def compareGradients(self):
        """Lines, each with whether it is right."""
        try:
            full = self.unsplit(LIMIT)
            lines = [self.compareSeeds(full)] if self.name in DROPOUTS else []
        except (OSError, RuntimeError) as error:
            return [(False, f"  {self.name:11} FAILED: {error}")]
        return lines + [self.compareTo(full, *layout) for layout in self.extent.layouts(self.name)] + [self.compareBf16(full)]

    def compareSeeds(self, full):
        """Without dropout, the lines after this one would say nothing."""
        apart = distance(full.gradients, self.gradients(self.model, "--seed", 1))
        return apart is not None, f"  {self.name:11} unsplit, another seed gradients {'equal bit for bit' if apart is None else f'differ by {apart:.0e}'}"

    def compile(self, stages, recompute):
        run(f"{self.bin}/pipe-compile", self.model, "--train", "--stages", stages, "--inputs", self.example, "--cost", "analytic", "--schedule", "1f1b",
            "--recompute", recompute, "-o", self.artifact(stages, recompute), "--force")

    def compareTo(self, unsplit, stages, recompute):
        label = f"{stages} stage{'s' if stages > 1 else ''}{', recomputed' if recompute == 'always' else ''}"
        what = f"  {self.name:11} {label:21}"
        try:
            self.compile(stages, recompute)
            found = {schedule: unsplit.judge(stages, distance(unsplit.gradients, self.gradients(self.artifact(stages, recompute), "--schedule", schedule)))
                     for schedule in self.extent.schedules}
        except (OSError, RuntimeError, ValueError) as error:
            return False, f"{what} FAILED: {error}"
        said = {text for _, text in found.values()}
        together = said.pop() if len(said) == 1 else ", ".join(f"{schedule} {text}" for schedule, (_, text) in found.items())
        return all(right for right, _ in found.values()), f"{what} gradients {together}"

    def compareBf16(self, full):
        """Two steps under autocast, staged and unsplit; float32 has other gradients."""
        stages = 2
        what = f"  {self.name:11} {stages} stages, bfloat16   "
        try:
            unsplit = self.unsplit(BF16_LIMIT, "--precision", "bf16")
            staged = self.gradients(self.artifact(stages, "never"), "--precision", "bf16")
            right, said = unsplit.judge(stages, togetherDistance(unsplit.gradients, staged))
            rounding = togetherDistance(full.gradients, unsplit.gradients) or 0.0
        except (OSError, RuntimeError, ValueError) as error:
            return False, f"{what} FAILED: {error}"
        return right and rounding > 0, f"{what} gradients {said}, {rounding:.0e} from float32"

    def time(self):
        extent, turns = self.extent, []
        for _ in range(extent.turns):
            turns.append([self.train(what, f"{self.work}/{self.name}.timed.pt", steps=extent.steps, warmup=extent.warmup)[0]
                          for what in (self.model, *(self.artifact(n, "never") for n in extent.timedStages))])
        unsplit, *staged = map(statistics.median, zip(*turns))
        return f"  {self.name:11} unsplit {unsplit:8.3f} ms   " + "   ".join(f"{n} stages {ms:8.3f} ms, {ms / unsplit:.3f}" for n, ms in zip(extent.timedStages, staged))


def checkPeak(arguments, model, batch, stages):
    """Whether the most bytes that the allocator gave out agree with the plan, and a line."""
    artifact = f"{arguments.work}/peak.{stages}.pipe"
    report = json.loads(run(f"{arguments.bin}/pipe-compile", model, "--train", "--stages", stages, "--inputs", batch, "--batch", 2048, "--microbatches", 4,
                            "--cost", "analytic", "--schedule", "1f1b", "--recompute", "never", "-o", artifact, "--force", "--json"))
    planned = report["prediction"]["peak_memory"]
    out = run(f"{arguments.bin}/pipe-run", artifact, "--train", "--inputs", batch, "--microbatches", 4, "--device", arguments.device, "--optimizer",
              "adamw,lr=0.001", "--steps", 3, "--json", env=SMALL_WORKSPACE)
    measured = max(json.loads(out[out.index("\n{\n"):])["peak_memory_bytes"])
    right = LEAST_OF_LARGEST * max(planned) <= measured <= MOST_OF_SUM * sum(planned)
    return right, (f"peak {measured / 2**20:.1f} MiB   planned: largest rank {max(planned) / 2**20:.1f} MiB, sum {sum(planned) / 2**20:.1f} MiB   "
                   f"{measured / sum(planned):.3f} of the sum")


def checkPeaks(arguments):
    """How many are wrong."""
    if arguments.device == "cpu":
        print("memory: not compared, the allocator of the CPU keeps no peak", flush=True)
        return 0
    print(f"memory on {arguments.device}: 8 linear layers of 1,024, 4 micro-batches of 512, adamw, 1f1b; all stages on this device; expected: "
          f"{LEAST_OF_LARGEST} of the largest rank to {MOST_OF_SUM} of the sum", flush=True)
    torch.jit.script(training_models.Mlp(1024, 8)).save("peak.pt")
    torch.save((torch.randn(2048, 1024), torch.randint(0, 5, (2048,))), "peak.batch.pt")
    failed = 0
    for stages in (1, 2, 4):
        try:
            right, said = checkPeak(arguments, "peak.pt", "peak.batch.pt", stages)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            right, said = False, f"FAILED: {error}"
        failed += not right
        print(f"  {stages} stages: {said}{'' if right else '   WRONG'}", flush=True)
    return failed


def saveWide():
    """A transformer of 30 million parameters: here the GPU's work takes longer than its launches."""
    torch.jit.script(training_models.Gpt(width=512, layers=8, words=8192, length=64)).save("gpt_wide.pt")
    for file, samples in (("gpt_wide.batch.pt", 64), ("gpt_wide.example.pt", 2)):
        torch.save((torch.randint(0, 8192, (samples, 64)), torch.randint(0, 8192, (samples, 64))), file)
    return "gpt_wide.pt", "gpt_wide.batch.pt", "gpt_wide.example.pt"


def makeCase(arguments, extent, name):
    """Writes the model into the working directory."""
    if name == WIDE:
        return Case(arguments, extent, name, True, *saveWide())
    family, options = DROPOUTS.get(name, (name, {}))
    isShared = training_models.MODELS[family][2] and options.get("tied", True)
    return Case(arguments, extent, name, isShared, *training_models.save(family, to=name, **options))


def main():
    arguments = parsed(__doc__, MODELS)
    extent = Extent(arguments.short)
    os.chdir(arguments.work)
    cases = [makeCase(arguments, extent, name) for name in arguments.models or extent.models]
    failed = 0

    print(f"training on {arguments.device}, 4 micro-batches, {', '.join(extent.schedules)}: gradients of the second step, staged and unsplit", flush=True)
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 3)) as pool:
        for lines in pool.map(Case.compareGradients, cases):
            failed += sum(not right for right, _ in lines)
            print("\n".join(line if right else f"{line}   WRONG" for right, line in lines), flush=True)

    print(f"training on {arguments.device}, 4 micro-batches, 1f1b: medians over {extent.turns} turns of {extent.steps - extent.warmup} steps each", flush=True)
    for case in cases:
        if case.name not in extent.timed:
            continue
        try:
            print(case.time(), flush=True)
        except (OSError, RuntimeError, ValueError) as error:
            failed += 1
            print(f"  {case.name:11} FAILED: {error}", flush=True)

    failed += checkPeaks(arguments)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
