"""A fault in any pass must be found: by the compile itself, which runs its stages on the example, or, where it has none, by comparing results.

    faulty_passes.py [PASS...]          what each pass may do wrong, in one model with a place for everything; without names: every pass of the pipeline
    faulty_passes.py --all              every fault of graphs after every pass: a table, in a quarter of an hour
    faulty_passes.py --random COUNT     what each pass may do wrong, until each was found in COUNT random models (seeds from 0 on)

The proof that the stages are the normalised source says nothing of the passes that normalise: these faults are in what they hand on. Exit 77 where the build
has none. A fault that changes no bit of any result cannot be found by a run: in random models it counts as having no effect.
"""
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import e2e
from planted_faults import CUTS, OPTIONS, Everything, faultsOfBuild

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import random_models  # noqa: E402

USAGE, INTERNAL = 2, 70
NO_PLACE, NO_EFFECT = "no place", "NOT FOUND: the results are equal"

# What goes wrong in each pass: a row for every pass of pipe-opt --list-passes that changes a model.
FAULTS = {
    "inline": ["wrong-module", "dropped-node"],
    "resolve-markers": ["lost-boundary"],
    "lower-attributes": ["kept-state", "swapped-attributes", "wrong-bool-constant"],
    "split-outputs": ["swapped-results"],
    "fold-constants": ["wrong-int-constant", "dropped-branch"],
    "lower-tuples": ["wrong-value"],
    "unroll-loops": ["lost-iterations", "wrong-int-constant"],
    "remove-list-mutation": ["swapped-elements"],
    "functionalise-containers": ["swapped-elements"],
    "cse": ["wrong-number"],
    "remove-inplace": ["write-made-pure", "reordered-nodes"],
    "dead-code": ["lost-write", "dropped-raise", "dropped-node"],
    "split-branches": ["wrong-value"],
    "choose-cuts": ["lost-boundary"],
    "legalise-cuts": ["lost-boundary", "torn-write"],
    "rematerialise": ["wrong-number"],
    "insert-transfers": ["swapped-ports", "swapped-outputs", "wrong-channel", "wrong-user-input"],
    "resolve-ties": ["wrong-tie", "lost-name", "wrong-weight-channel"],
}
NO_FAULTS = {"simplify", "print-alias", "open-weight-lists"}  # a group of others; prints only; runs with --train only, whose proof e2e/training.py tests
WITH_EXAMPLE = {"split-branches"}  # do not run without
GRAPHS = ("swapped-operands wrong-operator wrong-overload wrong-int-constant wrong-float-constant wrong-bool-constant wrong-alpha dropped-node extra-node "
          "duplicated-random reordered-nodes lost-write write-made-pure dropped-raise dropped-branch lost-iterations wrong-value wrong-number "
          "swapped-elements").split()


class Model:
    """A saved model, how it is cut, and what the unsplit one makes of its inputs: for each file the results, or that it fails."""

    def __init__(self, path, inputs, cut, stages, own=(), library=(), batches=2):
        self.path, self.inputs, self.cut, self.stages = Path(path).resolve(), [Path(one).resolve() for one in inputs], list(cut), stages
        self.library, self.batches = list(library), batches
        with tempfile.TemporaryDirectory(dir=".") as directory:
            self.expected = self.run(path, directory, own)

    def run(self, what, directory, options=()):
        found = []
        for number, inputs in enumerate(self.inputs):
            target = Path(directory) / "output.pt"
            batches = self.batches if number == 0 else 1
            done = e2e.run("pipe-run", what, *self.library, *options, "--inputs", inputs, "--threads", 1, "--microbatches", batches, "--output", target, "--force")
            found.append(torch.load(target) if done.code == 0 else "fails")
        return found


def everything():
    torch.manual_seed(3)
    torch.jit.save(torch.jit.script(Everything()), "everything.pt")
    for name, rows in (("inputs.pt", 4), ("many.pt", 1001)):  # the model raises for more than 1000
        torch.save((torch.randn(rows, 8), torch.randn(rows, 8)), name)
    return Model("everything.pt", ["inputs.pt", "many.pt"], ["--at", CUTS], CUTS.count(",") + 2)


def howFound(model, fault, example):
    """'exit 70' of the compile, 'stages' (their number), 'results', NO_PLACE, or NOT FOUND and why."""
    if not example and fault.split("@")[1] in WITH_EXAMPLE:
        return "not run"
    options = [*model.cut, *(["--inputs", model.inputs[0]] if example else []), *OPTIONS.get(fault.split("@")[0], []), "--planted-fault", fault]
    with tempfile.TemporaryDirectory(dir=".") as directory:
        artifact = Path(directory) / "out.pipe"
        done = e2e.run("pipe-compile", model.path, "-o", "out.pipe", *options, cwd=directory)
        if done.code == USAGE and "has nothing to" in done.err:
            return NO_PLACE
        if done.code == USAGE or done.code and "error: " not in done.err:
            return f"NOT FOUND: exit {done.code}: {done.err.strip()}"
        if done.code:
            return f"exit {done.code}"
        if len(e2e.plan(artifact)["stages"]) != model.stages:
            return "stages"
        return "results" if e2e.firstDifference(model.expected, model.run(artifact, directory)) else NO_EFFECT


def table(models, pairs, harmless):
    """Prints how each fault is found, with and without an example; the names of those that are not."""
    missed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = pool.map(lambda pair: [howFound(models[pair[0]], f"{pair[1]}@{pair[0]}", example) for example in (True, False)], pairs)
        print(f"{'pass':18}{'fault':24}{'with an example':18}without")
        for (name, fault), found in zip(pairs, rows):
            if found == [NO_PLACE] * 2 and harmless:
                continue
            print(f"{name:18}{fault:24}{found[0]:18}{found[1]}", flush=True)
            if any("NOT FOUND" in one and not (harmless and one == NO_EFFECT) or one == NO_PLACE for one in found):
                missed.append(f"{fault}@{name}")
    return missed


# --- Random models ------------------------------------------------------------------------------------------------------------------
def randomModel(seed):
    """None for one that does not compile."""
    made = random_models.write(seed, Path.cwd())
    cut = [*made.options(), *([] if made.markers else ["--stages", 3])]
    if made.random or e2e.run("pipe-compile", made.path, "-o", "whole.pipe", "--force", *cut, "--inputs", made.inputs).code:
        return None
    own = [option for option in made.options() if option not in made.library]
    return Model(made.path, [made.inputs], cut, len(e2e.plan("whole.pipe")["stages"]), own, made.library, batches=1)


def atRandom(pairs, wanted):
    """What the compile let pass although its own example shows it, and faults that no model showed."""
    counts = {pair: {NO_PLACE: 0, NO_EFFECT: 0, "found": 0} for pair in pairs}
    missed, seed = [], -1
    while seed < 99 and any(count["found"] < wanted for count in counts.values()):
        seed += 1
        model = randomModel(seed)
        for name, fault in pairs if model else []:
            count = counts[name, fault]
            if count["found"] < wanted:
                how = howFound(model, f"{fault}@{name}", example=True)
                count[how if how in count else "found"] += 1
                if how == "results" or "exit" in how and "NOT FOUND" in how:
                    missed.append(f"{fault}@{name} in seed {seed}: {how}")
    print(f"{'pass':18}{'fault':24}{'found':>8}{'no effect':>12}{'no place':>12}    in random models, seeds 0 to {seed}")
    for (name, fault), count in counts.items():
        print(f"{name:18}{fault:24}{count['found']:8}{count[NO_EFFECT]:12}{count[NO_PLACE]:12}")
    return missed + [f"{fault}@{name}: found in no model" for (name, fault), count in counts.items() if not count["found"]]


def main(names):
    e2e.workInFreshDirectory()
    everyFault, random = names[:1] == ["--all"], names[:1] == ["--random"]
    pairs = [(name, fault) for name in FAULTS for fault in (GRAPHS if everyFault else FAULTS[name]) if everyFault or random or not names or name in names]
    model = everything()
    if not faultsOfBuild(str(model.path)):
        print("faulty passes: this build has none (configure with -DPIPEC_PLANTED_FAULTS=ON)")
        return 77
    passes = set(re.findall(r"^(\S+)", e2e.run("pipe-opt", "--list-passes").out, re.MULTILINE))
    if passes - NO_FAULTS != set(FAULTS):
        print(f"FAILED: expected faults for every pass, got differences for {', '.join(sorted((passes - NO_FAULTS) ^ set(FAULTS)))}")
        return 1
    if random:
        missed = atRandom(pairs, int(names[1]))
    else:
        marked = Model(e2e.MODELS / "mlp_markers.pt", [e2e.MODELS / "mlp_markers.inputs4.pt"], [], 4)
        missed = table({name: marked if name == "resolve-markers" else model for name in FAULTS}, pairs, harmless=everyFault)
    for one in missed:
        print(f"FAILED: {one}")
    print(f"faulty passes: {len(pairs)} faults, {len(missed)} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
