"""Random models (tests/support/random_models.py): the stages must give the bits of the unsplit model.

    random_graphs.py [--count 100] [--first 0] [--jobs N]

Each model is cut at random: where it has markers, before random calls of its modules, or by cost into a random number of stages. The stages run
by hand in plain PyTorch, twice (the second call goes on from the state of the first), and with pipe-run; the reference is torch.jit.load. Models with
random operators run with pipe-run only, against pipe-run on the unsplit model, in two micro-batches. A refusal (exit 4: a row of the table) is allowed, but 90 %
must compile; 30 % of the cuts must cross something other than a tensor or a tensor that lies in the memory of another value; every kind of
model_kinds.py must occur in 5 % of the models. What fails stays in the directory with its seed.
"""
import argparse
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch

import e2e

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import model_inputs  # noqa: E402
import model_kinds  # noqa: E402
import random_models  # noqa: E402
import stages_by_hand  # noqa: E402

USAGE, UNSUPPORTED = 2, 4
# Of a call that --at names: it may be dead code, or all calls in front of it may be.
NO_PLACE = re.compile(r"begin at the same operator|calls no module|has no operators left|leaves the first stage empty")
NOT_ONE_VALUE = "expected the same value from all micro-batches"
FEWER = re.compile(r"at most (\d+)")


class Failed(Exception):
    pass


@dataclass
class Outcome:
    seed: int
    what: str  # compiled, refused, failed
    text: str = ""
    kinds: set = field(default_factory=set)
    cuts: list = field(default_factory=list)  # the kinds of what crosses each
    how: str = ""  # markers, calls, cost, random costs
    moved: bool = False  # operators, to cut better


def must(run, what):
    if run.code:
        raise Failed(f"{what}: exit {run.code}: {run.err.strip()}")


# --- One model ------------------------------------------------------------------------------------------------------------------------
def compileOptions(model):
    """(how it is cut, options)"""
    rng = random.Random(model.seed + 1)
    training = any(one.training for one in torch.jit.load(str(model.path)).modules() if hasattr(one, "training"))  # then --infer is another model
    extra = rng.choice([[], ["--tied", "transmit"], [] if model.random or training else ["--infer"]])
    if model.markers and rng.random() >= 0.9:
        return "markers", model.optionsWithoutExample() + extra + ["--nearest"]
    options = model.options() + extra + ["--inputs", model.inputs]
    if model.markers:
        return "markers", options + ["--nearest"]
    if model.calls[1:] and rng.random() < 0.55:
        names = rng.sample(model.calls[1:], min(len(model.calls) - 1, rng.choice([1, 2, 3])))
        return "calls", options + ["--nearest", "--at", ",".join(sorted(names, key=model.calls.index))]
    return "cost", options + ["--stages", rng.choice([2, 2, 3, 3, 4, 5])]


def compileModel(model, artifact):
    """(the finished command, its options, how the model was cut). Fewer stages where the model has not as many places: the message says how many."""
    how, options = compileOptions(model)
    run = e2e.run("pipe-compile", model.path, "-o", artifact, "--force", *options)
    if run.code == USAGE and how == "calls" and NO_PLACE.search(run.err):
        how, options = "cost", [*model.options(), "--inputs", model.inputs, "--stages", 2]
        run = e2e.run("pipe-compile", model.path, "-o", artifact, "--force", *options)
    most = FEWER.search(run.err)
    if run.code == UNSUPPORTED and how == "cost" and most and int(most[1]) > 1:
        options[-1] = most[1]
        run = e2e.run("pipe-compile", model.path, "-o", artifact, "--force", *options)
        must(run, f"the error said at most {most[1]} stages, but pipe-compile {' '.join(map(str, options))}")
    if how == "cost" and run.code == 0 and random.Random(model.seed + 2).random() < 0.6:
        table = randomCosts(model, artifact, options)
        how, options = "random costs", [*options, "--cost", table]
        run = e2e.run("pipe-compile", model.path, "-o", artifact, "--force", *options)
    return run, options, how


def randomCosts(model, artifact, options):
    """A table that makes it worth while to move operators."""
    rng, table = random.Random(model.seed + 3), model.path.with_suffix(".costs.json")
    must(e2e.run("pipe-compile", model.path, "-o", artifact, "--force", *options, "--emit-costs", table), "pipe-compile for a table")
    document = json.loads(table.read_text())
    for row in document["operators"]:
        row["forward_ns"] = rng.randrange(1_000_000) if rng.random() < 0.6 else 0
    table.write_text(json.dumps(document))
    return table


def copies(inputs):
    return model_inputs.mapped(inputs, torch.Tensor.clone)


def sameByHand(model, stages, inputs, second):
    """Two calls. What a model writes into its arguments is seen by what it reads of them later, not by the caller of the stages."""
    whole = torch.jit.load(str(model.path))
    for name, values in (("first", inputs), ("second", second)):
        expected = model_inputs.call(getattr(whole, model.method), copies(values))
        wrong = e2e.firstDifference(expected, model_inputs.call(stages.run, copies(values)))
        if wrong:
            raise Failed(f"by hand, {name} call: the stages differ from the unsplit model: {wrong}")


def sameWithPipeRun(model, artifact, inputs, batches):
    options = ["--inputs", model.inputs, "--threads", 1, "--microbatches", batches, "--force", "--output"]
    expected, output = model.path.with_suffix(".expected.pt"), model.path.with_suffix(".output.pt")
    run = e2e.run("pipe-run", artifact, *model.library, *options, output)
    if batches > 1 and NOT_ONE_VALUE in run.err:  # documented: an int or bool that was one for the example may differ between micro-batches
        return sameWithPipeRun(model, artifact, inputs, 1)
    must(run, "pipe-run of the stages")
    if model.random:
        must(e2e.run("pipe-run", model.path, *model.options(), *options, expected), "pipe-run of the unsplit model")
    reference = torch.load(expected) if model.random else model_inputs.call(getattr(torch.jit.load(str(model.path)), model.method), copies(inputs))
    wrong = e2e.firstDifference(reference, torch.load(output))
    if wrong:
        raise Failed(f"pipe-run: the stages differ from the unsplit model: {wrong}")


def check(model, outcome):
    artifact = model.path.with_suffix(".pipe")
    inputs = torch.load(model.inputs)
    run, options, outcome.how = compileModel(model, artifact)
    outcome.text = f"pipe-compile {model.path.name} {' '.join(map(str, options))}"
    if run.code == UNSUPPORTED:
        outcome.what, outcome.text = "refused", run.err.strip().splitlines()[0]
        return
    must(run, "pipe-compile")
    documented = e2e.documented("artifact.md", "run")
    stages = stages_by_hand.Stages(artifact, documented["bind"], documented["tree"])
    outcome.moved = any(text.startswith("reorder operators ") for text in stages.plan["obligations"])
    signature = stages.plan["signature"]
    generalises = signature["batch_symbolic"] and "batch generalises" in outcome.kinds
    second = model_inputs.mapped(inputs, model_inputs.fewer) if generalises else inputs
    with torch.no_grad(), torch.jit.optimized_execution(False):
        if model.random:
            model_inputs.call(stages.run, copies(inputs))  # other numbers than pipec draws: only for the look at the cuts
        else:
            sameByHand(model, stages, inputs, second)
        outcome.cuts = stages.cuts()
        if model.random or model.seed % 4 == 0:
            joins = generalises and signature["batch_size"]  # 0: compiled without an example, which says how results are joined
            sameWithPipeRun(model, artifact, inputs, 2 if model.random and joins else 1)


def checkSeed(seed):
    outcome = Outcome(seed, "compiled")
    model = random_models.write(seed, Path.cwd())
    try:
        outcome.kinds = model_kinds.kindsOf(model.path, torch.load(model.inputs), model.method)
        check(model, outcome)
        for path in Path.cwd().glob(f"random_{seed}.*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    except (Failed, RuntimeError, TypeError, subprocess.TimeoutExpired) as error:  # from PyTorch, when it runs a stage; a command that hangs
        outcome.what, outcome.text = "failed", f"{str(error).strip()}\n  {outcome.text}\n  the model: {model.source}"
    return outcome


# --- All of them ------------------------------------------------------------------------------------------------------------------------
def refusalRows():
    """name -> what matches its message"""
    rows = json.loads(e2e.run("pipe-opt", "--list-refusals").out)["refusals"]
    return {row["name"]: re.compile(".*".join(re.escape(part) for part in row["message"].split("{}"))) for row in rows}


def rowOf(text, rows):
    return next((name for name, pattern in rows.items() if pattern.search(text)), "NOT IN THE TABLE")


def share(part, whole):
    return f"{part} of {whole} ({100.0 * part / max(1, whole):.1f} %)"


def report(outcomes, rows):
    """Prints the tables; the names of what is too rare."""
    kinds = Counter(kind for one in outcomes for kind in one.kinds)
    equal = Counter(kind for one in outcomes if one.what == "compiled" for kind in one.kinds)
    print("kind of demand                models  of these equal")
    for kind in model_kinds.KINDS:
        print(f"  {kind:28}{kinds[kind]:6}{equal[kind]:8}")
    cuts = [cut for one in outcomes for cut in one.cuts]
    crossing = Counter(kind for cut in cuts for kind in cut)
    print("what crosses a cut of the stages: " + ", ".join(f"{kind} {count}" for kind, count in crossing.most_common()))
    print("cut by: " + ", ".join(f"{how} {count}" for how, count in Counter(one.how for one in outcomes if one.what == "compiled").most_common()))
    print(f"operators moved to cut better: {sum(one.moved for one in outcomes)} models")
    refused = Counter(rowOf(one.text, rows) for one in outcomes if one.what == "refused")
    for row, count in refused.most_common():
        print(f"refused {count}: {row}")
    return kinds, [cut for cut in cuts if cut - {"tensors", "nothing"}], cuts, refused


def judge(outcomes, rows):
    """What is wrong with the whole; in small counts the least shares are lower by three standard deviations, so that chance does not decide."""
    count = len(outcomes)
    kinds, rich, cuts, refused = report(outcomes, rows)

    def least(wanted, of):
        return wanted * of if of >= 1000 else wanted * of - 3 * (wanted * (1 - wanted) * of) ** 0.5

    compiled = sum(one.what != "refused" for one in outcomes)
    rare = [f"{kind} in {kinds[kind]}" for kind in model_kinds.KINDS if kinds[kind] < least(0.05, count)]
    print(f"compiled: {share(compiled, count)}; cuts that a non-tensor or an alias crosses: {share(len(rich), len(cuts))}")
    if rare:
        yield f"kinds in fewer than 5 % of the models: {', '.join(rare)}"
    if compiled < least(0.9, count):
        yield "fewer than 90 % of the models compile"
    if len(rich) < least(0.3, len(cuts)):
        yield "fewer than 30 % of the cuts are crossed by a non-tensor or an alias"
    if refused["NOT IN THE TABLE"]:
        yield f"{refused['NOT IN THE TABLE']} refusals are in no row of the table"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    wanted = parser.parse_args()
    e2e.workInFreshDirectory()
    torch.set_num_threads(1)
    begin = time.time()
    outcomes = []
    with multiprocessing.get_context("fork").Pool(wanted.jobs, maxtasksperchild=100) as pool:
        for one in pool.imap_unordered(checkSeed, range(wanted.first, wanted.first + wanted.count), chunksize=5):
            outcomes.append(one)
            if one.what != "compiled":
                print(f"{'FAILED' if one.what == 'failed' else '  refused'} seed {one.seed}: {one.text}", flush=True)
    problems = list(judge(outcomes, refusalRows()))
    equal, refused, failed = (sum(one.what == what for one in outcomes) for what in ("compiled", "refused", "failed"))
    used = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"random graphs, seeds {wanted.first} to {wanted.first + wanted.count - 1}: {equal} equal, {refused} refused, {failed} failed; "
          f"{time.time() - begin:.0f} s, {used:.0f} s of one core")
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if failed or problems else 0


if __name__ == "__main__":
    sys.exit(main())
