#!/usr/bin/env python3
"""repeat-runs.py [--runs N] [--at-once K] WHAT OPTION...: how many different results many runs of one command have.

`pipe-run WHAT OPTION...` runs N times, K at once; for trainings (--train) both the gradients of the last step and the trained weights are compared, else
the results. The table has a line per result: how many runs wrote it, and the digests of its files. One line is right: same input, same bits. Effects of the first
calls of a process are only seen by many short runs (--steps 1), those of many threads only with more ranks than idle cores. $PIPEC_BIN has the commands.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
RUN = Path(os.environ.get("PIPEC_BIN", SOURCE / "build" / "release" / "bin")).resolve() / "pipe-run"


def digests(what, options):
    """Of the files that one run writes."""
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory) / name for name in ("output.pt", "gradients.pt")]
        arguments = ["--output", files[0], *(["--emit-grads", files[1]] if "--train" in options else [])]
        run = subprocess.run([str(word) for word in (RUN, what, *options, *arguments)], capture_output=True, text=True)
        if run.returncode:
            sys.exit(run.stderr)
        return tuple(hashlib.sha256(file.read_bytes()).hexdigest()[:12] for file in files if file.exists())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=3 * os.cpu_count())
    parser.add_argument("what")
    given, options = parser.parse_known_args()
    with concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
        results = collections.Counter(pool.map(lambda _: digests(given.what, options), range(given.runs)))
    for result, runs in results.most_common():
        print(f"{runs:6} {' '.join(result)}")
    print(f"{given.runs} runs, {len(results)} different results")
    return len(results) != 1


sys.exit(main())
