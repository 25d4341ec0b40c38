"""Part of tools/gpu-check: checks that stages on the GPU give the unsplit model's numbers, and times both in turn. BIN WORK"""
import json
import os
import statistics
import subprocess
import sys

TURNS, STEPS, WARMUP = 5, 20, 5


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def median(bin, what, inputs):
    done = run(f"{bin}/pipe-run", what, "--inputs", inputs, "--microbatches", "4", "--device", "cuda:0", "--repeat", str(STEPS),
               "--warmup", str(WARMUP), "--json")
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["step_ms"]["median"]


def check(bin, work, name, stages):
    model, inputs = f"{work}/{name}.pt", f"{work}/{name}.inputs4.pt"
    artifact, reference = f"{work}/{name}-{stages}.pipe", f"{work}/{name}.{stages}.unsplit.pt"
    common = ["--inputs", inputs, "--microbatches", "4", "--device", "cuda:0"]
    for step in ([f"{bin}/pipe-compile", model, "--stages", str(stages), "--inputs", f"{work}/{name}.inputs.pt", "-o", artifact],
                 [f"{bin}/pipe-run", model, *common, "--output", reference],
                 [f"{bin}/pipe-run", artifact, *common, "--expect", reference, "--rtol", "0", "--atol", "0"]):
        done = run(*step)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(os.path.basename, step[:2]))}: {done.stderr.strip() or done.stdout.strip()}")
    turns = [(median(bin, model, inputs), median(bin, artifact, inputs)) for _ in range(TURNS)]
    unsplit, staged = (statistics.median(values) for values in zip(*turns))
    return f"unsplit {unsplit:8.3f} ms   staged {staged:8.3f} ms   ratio {staged / unsplit:.3f}   outputs equal"


def main(bin, work):
    print(f"staged against unsplit on one GPU, 4 micro-batches: medians over {TURNS} turns of {STEPS} steps each", flush=True)
    failed = 0
    for name in ("mlp_wide", "unet", "lstm", "demo_resnet50", "demo_gpt2"):
        made = run(sys.executable, "tests/support/models.py", work, name)
        if made.returncode:  # torchvision and transformers need not be here
            print(f"  {name:14} not made: {made.stderr.strip().splitlines()[-1]}", flush=True)
            failed += "ModuleNotFoundError" not in made.stderr
            continue
        for stages in (1, 2, 4):
            try:
                print(f"  {name:14} {stages} stages   {check(bin, work, name, stages)}", flush=True)
            except RuntimeError as error:
                failed += 1
                print(f"  {name:14} {stages} stages   FAILED: {error}", flush=True)
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
