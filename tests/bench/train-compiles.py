"""train-compiles.py [--rounds N] NAME...: how much longer than a compile for inference the same model's compile with --train takes, with analytic costs.

Models of tests/support/zoo, 4 stages; for training with the loss of tests/support/zoo/with_loss.py on top, without it for inference. The two take turns; the table has the
least user and system time of each in seconds (the compile's runs use all cores, so elapsed time depends on what else the machine does) and their ratio. $PIPEC_BIN has the commands.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "support" / "zoo"))
import with_loss  # noqa: E402
import zoo  # noqa: E402

COMPILE = Path(os.environ.get("PIPEC_BIN", SOURCE / "build" / "release" / "bin")).resolve() / "pipe-compile"


def seconds(*command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([str(COMPILE), *map(str, command)], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(name, directory, rounds):
    zoo.make(name, directory)
    example = torch.load(directory / f"{name}.inputs.pt", weights_only=False)
    torch.manual_seed(0)
    with_loss.with_loss(torch.jit.load(directory / f"{name}.pt"), example, str(directory), name).save(str(directory / "loss.pt"))
    common = ["--inputs", directory / f"{name}.inputs.pt", "--stages", 4, "--cost", "analytic", "--force", "-o", directory / "out.pipe"]
    times = {"infer": [], "train": []}
    for _ in range(rounds):
        times["infer"].append(seconds(directory / f"{name}.pt", *common, "--infer"))
        times["train"].append(seconds(directory / "loss.pt", *common, "--train"))
    return min(times["infer"]), min(times["train"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'model':28}{'infer s':>9}{'train s':>9}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as directory:
        for name in wanted.names:
            infer, train = measured(name, Path(directory), wanted.rounds)
            print(f"{name:28}{infer:9.2f}{train:9.2f}{train / infer:7.2f}", flush=True)


if __name__ == "__main__":
    main()
