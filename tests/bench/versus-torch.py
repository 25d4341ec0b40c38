"""versus-torch.py [MODEL...]: steps of torch.distributed.pipelining and of torchgpipe against pipec on the same models, two stages, two cores.

    MODEL               of small-mlp, small-gpt, medium-mlp, medium-gpt (default: these), large-gpt (only when it is named: a step of it
                        takes seconds, so give it few rounds)
    --rounds N          rounds per row (default: 20); every side runs in every round, one after the other, in turns first or last
    --kinds LIST        of forward, gpipe, 1f1b, interleaved, zb (default: all)
    --torchgpipe        also torchgpipe, in the rows of its schedule. It must be installed: pip install --no-deps torchgpipe
    --cores A,B         the cores of all sides (default: the first two that this process may use)

PyTorch: Gloo, one process per rank, which has one core of its own with all its threads. pipec: a thread per rank with one core of its own, in
`bench-limit` (`ninja bench`), which also measures the limit: bare loops over the same stage files, each on its own core, times (m + 1) / m, one after the other
and at the same time. torchgpipe: GPipe without checkpoints. It has one worker thread per device, so its stages share one, and its backwards are in autograd's
one thread for all CPUs: it is serial on CPUs, and its process may use both cores. All: one intra-op thread per stage, 8 micro-batches, gradients dropped before
each step, no optimizer.

Every side is a process that lives as long as its row, and waits while another one runs. A round is the median of its steps, after one that is
not counted. Ratios are taken per round: the table has their median, and a range of order statistics that holds the median with at least 95 % (from 6 rounds
on). The line above the table gives the probability.
"""
import argparse
import functools
import importlib.util
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

MICRO_BATCHES, STAGES, WARMUP = 8, 2, 3
BIN = Path(os.environ.get("PIPEC_BIN", "build/release/bin"))


class Mlp(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(torch.relu(self.first(x)))


class Layer(nn.Module):
    """A transformer layer with causal attention."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.all, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow, self.heads = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), heads

    def forward(self, x: Tensor) -> Tensor:
        samples, length, width = x.shape
        parts = self.all(self.before(x)).view(samples, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.mix(seen.transpose(1, 2).reshape(samples, length, width))
        return x + self.narrow(nn.functional.gelu(self.wide(self.between(x))))


# name: a block, the shape of a micro-batch, steps of a round (about half a second of PyTorch)
MODELS = {
    "small-mlp": (lambda: Mlp(64), (4, 64), 16),
    "small-gpt": (lambda: Layer(64, 4), (1, 32, 64), 8),
    "medium-mlp": (lambda: Mlp(512), (32, 512), 6),
    "medium-gpt": (lambda: Layer(256, 8), (2, 64, 256), 1),
    "large-gpt": (lambda: Layer(768, 12), (2, 128, 768), 1),
}
ONLY_WHEN_NAMED = {"large-gpt"}  # a forward step of PyTorch takes 2 s
BLOCKS = 8
KINDS = ["forward", "gpipe", "1f1b", "interleaved", "zb"]
OURS = {"gpipe": "gpipe", "1f1b": "1f1b", "interleaved": "interleaved-1f1b", "zb": "interleaved-zb"}


def blocks(name):
    torch.manual_seed(0)
    return [MODELS[name][0]() for _ in range(BLOCKS)]


def batch(name):
    shape = MODELS[name][1]
    torch.manual_seed(1)
    return torch.randn(MICRO_BATCHES * shape[0], *shape[1:]), torch.randn(MICRO_BATCHES * shape[0], *shape[1:])


def mse(y, target):
    return ((y - target) ** 2).mean()


def serve(name, step):
    """A round for each line of standard input."""
    for _ in range(WARMUP):
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        times = []
        for _ in range(1 + MODELS[name][2]):
            start = time.perf_counter()
            step()
            times.append((time.perf_counter() - start) * 1e3)
        print("step", statistics.median(times[1:]), flush=True)


class Side:
    """A process, or one per rank, that runs a round when it is told to. cores: one for each process; without them each may use those of this one."""

    def __init__(self, *commands, cores=()):
        self.errors = tempfile.TemporaryFile("w+")
        usable = [{core} for core in cores] or [os.sched_getaffinity(0)] * len(commands)
        self.processes = [
            subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                             env={**os.environ, "OMP_NUM_THREADS": "1"}, preexec_fn=functools.partial(os.sched_setaffinity, 0, own))
            for command, own in zip(commands, usable)]
        while self.line() != "ready":
            pass

    def line(self):
        line = self.processes[0].stdout.readline()
        if not line:
            self.processes[0].wait()
            self.errors.seek(0)
            said = self.errors.read()
            self.end()
            raise SystemExit(f"{' '.join(self.processes[0].args)}: {said}")
        return line.strip()

    def round(self):
        """The numbers in its line."""
        for process in self.processes:
            process.stdin.write("\n")
            process.stdin.flush()
        return [float(word) for word in self.line().split() if word[0].isdigit()]

    def end(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self.errors.close()


# --- their side: a process per stage


def theirs(name, kind, store, rank):
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining import schedules

    torch.set_num_threads(1)
    rank = int(rank)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=STAGES)
    per_rank = 2 if kind in ("interleaved", "zb") else 1
    count, all_blocks = STAGES * per_rank, blocks(name)
    held = [rank + i * STAGES for i in range(per_rank)]
    size = BLOCKS // count
    modules = [nn.Sequential(*all_blocks[s * size:(s + 1) * size]) for s in held]
    stages = [PipelineStage(module, s, count, torch.device("cpu")) for module, s in zip(modules, held)]
    make = {"forward": schedules._ScheduleForwardOnly, "gpipe": schedules.ScheduleGPipe, "1f1b": schedules.Schedule1F1B,
            "interleaved": schedules.ScheduleInterleaved1F1B, "zb": schedules.ScheduleInterleavedZeroBubble}[kind]
    stage = stages if per_rank > 1 else stages[0]
    schedule = make(stage, MICRO_BATCHES) if kind == "forward" else make(stage, MICRO_BATCHES, loss_fn=mse)
    x, target = batch(name)
    arguments = (x,) if 0 in held else ()

    def step():
        if kind == "forward":
            with torch.no_grad():
                schedule.step(*arguments)
        else:
            for module in modules:
                module.zero_grad()
            schedule.step(*arguments, **({"target": target} if count - 1 in held else {}))
        dist.barrier()  # a step is over when both ranks are

    serve(name, step)
    dist.destroy_process_group()


def second(name, kind):
    from torchgpipe import GPipe

    torch.set_num_threads(1)
    model = GPipe(nn.Sequential(*blocks(name)), [BLOCKS // STAGES] * STAGES, devices=["cpu"] * STAGES, chunks=MICRO_BATCHES, checkpoint="never")
    x, target = batch(name)

    def step():
        if kind == "forward":
            with torch.no_grad():
                model(x)
        else:
            model.zero_grad()
            mse(model(x), target).backward()

    serve(name, step)


# --- our side


class Whole(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.parts(x)


class Trained(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return ((self.parts(x) - target) ** 2).mean()


def pipec(*command):
    done = subprocess.run([str(BIN / command[0]), *map(str, command[1:])], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def compile_ours(name, directory):
    x, target = batch(name)
    torch.save((x,), directory / "x.pt")
    torch.save((x, target), directory / "both.pt")
    torch.jit.script(Whole(blocks(name))).save(str(directory / "whole.pt"))
    torch.jit.script(Trained(blocks(name))).save(str(directory / "trained.pt"))
    for count in (STAGES, 2 * STAGES):
        at = ",".join(f"parts.{i * BLOCKS // count}" for i in range(1, count))
        if count == STAGES:
            pipec("pipe-compile", directory / "whole.pt", "--at", at, "--inputs", directory / "x.pt", "-o", directory / "whole.pipe")
        pipec("pipe-compile", directory / "trained.pt", "--train", "--at", at, "--inputs", directory / "both.pt", "--schedule", "1f1b", "--cost", "analytic",
              "-o", directory / f"trained{count}.pipe", "--recompute", "never")


def sides(name, kind, directory, with_second):
    """PyTorch, pipec with its limits, torchgpipe if it has the schedule."""
    script = [sys.executable, __file__]
    count = 2 * STAGES if kind in ("interleaved", "zb") else STAGES
    store, cores = directory / f"store-{kind}", sorted(os.sched_getaffinity(0))
    yield "torch", Side(*([*script, "--theirs", name, kind, store, rank] for rank in range(STAGES)),
                        cores=[cores[rank % len(cores)] for rank in range(STAGES)])
    files = [directory / "whole.pipe", directory / "x.pt"] if kind == "forward" else [directory / f"trained{count}.pipe", directory / "both.pt"]
    yield "pipec", Side([BIN / "bench-limit", *files, "--microbatches", MICRO_BATCHES, "--ranks", STAGES, "--steps", MODELS[name][2],
                         *([] if kind == "forward" else ["--schedule", OURS[kind]])])
    if with_second and kind in ("forward", "gpipe"):
        yield "torchgpipe", Side([*script, "--second", name, kind])


def measure(name, kind, directory, rounds, with_second):
    """Per column, the times of all rounds."""
    all_sides, found = dict(sides(name, kind, directory, with_second)), {}
    for number in range(rounds):
        for side in sorted(all_sides, reverse=number % 2 == 1):
            for column, value in zip(["", " alone", " at once"], all_sides[side].round()):
                found.setdefault(side + column, []).append(value)
    for side in all_sides.values():
        side.end()
    return found


def probability(skip, n):
    """That the median lies in the range of n measured values without `skip` at each end. Else at most `skip` values lie on one side of it."""
    return 1 - 2 * sum(math.comb(n, k) for k in range(skip + 1)) / 2 ** n


def skipped(n):
    """The most values that the range can lack at each end and hold the median with at least 95 %. Of fewer than 6 values the whole range has less: 0."""
    return max((skip for skip in range(n // 2) if probability(skip, n) >= 0.95), default=0)


def interval(values):
    """The ends of that range."""
    ordered, skip = sorted(values), skipped(len(values))
    return ordered[skip], ordered[-1 - skip]


def ratio(above, below):
    """Of two columns; a dash where one does not exist."""
    if not above:
        return "–"
    each = [a / b for a, b in zip(above, below)]
    low, high = interval(each)
    return f"{statistics.median(each):.2f} ({low:.2f} to {high:.2f})"


def row(name, kind, found):
    def time_of(column):
        return f"{statistics.median(found[column]):.2f}" if column in found else "–"

    ours = found["pipec"]
    columns = [name, kind, time_of("torch"), time_of("torchgpipe"), time_of("pipec"), time_of("pipec alone"), time_of("pipec at once"),
               ratio(ours, found["pipec alone"]), ratio(ours, found["pipec at once"]), ratio(found["torch"], ours), ratio(found.get("torchgpipe"), ours)]
    return f"| {' | '.join(columns)} |"


def main():
    arguments = sys.argv[1:]
    if arguments[:1] in (["--theirs"], ["--second"]):
        (theirs if arguments[0] == "--theirs" else second)(*arguments[1:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[name for name in MODELS if name not in ONLY_WHEN_NAMED])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--torchgpipe", action="store_true")
    parser.add_argument("--cores")
    asked = parser.parse_args()
    if asked.torchgpipe and not importlib.util.find_spec("torchgpipe"):
        raise SystemExit("torchgpipe is not installed. Install it with: pip install --no-deps torchgpipe\n"
                         "or outside this environment with: pip install --no-deps --target DIR torchgpipe, then set PYTHONPATH=DIR")
    cores = list(map(int, asked.cores.split(","))) if asked.cores else sorted(os.sched_getaffinity(0))[:STAGES]
    os.sched_setaffinity(0, cores)  # all sides inherit it
    print(f"{asked.rounds} rounds; a range in parentheses holds the median with {probability(skipped(asked.rounds), asked.rounds):.1%}\n")
    print("| model | schedule | PyTorch ms | torchgpipe ms | pipec ms | limit alone | limit at once | pipec / alone | pipec / at once | PyTorch / pipec "
          "| torchgpipe / pipec |")
    print("|---" * 11 + "|", flush=True)
    for name in asked.models:
        with tempfile.TemporaryDirectory() as path:
            compile_ours(name, Path(path))
            for kind in asked.kinds.split(","):
                print(row(name, kind, measure(name, kind, Path(path), asked.rounds, asked.torchgpipe)), flush=True)


if __name__ == "__main__":
    main()
