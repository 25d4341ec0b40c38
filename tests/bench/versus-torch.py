"""versus-torch.py [MODEL...]: steps of torch.distributed.pipelining against pipec on the same models, two stages, two cores.

    --rounds N          pairs per row (default: 10); both sides run in every round, one after the other
    --kinds LIST        of forward, gpipe, 1f1b, interleaved, zb (default: all)

PyTorch: Gloo, one process per stage, one intra-op thread each. pipec: `pipe-run`, one thread per stage. Both: 8 micro-batches, median of the
steps of a round. `limit`: the unsplit model by pipe-run, halved, times (m + 1) / m: what two stages need that lose nothing and split evenly.
The ratio is theirs / ours per round: its median, and the range that holds the median with 95 % (order statistics).

Where the package torchgpipe is installed (`pip install --no-deps torchgpipe`), rows of its schedule have a second column: GPipe with a thread per stage,
without checkpoints, in a process of its own.
"""
import importlib.util
import json
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


# name: a block, the shape of a micro-batch, steps of a round
MODELS = {
    "small-mlp": (lambda: Mlp(64), (4, 64), 100),
    "small-gpt": (lambda: Layer(64, 4), (1, 32, 64), 40),
    "medium-mlp": (lambda: Mlp(512), (32, 512), 20),
    "medium-gpt": (lambda: Layer(256, 8), (2, 64, 256), 8),
}
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


# --- their side: a process per stage


def theirs(name, kind):
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining import schedules

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    per_rank = 2 if kind in ("interleaved", "zb") else 1
    count, all_blocks = STAGES * per_rank, blocks(name)
    held = [rank + i * STAGES for i in range(per_rank)]
    size = BLOCKS // count
    stages = [PipelineStage(nn.Sequential(*all_blocks[s * size:(s + 1) * size]), s, count, torch.device("cpu")) for s in held]
    make = {"forward": schedules._ScheduleForwardOnly, "gpipe": schedules.ScheduleGPipe, "1f1b": schedules.Schedule1F1B,
            "interleaved": schedules.ScheduleInterleaved1F1B, "zb": schedules.ScheduleInterleavedZeroBubble}[kind]
    stage = stages if per_rank > 1 else stages[0]
    schedule = make(stage, MICRO_BATCHES) if kind == "forward" else make(stage, MICRO_BATCHES, loss_fn=mse)
    x, target = batch(name)
    times = []
    for step in range(WARMUP + MODELS[name][2]):
        dist.barrier()
        start = time.perf_counter()
        arguments = (x,) if 0 in held else ()
        if kind == "forward":
            with torch.no_grad():
                schedule.step(*arguments)
        else:
            schedule.step(*arguments, **({"target": target} if count - 1 in held else {}))
        dist.barrier()
        times.append((time.perf_counter() - start) * 1e3)
    if rank == 0:
        print(statistics.median(times[WARMUP:]), flush=True)
    dist.destroy_process_group()


def run_theirs(name, kind):
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(STAGES), "--master-port", "0", "--rdzv-backend", "c10d",
                           "--rdzv-endpoint", "localhost:0", __file__, "--theirs", name, kind], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout.split()[-1])


def second(name, kind):
    from torchgpipe import GPipe

    torch.set_num_threads(1)
    model = GPipe(nn.Sequential(*blocks(name)), [BLOCKS // STAGES] * STAGES, devices=["cpu"] * STAGES, chunks=MICRO_BATCHES, checkpoint="never")
    x, target = batch(name)
    times = []
    for step in range(WARMUP + MODELS[name][2]):
        start = time.perf_counter()
        if kind == "forward":
            with torch.no_grad():
                model(x)
        else:
            model.zero_grad()
            mse(model(x), target).backward()
        times.append((time.perf_counter() - start) * 1e3)
    print(statistics.median(times[WARMUP:]), flush=True)


def run_second(name, kind):
    """None where torchgpipe has no such schedule, or is not installed."""
    if kind not in ("forward", "gpipe") or not importlib.util.find_spec("torchgpipe"):
        return None
    # Its threads do not inherit set_num_threads.
    done = subprocess.run([sys.executable, __file__, "--torchgpipe", name, kind], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout.split()[-1])


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


def last_document(text):
    return json.loads(text[text.rindex('\n{\n') + 1:] if '\n{\n' in text else text)


def run_ours(name, kind, directory, unsplit=False):
    steps = MODELS[name][2]
    if kind == "forward":
        what = "whole.pt" if unsplit else "whole.pipe"
        out = pipec("pipe-run", directory / what, "--inputs", directory / "x.pt", "--microbatches", MICRO_BATCHES, "--threads", 1, "--repeat", steps,
                    "--warmup", WARMUP, "--json")
        return last_document(out)["step_ms"]["median"]
    count = 2 * STAGES if kind in ("interleaved", "zb") else STAGES
    what = ["trained.pt"] if unsplit else [f"trained{count}.pipe", "--schedule", OURS[kind]]
    out = pipec("pipe-run", directory / what[0], *what[1:], "--train", "--inputs", directory / "both.pt", "--microbatches", MICRO_BATCHES, "--steps",
                WARMUP + steps, "--json")
    times = [json.loads(line)["step_ms"] for line in out.splitlines()[:WARMUP + steps]]
    return statistics.median(times[WARMUP:])


def interval(values):
    """The order statistics that hold the median with at least 95 %."""
    ordered, n = sorted(values), len(values)
    skip = max(0, int((n - 1.96 * n ** 0.5) / 2))
    return ordered[skip], ordered[n - 1 - skip]


def main():
    arguments = sys.argv[1:]
    if arguments[:1] in (["--theirs"], ["--torchgpipe"]):
        (theirs if arguments[0] == "--theirs" else second)(*arguments[1:])
        return
    take = lambda option, default: arguments.pop(arguments.index(option) + 1) if option in arguments else default  # noqa: E731
    rounds, kinds = int(take("--rounds", 10)), take("--kinds", ",".join(KINDS)).split(",")
    names = [argument for argument in arguments if not argument.startswith("--")] or list(MODELS)
    print(f"{'model':12}{'schedule':13}{'theirs ms':>10}{'ours ms':>10}{'limit ms':>10}{'ours/limit':>12}{'ratio':>8}   {'95 %':16}torchgpipe ms, ratio")
    for name in names:
        with tempfile.TemporaryDirectory() as path:
            directory = Path(path)
            compile_ours(name, directory)
            for kind in kinds:
                found = [(run_theirs(name, kind), run_ours(name, kind, directory), run_ours(name, kind, directory, unsplit=True), run_second(name, kind))
                         for _ in range(rounds)]
                their, our, whole = (statistics.median(row[i] for row in found) for i in range(3))
                limit = whole / STAGES * (MICRO_BATCHES + STAGES - 1) / MICRO_BATCHES
                ratios = [row[0] / row[1] for row in found]
                line = (f"{name:12}{kind:13}{their:10.2f}{our:10.2f}{limit:10.2f}{our / limit:12.2f}{statistics.median(ratios):8.2f}   "
                        f"{'{:.2f} .. {:.2f}'.format(*interval(ratios)):16}")
                if found[0][3] is not None:
                    others = [row[3] / row[1] for row in found]
                    line += f"{statistics.median(row[3] for row in found):.2f}, {statistics.median(others):.2f} ({'{:.2f} .. {:.2f}'.format(*interval(others))})"
                print(line.rstrip(), flush=True)


if __name__ == "__main__":
    main()
