"""Part of tools/gpu-check: trains small models in stages and unsplit on one device, in float32 and in bfloat16, compares their gradients, and times both in
turn. Compares the peak of the device's allocator with the planned one. BIN WORK [DEVICE]"""
import json
import os
import statistics
import subprocess
import sys

import torch

TURNS, STEPS, WARMUP = 3, 12, 4
LIMIT = 1e-4  # relative L2 of gradients: kernels of a GPU may add in an order that changes
BF16_LIMIT = 2e-2  # the same in bfloat16, which has 8 bits
# cuBLAS takes 32 MiB of the allocator's memory for itself, unless it is told to take little.
SMALL_WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}


def run(*command, env=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode:
        raise RuntimeError(f"{os.path.basename(str(command[0]))} {command[1]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def distance(expected, actual):
    """None: equal bits; else the largest relative L2 distance of two dicts of tensors."""
    if set(expected) != set(actual):
        raise RuntimeError(f"gradients of other names: {sorted(set(expected) ^ set(actual))[:4]}")
    worst = None
    for name, a in expected.items():
        if not torch.equal(a, actual[name]):
            a, b = a.double(), actual[name].double()
            worst = max(worst or 0.0, ((a - b).norm() / (a.norm() + 1e-30)).item())
    return worst


def togetherDistance(expected, actual):
    """Relative L2 of all gradients as one vector: small ones, whose bits are noise in bfloat16, weigh little. 0: equal bits."""
    both = [(expected[name].double(), actual[name].double()) for name in expected]
    apart, size = (sum(each.square().sum().item() for each in all) for all in ([a - b for a, b in both], [a for a, _ in both]))
    return (apart / size) ** 0.5


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


def check(bin, work, device, name, model, batch, stages, recompute):
    artifact = f"{work}/{name}.{stages}.{recompute}.pipe"
    run(f"{bin}/pipe-compile", model, "--train", "--stages", stages, "--inputs", batch, "--cost", "analytic", "--schedule", "1f1b", "--recompute",
        recompute, "-o", artifact, "--force")
    expected, actual = f"{work}/{name}.expected.pt", f"{work}/{name}.actual.pt"
    train(bin, model, batch, device, expected)
    worst = None
    for schedule in ("1f1b", "zb-h1"):
        train(bin, artifact, batch, device, actual, "--schedule", schedule)
        worst = max(filter(None, (worst, distance(torch.load(expected), torch.load(actual)))), default=None)
    turns = [(train(bin, model, batch, device, expected, steps=STEPS)[0], train(bin, artifact, batch, device, actual, steps=STEPS))
             for _ in range(TURNS)]
    unsplit = statistics.median(turn[0] for turn in turns)
    staged = statistics.median(turn[1][0] for turn in turns)
    actions = 4 * stages * (3 if recompute == "always" else 2)  # F and B, and R
    peak = max(turns[-1][1][1].get("peak_memory_bytes", [0]))
    say = "equal bits" if worst is None else f"within {worst:.0e}"
    line = (f"unsplit {unsplit:8.3f} ms   staged {staged:8.3f} ms   ratio {staged / unsplit:.3f}   {1000 * staged / actions:7.1f} us per action   "
            f"peak {peak / 2**20:.0f} MiB   gradients {say}")
    if worst is not None and worst > LIMIT:
        raise RuntimeError(line)
    return line


def checkBf16(bin, work, device, name, model, batch, stages):
    """Two steps under autocast, staged and unsplit; float32 has other gradients."""
    full, expected, actual = (f"{work}/{name}.{what}.pt" for what in ("full", "expected", "actual"))
    train(bin, model, batch, device, full)
    train(bin, model, batch, device, expected, "--precision", "bf16")
    train(bin, f"{work}/{name}.{stages}.never.pipe", batch, device, actual, "--precision", "bf16")
    worst, rounding = (togetherDistance(torch.load(a), torch.load(b)) for a, b in ((expected, actual), (full, expected)))
    line = f"gradients {f'within {worst:.0e}' if worst else 'equal bits'}, {rounding:.0e} from those in float32"
    if not rounding or worst > BF16_LIMIT:
        raise RuntimeError(line)
    return line


def checkPeak(bin, work, device, model, batch, stages):
    """The most bytes that the allocator gave out, and the planned ones of all stages: they share the device, and their peaks may come at different times."""
    artifact = f"{work}/peak.{stages}.pipe"
    report = json.loads(run(f"{bin}/pipe-compile", model, "--train", "--stages", stages, "--inputs", batch, "--microbatches", 4, "--cost", "analytic",
                            "--schedule", "1f1b", "--recompute", "never", "-o", artifact, "--force", "--json"))
    planned = sum(report["prediction"]["peak_memory"])
    out = run(f"{bin}/pipe-run", artifact, "--train", "--inputs", batch, "--microbatches", 4, "--device", device, "--optimizer", "adamw,lr=0.001",
              "--steps", 3, "--json", env=SMALL_WORKSPACE)
    measured = max(json.loads(out[out.index("\n{\n"):])["peak_memory_bytes"])
    return f"peak {measured / 2**20:.1f} MiB   planned {planned / 2**20:.1f} MiB   ratio {measured / planned:.3f}"


def main(bin, work, device="cuda:0"):
    sys.path.insert(0, "tests/support")
    import training_models
    print(f"trainings on {device}, 4 micro-batches, 1f1b and zb-h1: medians over {TURNS} turns of {STEPS - WARMUP} steps each", flush=True)
    os.chdir(work)
    failed = 0
    for name in training_models.MODELS:
        model, batch = training_models.save(name)
        for stages, recompute in ((1, "never"), (2, "never"), (4, "never"), (4, "always")):
            what = f"  {name:11} {stages} stages{', recomputed' if recompute == 'always' else '':13}"
            try:
                print(f"{what} {check(bin, work, device, name, model, batch, stages, recompute)}", flush=True)
            except (RuntimeError, KeyError, ValueError) as error:
                failed += 1
                print(f"{what} FAILED: {error}", flush=True)
    print(f"bfloat16 on {device}, 4 micro-batches, 2 stages, 1f1b", flush=True)
    for name in training_models.MODELS:
        try:
            print(f"  {name:11} {checkBf16(bin, work, device, name, f'{name}.pt', f'{name}.batch.pt', 2)}", flush=True)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            failed += 1
            print(f"  {name:11} FAILED: {error}", flush=True)
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


sys.exit(main(*sys.argv[1:]))
