"""How many random models hold each kind of demand: makes them, looks at the saved files, compiles nothing.

    count_kinds.py [--count 1000] [--first 0] [--jobs N]

Exits 1 when a kind of model_kinds.py is in fewer than 5 % of the models.
"""
import argparse
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

import model_kinds
import random_models

LEAST = 0.05


def kindsOfSeed(seed):
    """(seed, kinds); a word for a model that PyTorch refuses, which is the generator's mistake."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            model = random_models.write(seed, Path(directory))
            return seed, model_kinds.kindsOf(model.path, torch.load(model.inputs), model.method)
        except RuntimeError as error:
            return seed, str(error).strip().splitlines()[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    counts, broken = Counter(), 0
    with multiprocessing.get_context("fork").Pool(wanted.jobs, maxtasksperchild=100) as pool:
        for seed, found in pool.imap_unordered(kindsOfSeed, range(wanted.first, wanted.first + wanted.count), chunksize=5):
            if isinstance(found, str):
                broken += 1
                print(f"FAILED seed {seed}: PyTorch does not run the model: {found}")
            else:
                counts.update(found)
    for kind in model_kinds.KINDS:
        print(f"{kind:28}{counts[kind]:6}")
    rare = [kind for kind in model_kinds.KINDS if counts[kind] < LEAST * wanted.count]
    print(f"seeds {wanted.first} to {wanted.first + wanted.count - 1}: {len(model_kinds.KINDS)} kinds" + (f"; in fewer than 5 %: {', '.join(rare)}" if rare else ""))
    return 1 if rare or broken else 0


if __name__ == "__main__":
    sys.exit(main())
