"""strangers.py [PATTERN...]: models that pipec was not written with, 366 of them, compile to 8 stages, or as many as they can have, and give the unsplit model's bits.

No CTest entry: without a pattern it takes hours. A pattern is a regular expression that a name contains: xf_ are families of
transformers, wi_ programs as authors write them, ti_ timm, tv_ torchvision. Each model is made, compiled with a batch of 2 and, where it has layers in a list, cut at
two of them without examples; both run on that batch whole and on a batch of 5 as two micro-batches (of 4, where tracing has fixed the batch).
A refusal that says how many stages there can be is no fault; what the libraries cannot make or save is left out, and named.
"""
import copy
import re
import shutil
import sys
import warnings
from pathlib import Path

import torch

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support" / "zoo"))
from registry import MODELS  # noqa: E402

import refused_losses  # noqa: E402,F401  with losses.py, models that return their loss, for training_zoo.py
import strangers_media  # noqa: E402,F401  each registers its models, strangers with it
import wild  # noqa: E402,F401

STAGES = 8
# A dict of numbers that no graph tells the keys of: an artifact gives a list of dicts, the unsplit model, which sees the keys, a dict of lists.
BEHIND = {"wi_named", "wi_named_none"}
REFUSED, USAGE = 4, 2
WITHOUT_PLACE = "begins inside|leaves the first stage empty|calls no module|no operators left|cut at the same|at most 1 stage"  # of a name that was taken blindly


def make(entry):
    torch.manual_seed(0)
    module, inputsFor = entry.build()
    values = {}
    for seed, batch in enumerate((2, 4, 5), 1):
        torch.manual_seed(seed)
        values[batch] = inputsFor(batch)
    with torch.no_grad():
        example = copy.deepcopy(values[2])
        if callable(entry.save):
            saved = entry.save(module, example)
        elif entry.save == "script":
            saved = torch.jit.script(module)
        else:
            saved = torch.jit.trace(module, example, strict=False, check_trace=False)
        saved.save("model.pt")
    for batch, value in values.items():
        torch.save(value, f"inputs{batch}.pt")
    return saved


def layers(module):
    """The second and the last of the longest list of modules."""
    lists = {}
    for name, _ in module.named_modules():
        if re.search(r"\.\d+$", name):
            lists.setdefault(name.rsplit(".", 1)[0], []).append(name)
    longest = max(lists.values(), key=len, default=[])
    return [longest[1], longest[-1]] if len(longest) > 2 else longest[1:]


def plain(value):
    """Named tuples as pipec writes them: tuples."""
    if isinstance(value, (tuple, list)):
        return (tuple if isinstance(value, tuple) else list)(map(plain, value))
    return {key: plain(part) for key, part in value.items()} if isinstance(value, dict) else value


class Strangers(e2e.Case):
    def test(self):
        patterns = e2e.NAMES or ["^(xf|wi|ti|tv)_"]
        for name in MODELS:
            if any(re.search(pattern, name) for pattern in patterns):
                with self.subTest(model=name):
                    print(f"{name} ", end="", file=sys.stderr, flush=True)
                    self.one(name, MODELS[name])

    def one(self, name, entry):
        try:
            module = make(entry)
        except Exception as error:  # of any library
            print(f"(not made: {str(error).strip().splitlines()[0][:100]}) ", end="", file=sys.stderr)
            return
        self.behind = name in BEHIND
        self.options = self.libraries() if name.startswith("tv_") else []
        artifacts = [artifact for artifact in (self.byCost(), self.byNames(layers(module))) if artifact]
        signature = e2e.plan(artifacts[0])["signature"] if artifacts else {"inputs": []}
        split = any(value["batch_dim"] is not None for value in signature["inputs"])
        for batch, parts in [(2, 1)] + [(5 if signature["batch_symbolic"] else 4, 2)] * split:
            code, expected = self.ran("model.pt", batch, parts)
            if code == 0 and parts == 1 and not entry.random:
                self.sameBits(self.inPyTorch(batch), expected, "pipe-run of the unsplit model")
            for artifact in artifacts:
                self.compare(artifact, batch, parts, code, expected)
        shutil.rmtree("stages.pipe", ignore_errors=True)
        shutil.rmtree("names.pipe", ignore_errors=True)

    def compare(self, artifact, batch, parts, code, expected):
        result, actual = self.ran(artifact, batch, parts)
        if artifact == "names.pipe" and parts > 1 and code == 0:
            difference = actual if result else e2e.firstDifference(expected, actual)
            if difference and "bits differ" not in difference:
                return  # without examples nothing says how the parts of a result are joined
        self.assertEqual(result, code, f"{artifact}, batch {batch}, {parts} micro-batches: {actual}")
        if code == 0 and not (parts > 1 and self.behind):
            self.sameBits(expected, actual, f"{artifact}, batch {batch}, {parts} micro-batches")

    def byCost(self):
        result = self.compileTo("stages.pipe", "--stages", STAGES, "--inputs", "inputs2.pt")
        most = re.search(r"at most (\d+)", result.err)
        if result.code == REFUSED and most:
            print(f"({most[1]} stages) ", end="", file=sys.stderr)
            if int(most[1]) < 2:
                return None
            result = self.compileTo("stages.pipe", "--stages", most[1], "--inputs", "inputs2.pt")
        self.assertEqual(result.code, 0, result.err)
        return "stages.pipe"

    def byNames(self, names):
        if not names:
            return None
        result = self.compileTo("names.pipe", "--nearest", "--at", ",".join(names))
        if result.code in (REFUSED, USAGE) and re.search(WITHOUT_PLACE, result.err):
            return None
        self.assertEqual(result.code, 0, result.err)
        return "names.pipe"

    def compileTo(self, artifact, *options):
        return e2e.run("pipe-compile", "model.pt", "-o", artifact, "--force", *options, *self.options, timeout=900)

    def ran(self, model, batch, parts):
        result = e2e.run("pipe-run", model, "--inputs", f"inputs{batch}.pt", "--microbatches", parts, "--threads", 1, "--output", "output.pt",
                         "--force", *self.options, timeout=900)
        return result.code, torch.load("output.pt", weights_only=False) if result.code == 0 else result.err

    def inPyTorch(self, batch):
        arguments = torch.load(f"inputs{batch}.pt", weights_only=False)
        with torch.no_grad(), torch.jit.optimized_execution(False):
            module = torch.jit.load("model.pt")
            return plain(module(**arguments) if isinstance(arguments, dict) else module(*arguments))

    def libraries(self):
        """Detectors use operators of torchvision."""
        import torchvision

        return ["--load-library", next(Path(torchvision.__file__).parent.glob("_C*.so"))]


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    e2e.main()
