"""Random models in training mode (tests/support/random_trainings.py): compile, every gradient compared, and train as the unsplit model does.

    random_trainings.py [--count 30] [--first 0] [--jobs N] [--device DEVICE]

Each model is cut into a random number of stages, with shared weights sent or copied. Two steps of uneven micro-batches run under a random schedule; gradients,
weights and state have the bits of `pipe-run MODEL.pt --train`, or differ by the tolerance where a weight is in several stages. What PyTorch itself refuses
is left out. Refusals (exit 4) are counted; nine of ten models must compile. What fails stays in the directory with its seed. With "test" or "test:any" of a
test build as the pipeline's device, the order of streams is checked, too. Such a device copies the inputs, and a copy may have another alignment in memory
and so other last bits; there both runs get micro-batches that were cut before.
"""
import argparse
import functools
import multiprocessing
import os
import random
import re
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import torch

import e2e

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import random_trainings  # noqa: E402

UNSUPPORTED = 4
SCHEDULES = ["gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2", "zb-auto"]
OF_TWO_STAGES_PER_RANK = ["interleaved-1f1b", "interleaved-zb", "zb-v", "zb-v-auto", "v-half", "v-min"]
TIED = 1e-4  # relative L2 after two steps with momentum; nearly all are within 1e-5, but stages' parts of a gradient may cancel (seed 912: 2e-5)


def leftOut(path):
    """What PyTorch says against it."""
    try:
        model = torch.jit.load(path).train()
        with torch.jit.optimized_execution(False):
            result = model(*torch.load(path.replace(".pt", ".inputs.pt")))
            (result[1] if isinstance(result, tuple) else result).backward()
    except RuntimeError as error:
        return str(error).strip().splitlines()[-1][:100]
    return ""


def compiled(rng, path, inputs, options, artifact):
    command = [path, "--train", *options, "--inputs", inputs, "-o", artifact, "--force", "--tied", rng.choice(["transmit", "replicate"]), "--recompute",
               rng.choice(["always", "never"]), "--stages"]
    run = e2e.run("pipe-compile", *command, rng.choice([2, 3, 4]))
    most = re.search(r"at most (\d+)", run.err)
    if run.code == UNSUPPORTED and most and int(most[1]) > 1:
        run = e2e.run("pipe-compile", *command, most[1])
    return run


def hasWeightsOfSeveralStages(artifact):
    """Where a branch uses one, it need not have had a gradient in the compile's examples."""
    stages = Counter(attribute["name"] for stage in e2e.plan(artifact)["stages"] for attribute in stage["attributes"] if attribute.get("requires_grad"))
    return any(count > 1 for count in stages.values())


def presplit(inputs, parts):
    path = inputs.replace(".inputs.pt", ".cut.pt")
    torch.save([tuple(part.clone() for part in each) for each in zip(*(value.tensor_split(parts) for value in torch.load(inputs)))], path)
    return path


def differs(kind, tied):
    expected, actual = torch.load(f"{kind}.expected.pt"), torch.load(f"{kind}.pt")
    if kind.endswith("grads") and set(expected) != set(actual):
        return f"names of gradients: {sorted(set(expected) ^ set(actual))}"
    for name in set(expected) & set(actual):
        a, b = expected[name], actual[name]
        difference = e2e.firstDifference(a, b, f"{kind} of {name}")
        if difference and not (tied and (a.double() - b.double()).norm() <= TIED * a.double().norm()):
            return difference
    return ""


def check(seed, device):
    """(seed, outcome, text, kinds)"""
    rng = random.Random(seed + 1)
    torch.set_num_threads(1)
    path, inputs, options, kinds = random_trainings.write(seed, ".")
    why = leftOut(path)
    if why:
        return seed, "left out", why, kinds
    artifact, stem = f"training_{seed}.pipe", f"training_{seed}"
    run = compiled(rng, path, inputs, options, artifact)
    if run.code == UNSUPPORTED:
        return seed, "refused", run.err.splitlines()[0], kinds
    if run.code:
        return seed, "failed", run.err.strip(), kinds
    tied = hasWeightsOfSeveralStages(artifact)
    parts = rng.choice([1, 2, 3])
    batch = ["--inputs", inputs, "--microbatches", parts] if device == "cpu" else ["--inputs", presplit(inputs, parts), "--presplit"]
    step = ["--train", *batch, "--steps", 2, "--optimizer", "sgd,lr=0.05,momentum=0.9", "--force"]
    if rng.random() < 0.3:
        step += ["--clip-norm", 0.5]
    isEven = len(e2e.plan(artifact)["stages"]) % 2 == 0
    schedule = rng.choice(SCHEDULES + (OF_TWO_STAGES_PER_RANK if isEven else []))
    for model, how, ending in ((path, options, ".expected.pt"), (artifact, ["--schedule", schedule, "--device", device], ".pt")):
        done = e2e.run("pipe-run", model, *step, *how, "--emit-grads", f"{stem}.grads{ending}", "--output", f"{stem}.state{ending}")
        if done.code:
            return seed, "failed", f"{model} {schedule}: {done.err.strip()}", kinds
    wrong = differs(f"{stem}.grads", tied) or differs(f"{stem}.state", tied)
    if wrong:
        return seed, "failed", f"{schedule}: {wrong}", kinds
    for file in Path(".").glob(f"{stem}.*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    return seed, "near" if tied else "equal", "", kinds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu")
    wanted = parser.parse_args()
    e2e.workInFreshDirectory()
    begin, outcomes, kinds = time.time(), Counter(), Counter()
    with multiprocessing.get_context("fork").Pool(wanted.jobs) as pool:
        for seed, outcome, text, found in pool.imap_unordered(functools.partial(check, device=wanted.device), range(wanted.first, wanted.first + wanted.count)):
            outcomes[outcome] += 1
            kinds.update((kind, outcome) for kind in found)
            if text:
                print(f"{outcome} seed {seed}: {text}", flush=True)
    print("kind                        models  equal   near")
    for kind in [*random_trainings.KINDS, *random_trainings.OF_MODEL]:
        print(f"  {kind:26}{sum(count for (each, _), count in kinds.items() if each == kind):6}{kinds[kind, 'equal']:7}{kinds[kind, 'near']:7}")
    tried = wanted.count - outcomes["left out"]
    print(f"random trainings, seeds {wanted.first} to {wanted.first + wanted.count - 1}: {outcomes['equal']} equal, {outcomes['near']} within the tolerance of "
          f"shared weights, {outcomes['refused']} refused, {outcomes['left out']} left out, {outcomes['failed']} failed; {time.time() - begin:.0f} s")
    return 1 if outcomes["failed"] or outcomes["refused"] > 0.1 * tried + 1 else 0


if __name__ == "__main__":
    sys.exit(main())
