"""Random models (tests/support/random_models.py): the stages must give the bits of the unsplit model.

    random_graphs.py [COUNT [FIRST_SEED]]     100 models from seed 0 on

Each is compiled into a random number of stages, cut by cost or where the model has markers, and run. The reference is plain
torch.jit.load; for models with random operators it is pipe-run on the unsplit model, and several micro-batches. A model may be
refused (exit 4: a construct, 12: fewer places to cut), but at least 80 of 100 must compile. What fails stays in the directory.
"""
import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import e2e

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import random_models  # noqa: E402

UNSUPPORTED, NO_PLAN = 4, 12
IN_PYTORCH = threading.Lock()  # scripting is not safe in two threads at once, and seeds are global


class Failed(Exception):
    pass


def command(name, *options):
    return subprocess.run([str(e2e.BIN / name), *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)


def must(run, what):
    if run.returncode:
        raise Failed(f"{what}: exit {run.returncode}: {run.stderr.strip()}")


# --- One model ------------------------------------------------------------------------------------------------------------------------
def reference(model, runOptions, path):
    """What the unsplit model makes of the inputs."""
    if model.random:
        must(command("pipe-run", model.path, *runOptions, "--output", path, "--force"), "pipe-run of the unsplit model")
        return torch.load(path)
    inputs = [value.clone() if isinstance(value, torch.Tensor) else value for value in torch.load(model.inputs)]
    with IN_PYTORCH, torch.no_grad(), torch.jit.optimized_execution(False):
        return torch.jit.load(str(model.path))(*inputs)


def compileOptions(model):
    rng = random.Random(model.seed + 1)
    options = ["--inputs", model.inputs] if rng.random() < 0.9 or not model.markers else []
    if not model.markers:
        options += ["--stages", rng.choice([2, 2, 3, 3, 4, 5])]
    return options + rng.choice([[], ["--tied", "transmit"], ["--infer"] if not model.random else []])


def check(model):
    """"compiled" or "refused"; raises Failed."""
    artifact = model.path.with_suffix(".pipe")
    options = compileOptions(model)
    run = command("pipe-compile", model.path, "-o", artifact, "--force", *options)
    if run.returncode in (UNSUPPORTED, NO_PLAN):
        print(f"  seed {model.seed}: refused: {run.stderr.strip().splitlines()[0]}", flush=True)
        return "refused"
    must(run, f"pipe-compile {' '.join(map(str, options))}")
    runOptions = ["--inputs", model.inputs, "--threads", 1, "--microbatches", 2 if model.random else 1]
    expected = reference(model, runOptions, model.path.with_suffix(".expected.pt"))
    output = model.path.with_suffix(".output.pt")
    must(command("pipe-run", artifact, *runOptions, "--output", output, "--force"), "pipe-run of the stages")
    wrong = e2e.firstDifference(expected, torch.load(output))
    if wrong:
        raise Failed(f"the stages differ from the unsplit model: {wrong} (pipe-compile {' '.join(map(str, options))})")
    return "compiled"


def checkSeed(seed):
    with IN_PYTORCH:
        model = random_models.write(seed, Path.cwd())
    try:
        return check(model)
    except Failed as error:
        print(f"FAILED seed {seed}: {error}\n  the model: {model.source}", flush=True)
        return "failed"


def main(arguments):
    count = int(arguments[0]) if arguments else 100
    first = int(arguments[1]) if len(arguments) > 1 else 0
    torch.set_num_threads(1)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the work is in the processes
        outcomes = list(pool.map(checkSeed, range(first, first + count)))
    compiled, refused, failed = (outcomes.count(outcome) for outcome in ("compiled", "refused", "failed"))
    print(f"random graphs, seeds {first} to {first + count - 1}: {compiled} equal, {refused} refused, {failed} failed")
    if compiled + failed < 0.8 * count:
        print("FAILED: fewer than 80 of 100 models compile")
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
