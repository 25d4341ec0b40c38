"""Every fault that the compiler can be told to make must be caught by its own proof: exit 70, an error, nothing published.

    planted_faults.py [NAME...]         without names: every fault of the build; exit 77 when the build has none (PIPEC_PLANTED_FAULTS)
    planted_faults.py --random COUNT    each into COUNT random models that have a place for it (seeds from 0 on), as far as 40 models have
"""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List

import torch
from torch import Tensor, nn
from torch.nn import functional as F

COMPILE = (Path(os.environ.get("PIPEC_BIN", "build/bin")) / "pipe-compile").resolve()
INTERNAL = 70
CUTS = "second,third,last"

# Faults that need another compile than the usual one.
OPTIONS = {"wrong-weight-channel": ["--tied", "transmit"]}
# Faults that need another model.
MODELS = {"swapped-objects": "quantised.pt"}


# --- A model with a place for every fault -------------------------------------------------------------------------------------------
class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.25)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(torch.relu(self.fc1(x)))) - x


class Everything(nn.Module):
    """Skips, tied weights, dropout, buffers written in place and sharing memory, counters, control flow, constants, several results."""

    def __init__(self, width: int = 8):
        super().__init__()
        offsets = torch.arange(width, dtype=torch.float32)
        self.first, self.second, self.third, self.last = Block(width), Block(width), Block(width), Block(width)
        self.embed, self.gate, self.head = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.head.weight = self.embed.weight
        self.spare = nn.Linear(width, width)  # never called: names of weights that others read
        self.spare.weight, self.spare.bias = self.embed.weight, self.gate.bias
        self.unread = nn.Parameter(torch.randn(width, width))
        self.shift = torch.jit.trace(lambda x: x + offsets, torch.zeros(2, width))  # captures a tensor constant
        self.register_buffer("seen", torch.zeros(6))
        self.register_buffer("tail", self.seen[2:])
        self.calls = 0
        self.rows = 0

    def forward(self, x: Tensor, y: Tensor, times: int = 3) -> Dict[str, Tensor]:
        if x.size(0) > 1000:
            raise RuntimeError("too many rows")
        a = self.first(self.gate(self.embed(x)))
        self.calls = self.calls + 1
        self.rows = self.rows + x.size(0)
        b = self.second(a) * y + self.gate.bias
        tail = self.tail.sum()
        self.seen.add_(1.5)
        self.seen.mul_(0.5)
        c = self.third(self.shift(b)) + 0.5 * a
        if bool(c.sum() > 0):
            c = torch.tanh(c)
        else:
            c = c.sigmoid()
        for i in range(times):
            c = c * 0.75 + b
        c.mul_(2.0)
        c.add_(y)
        d = self.last(c) - a + x
        for j in range(2):
            d = torch.sin(d * (0.5 + j)) + torch.zeros([x.size(0), y.size(1)])
        parts: List[Tensor] = [d, torch.sum(self.head(d), dim=1, keepdim=True)]
        return {"joined": torch.cat(parts, 1), "early": b, "middle": c * tail * x.size(0), "count": a.sum(1) * self.calls, "rows": a * self.rows}


class Quantised(nn.Module):
    """Its weights are packed in objects of one type."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.first, self.second, self.third, self.last = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.third(self.second(self.first(x)).relu()).relu())


# --- Compiling it -----------------------------------------------------------------------------------------------------------------------
def compileWith(model, options):
    """(exit code, stderr, what is left, what is wrong with the reproducer); in a directory of its own, so that temporary files are seen."""
    with tempfile.TemporaryDirectory(dir=".") as directory:
        command = [str(COMPILE), model, "--at", CUTS, "-o", "out.pipe", *options]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, cwd=directory)
        left = sorted(path.name for path in Path(directory).iterdir())
        reproducer = Path(directory) / "pipec-reproducer-1"
        return run.returncode, run.stderr, left, checkReproducer(reproducer, run.stderr) if reproducer.exists() else ""


def checkReproducer(directory, message):
    """It says what happened, and pipe-opt goes on from the text of any pass."""
    readme = (directory / "README.txt").read_text()
    if message.splitlines()[0] not in readme:
        return "its README.txt does not hold the error"
    if str(directory.name) not in message:
        return "the message does not name it"
    if any(path.stat().st_size > 100_000 for path in directory.rglob("*")):
        return "it holds more than text"
    before = sorted((directory / "passes").glob("*-split-outputs.ir"))
    if not before:
        return "it has no text of the model"
    replay = f"choose-cuts{{at={CUTS.replace(',', ':')}}},legalise-cuts,rematerialise,insert-transfers,resolve-ties"
    if replay.split(",")[1] not in (directory / "pipeline.txt").read_text():
        return "its pipeline.txt is not the pipeline"
    run = subprocess.run([str(COMPILE.parent / "pipe-opt"), str(before[-1]), "--passes", replay], capture_output=True, text=True, timeout=300)
    return "" if run.returncode == 0 else f"pipe-opt does not replay it: {run.stderr.strip()}"


def faultsOfBuild(model):
    """The help of the error about an unknown name lists the names."""
    code, message, _, _ = compileWith(model, ["--planted-fault", "?"])
    if code != 2:
        sys.exit(f"planted faults: the model does not compile as far as the faults: exit {code}: {message}")
    names = re.search(r"one of ([^;\n]*)", message)
    return names[1].strip().split(", ") if names else []


def check(model, fault):
    """What is wrong, or nothing."""
    model = str(Path(MODELS[fault]).resolve()) if fault in MODELS else model
    code, message, left, reproducer = compileWith(model, ["--planted-fault", fault, *OPTIONS.get(fault, [])])
    if code == 0:
        return "NOT CAUGHT: the artifact was published"
    if code != INTERNAL:
        return f"expected exit {INTERNAL}, got {code}: {message.strip()}"
    if "error: " not in message:
        return "no error was printed"
    if left != ["pipec-reproducer-1"]:
        return f"left behind: {', '.join(left) or 'no reproducer'}"
    if reproducer and fault not in MODELS:  # texts hold no objects
        return f"the reproducer: {reproducer}"
    print(f"  {fault}: {message.strip().splitlines()[0][:180]}", flush=True)
    return ""


# --- Random models ------------------------------------------------------------------------------------------------------------------
def plantAtRandom(faults, wanted):
    """Faults that were not caught. Prints for each fault how many models had a place for it."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
    import random_models

    caught, missed, none = dict.fromkeys(faults, 0), [], "has nothing to"
    for seed in range(40):
        model = random_models.write(seed, Path.cwd())
        usual = [*model.options(), "--inputs", str(model.inputs.resolve())] + ([] if model.markers else ["--stages", "3"])
        if compileAnywhere(model.path, usual)[0] != 0:
            continue  # refused, or too few places to cut
        for fault in faults:
            if caught[fault] >= wanted:
                continue
            code, message = compileAnywhere(model.path, [*usual, *OPTIONS.get(fault, []), "--planted-fault", fault])
            if code == INTERNAL:
                caught[fault] += 1
            elif code == 0 or none not in message:
                missed.append(f"{fault} in seed {seed}: exit {code}: {message.strip() or 'the artifact was published'}")
    print("random models with a place for each fault: " + ", ".join(f"{fault} {count}" for fault, count in caught.items()))
    return missed


def compileAnywhere(model, options):
    """(exit code, stderr)"""
    with tempfile.TemporaryDirectory(dir=".") as directory:
        run = subprocess.run([str(COMPILE), str(model.resolve()), "-o", "out.pipe", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, timeout=300, cwd=directory)
        return run.returncode, run.stderr


def main(names):
    torch.manual_seed(3)
    torch.jit.save(torch.jit.script(Everything()), "everything.pt")
    model = str(Path("everything.pt").resolve())
    torch.jit.save(torch.jit.script(torch.ao.quantization.quantize_dynamic(Quantised(), {nn.Linear})), "quantised.pt")
    known = faultsOfBuild(model)
    if not known:
        print("planted faults: this build has none (configure with -DPIPEC_PLANTED_FAULTS=ON)")
        return 77
    if names[:1] == ["--random"]:
        missed = plantAtRandom(known, int(names[1]))
        for text in missed:
            print(f"FAILED {text}")
        return 1 if missed else 0
    for options in ([], ["--tied", "transmit"]):
        code, message, left, _ = compileWith(model, options)
        if code or left != ["out.pipe"]:
            print(f"FAILED: the model without a fault: exit {code}, {left}: {message.strip()}")
            return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = list(pool.map(lambda fault: (fault, check(model, fault)), names or known))
    wrong = [(fault, why) for fault, why in wrong if why]
    for fault, why in wrong:
        print(f"FAILED {fault}: {why}")
    print(f"planted faults: {len(names or known) - len(wrong)} of {len(names or known)} caught")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
