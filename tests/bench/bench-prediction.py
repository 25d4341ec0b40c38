#!/usr/bin/env python3
"""Predicted against measured: five models in two stages on two cores; and the planned cut against equal parts.

    bench-prediction.py DIR [PHASE...] [--models NAME,...] [--bin BIN]

Phases, in this order when none is named; each leaves files in DIR, so that they may run at different times:

    make      saves the models
    costs     times their operators: pipe-compile --cost measured, one process per model and micro-batch size. Where there are costs already,
              those with the lower sum stay: other work on the machine can only make an operator longer
    predict   compiles with those tables: what a step is expected to take, for 2, 4 and 8 micro-batches
    run       pipe-run, 3 steps to warm up and 20 that count: what it takes. Where there are results already, the run with the lower
              median stays: other work on the machine can only make a step longer
    halves    compiles with cuts after half of the parameters, nodes and layers
    cuts      runs those and the planned cut in turns; rounds are added to those that are there
    balance   cuts by the analytic cost model, judged by the measured times: how far the busier stage is above the mean
    report    the tables that docs/benchmarks.md quotes; ends with PASSED or FAILED. Of what has not run yet it says nothing

The machine should have nothing else to do in costs, run and cuts. `uptime` says whether it has. New costs of a model make what was
predicted and run with the old ones void: it is removed.
"""
import argparse
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
MICRO_BATCHES = (2, 4, 8)
STEPS, WARMUP = 20, 3
ROUNDS, STEPS_A_ROUND, CUTS_AT = 8, 12, 4  # to compare cuts: shortest step of a round, 4 micro-batches
BUDGET_S = 3  # for the costs of one model and micro-batch size
LEAST_STAGE_MS = 2.0
warnings.filterwarnings("ignore")


# --- Models: a module, the description of its inputs (B is the batch), the names of its layers, how to save it -----------------------
def resnet50():
    import torch
    import torchvision

    layers = [f"layer{i}.{j}" for i, n in ((1, 3), (2, 4), (3, 6), (4, 3)) for j in range(n)]
    return torchvision.models.resnet50(), "f32[B,3,128,128]", layers, torch.jit.script


def unet():
    import modelzoo
    import torch

    layers = ["stem"] + [f"down.{i}" for i in range(4)] + [f"up.{i}" for i in range(4)]
    return modelzoo.Unet(width=16), "f32[B,3,96,96]", layers, torch.jit.script


def gpt2():
    import models

    return models.gpt2(384, 8, 6, 20011, 64)[0], "i64[B,64]<20000", [f"model.transformer.h.{i}" for i in range(8)], "trace"


def bert():
    import models
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536, vocab_size=8009)
    model = models.PositionalBert(BertForMaskedLM(config), ["input_ids", "attention_mask"])
    return model, "i64[B,64]<8000,i64[B,64]<2", [f"model.bert.encoder.layer.{i}" for i in range(8)], "trace"


def vit():
    import torch
    import torchvision

    model = torchvision.models.VisionTransformer(image_size=112, patch_size=16, num_layers=8, num_heads=6, hidden_dim=384, mlp_dim=1536)
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    return model, "f32[B,3,112,112]", [f"encoder.layers.encoder_layer_{i}" for i in range(8)], torch.jit.script


MODELS = {make.__name__: make for make in (resnet50, unet, gpt2, bert, vit)}
SAMPLES = {"resnet50": (1, 4), "unet": (2, 8), "gpt2": (1, 4), "bert": (1, 4), "vit": (1, 4)}  # of one micro-batch


def scripted(module, inputs, save):
    """The model as TorchScript: traced with two samples, or by its own function."""
    import torch

    if save != "trace":
        return save(module)
    shapes = [[int(n) for n in spec.split("]")[0][1:].split(",")] for spec in inputs.replace("B", "2").replace("i64", "").split(",[")
              for spec in ["[" + spec.lstrip("[")]]
    return torch.jit.trace(module, tuple(torch.randint(1, 2, shape) for shape in shapes), check_trace=False)


class Bench:
    def __init__(self, directory, names, binaries):
        self.directory, self.names, self.bin = directory, names, binaries
        self.directory.mkdir(parents=True, exist_ok=True)

    def cells(self):
        return [(name, samples) for name in self.names for samples in SAMPLES[name]]

    def smallCells(self):
        return [(name, SAMPLES[name][0]) for name in self.names]

    def facts(self, name):
        return json.loads((self.directory / f"{name}.json").read_text())

    def inputs(self, name, batch):
        return self.facts(name)["inputs"].replace("[B", f"[{batch}")

    def tool(self, name, *arguments):
        done = subprocess.run([self.bin / name, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name} {' '.join(map(str, arguments))}\n{done.stderr}")
        return done.stdout

    def compile(self, name, samples, out, *arguments):
        return json.loads(self.tool("pipe-compile", self.directory / f"{name}.pt", "--inputs", self.inputs(name, samples), "--json", "--force",
                                    "-o", self.directory / out, *arguments))

    def runs(self, artifact, name, samples, count, steps, warmup):
        return json.loads(self.tool("pipe-run", self.directory / artifact, "--inputs", self.inputs(name, samples * count), "--microbatches",
                                    count, "--threads", 1, "--repeat", steps, "--warmup", warmup, "--json"))

    def keep(self, what, document):
        (self.directory / f"{what}.json").write_text(json.dumps(document, indent=1))

    def has(self, what):
        return (self.directory / f"{what}.json").exists()

    def kept(self, what):
        return json.loads((self.directory / f"{what}.json").read_text())

    # --- Phases ------------------------------------------------------------------------------------------------------------------
    def make(self):
        import torch

        torch.set_num_threads(1)
        for name in self.names:
            torch.manual_seed(17)
            with torch.no_grad():
                module, inputs, layers, save = MODELS[name]()
                module.eval()
                saved = scripted(module, inputs, save)
            torch.jit.save(saved, self.directory / f"{name}.pt")
            sizes = {key: value.numel() for key, value in module.named_parameters()}
            self.keep(name, {"inputs": inputs, "layers": layers, "parameters": sizes})

    def forget(self, *patterns):
        for pattern in patterns:
            for path in self.directory.glob(f"{pattern}.json"):
                path.unlink()

    def costs(self):
        for name, samples in self.cells():
            self.compile(name, samples, "new.pipe", "--stages", 2, "--cost", "measured", "--cost-budget", f"{BUDGET_S}s", "--verify", "none")
            kept = self.directory / f"{name}-{samples}.pipe"
            before, now = (sum(self.times(artifact / "costs.json")) / 1e6 if artifact.exists() else None
                           for artifact in (kept, self.directory / "new.pipe"))
            print(f"{name} of {samples}: {now:.2f} ms" + ("" if before is None else f", {before:.2f} before"), flush=True)
            if before is not None and before <= now:
                continue
            shutil.rmtree(kept, ignore_errors=True)
            (self.directory / "new.pipe").rename(kept)
            self.forget(*(f"{what}-{name}-{samples}*" for what in ("predicted", "measured", "halves", "cuts", "balance")))

    def predict(self):
        for name, samples in self.cells():
            table = self.directory / f"{name}-{samples}.pipe" / "costs.json"
            for count in MICRO_BATCHES:
                report = self.compile(name, samples, f"{name}-{samples}.pipe", "--stages", 2, "--cost", table, "--microbatches", count,
                                      "--verify", "none", "--dry-run")
                self.keep(f"predicted-{name}-{samples}-{count}", report)

    def run(self):
        for name, samples in self.cells():
            for count in MICRO_BATCHES:
                what = f"measured-{name}-{samples}-{count}"
                new = self.runs(f"{name}-{samples}.pipe", name, samples, count, STEPS, WARMUP)
                if not self.has(what) or new["step_ms"]["median"] < self.kept(what)["step_ms"]["median"]:
                    self.keep(what, new)

    def findHalves(self, name, samples):
        """Where the parameters, nodes and layers before a module are nearest to half of all: {rule: module}."""
        facts = self.facts(name)
        rows = json.loads((self.directory / f"{name}-{samples}.pipe" / "costs.json").read_text())["operators"]
        first = {}  # module -> its first node
        for i, row in enumerate(rows):
            path = row["module"].split("#")[0]
            while path:
                first.setdefault(path, i)
                path = path.rpartition(".")[0]
        total = sum(facts["parameters"].values())
        starts = {key: first.get(key.rpartition(".")[0], 0) for key in facts["parameters"]}  # of the module that holds it
        places = {module: place for module, place in first.items() if place > 0}

        def before(place):
            return sum(size for key, size in facts["parameters"].items() if starts[key] < place)

        parameters = min(places, key=lambda module: abs(before(places[module]) - total / 2))
        nodes = min(places, key=lambda module: abs(places[module] - len(rows) / 2))
        layers = facts["layers"]
        return {"parameters": parameters, "nodes": nodes, "layers": layers[(len(layers) + 1) // 2]}

    def halves(self):
        for name, samples in self.smallCells():
            at = self.findHalves(name, samples)
            for rule, module in at.items():
                self.compile(name, samples, f"{name}-{samples}-{rule}.pipe", "--at", module, "--verify", "none")
            self.keep(f"halves-{name}-{samples}", at)
            self.forget(f"cuts-{name}-{samples}")

    def cuts(self):
        for name, samples in self.smallCells():
            artifacts = {"planned": f"{name}-{samples}.pipe"}
            artifacts.update({rule: f"{name}-{samples}-{rule}.pipe" for rule in self.otherCuts(name, samples)})
            what = f"cuts-{name}-{samples}"
            times = self.kept(what) if self.has(what) else {rule: [] for rule in artifacts}
            for _ in range(ROUNDS):
                new = {rule: self.runs(artifact, name, samples, CUTS_AT, STEPS_A_ROUND, 1)["step_ms"]["min"]
                       for rule, artifact in artifacts.items()}
                for rule, ms in new.items():
                    times[rule].append(ms)
                self.keep(what, times)  # whole rounds only, even if the user stops it

    def otherCuts(self, name, samples):
        """The rules whose stages are not those of the planned cut, to the byte."""
        def stages(artifact):
            lines = (self.directory / artifact / "MANIFEST").read_text().splitlines()
            return [line for line in lines if line.endswith(".pt")]

        planned = stages(f"{name}-{samples}.pipe")
        return [rule for rule in self.kept(f"halves-{name}-{samples}") if stages(f"{name}-{samples}-{rule}.pipe") != planned]

    def balance(self):
        for name, samples in self.cells():
            measured = self.times(self.directory / f"{name}-{samples}.pipe" / "costs.json")
            table = self.directory / f"counted-{name}-{samples}.json"
            found = {}
            for rule, arguments in (("counted", ["analytic", "--emit-costs", table]), ("measured", [self.directory / f"{name}-{samples}.pipe" / "costs.json"])):
                report = self.compile(name, samples, "balance.pipe", "--stages", 2, "--verify", "none", "--dry-run", "--cost", *arguments)
                first = report["stages"][0]["cost_flops"] / 100  # ns
                own = list(itertools.accumulate(self.times(table) if rule == "counted" else measured))
                place = min(range(len(own)), key=lambda i: abs(own[i] - first)) + 1
                halves = sum(measured[:place]), sum(measured[place:])
                found[rule] = max(halves) / statistics.mean(halves) - 1
            found["total_ms"] = [sum(self.times(table)) / 1e6, sum(measured) / 1e6]
            self.keep(f"balance-{name}-{samples}", found)

    @staticmethod
    def times(table):
        return [row["forward_ns"] for row in json.loads(table.read_text())["operators"]]

    def report(self):
        good = True
        cells = [f"{name}-{samples}" for name, samples in self.cells()]
        if all(self.has(f"{what}-{cell}-{count}") for what in ("predicted", "measured") for cell in cells for count in MICRO_BATCHES):
            good = self.reportPrediction()
        if all(self.has(f"cuts-{name}-{samples}") for name, samples in self.smallCells()):
            good = self.reportCuts() and good
        if all(self.has(f"balance-{cell}") for cell in cells):
            self.reportBalance()
        return good

    def reportBalance(self):
        print(f"\n{'model':10} {'samples':>7} {'counted ms':>10} {'measured ms':>11}  busier stage above the mean, cut by counted and by measured work")
        for name, samples in self.cells():
            found = self.kept(f"balance-{name}-{samples}")
            counted, measured = found["total_ms"]
            print(f"{name:10} {samples:7} {counted:10.2f} {measured:11.2f}  {found['counted']:6.1%} {found['measured']:6.1%}")

    def reportPrediction(self):
        errors = []
        print(f"{'model':10} {'samples':>7} {'m':>2} {'stages, ms':>26} {'busy, ms':>26} {'predicted':>9} {'measured':>9} {'error':>7}")
        for name, samples in self.cells():
            for count in MICRO_BATCHES:
                predicted = self.kept(f"predicted-{name}-{samples}-{count}")
                measured = self.kept(f"measured-{name}-{samples}-{count}")
                stages = [stage["forward_ms"] for stage in predicted["stages"]]
                busy = [stage["busy_ms"] / count for stage in measured["stages"]]
                expected, found = predicted["prediction"]["step_ms"], measured["step_ms"]["median"]
                counts = min(busy) >= LEAST_STAGE_MS
                error = expected / found - 1
                if counts:
                    errors.append(error)
                texts = [" ".join(f"{ms:.2f}" for ms in both) for both in (stages, busy)]
                print(f"{name:10} {samples:7} {count:2} {texts[0]:>26} {texts[1]:>26} {expected:9.2f} {found:9.2f} {error:+7.1%}"
                      + ("" if counts else "  (short)"))
        within = [sum(abs(error) <= limit for error in errors) for limit in (0.1, 0.2)]
        print(f"cells {len(errors)}: {within[0]} within 10 %, {within[1]} within 20 %; mean error {statistics.mean(errors):+.1%}, "
              f"largest {max(errors, key=abs):+.1%}")
        return within[0] >= 0.9 * len(errors) and within[1] == len(errors)

    def reportCuts(self):
        good = True
        chance = random.Random(1)
        print(f"\n{'model':10} {'samples':>7} {'planned':>9}  time of the other cut / time of the planned one [95 % interval]")
        for name, samples in self.smallCells():
            times, others = self.kept(f"cuts-{name}-{samples}"), self.otherCuts(name, samples)
            planned = times["planned"]
            texts = []
            for rule in self.kept(f"halves-{name}-{samples}"):
                if rule not in others:
                    texts.append(f"{rule} is the same cut")
                    continue
                pairs = list(zip(times[rule], planned))
                draws = sorted(ratio(chance.choices(pairs, k=len(pairs))) for _ in range(2000))
                low, high = draws[50], draws[1949]
                good = good and low >= 0.98
                texts.append(f"{rule} {ratio(pairs):.2f} [{low:.2f}, {high:.2f}]")
            print(f"{name:10} {samples:7} {statistics.median(planned):9.2f}  {'  '.join(texts)}")
        return good


def ratio(pairs):
    return statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    phases = ["make", "costs", "predict", "run", "halves", "cuts", "balance", "report"]
    parser.add_argument("phases", nargs="*", metavar="PHASE", default=phases)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--bin", type=Path, default=Path(os.environ.get("PIPEC_BIN", "build/dev/bin")))
    given = parser.parse_args()
    unknown = [phase for phase in given.phases if phase not in phases] + [name for name in given.models.split(",") if name not in MODELS]
    if unknown:
        parser.error(f"neither a phase nor a model: {', '.join(unknown)}")
    bench = Bench(given.directory.resolve(), given.models.split(","), given.bin.resolve())
    good = True
    for phase in phases:
        if phase in given.phases:
            good = getattr(bench, phase)() is not False
    if "report" in given.phases:
        print("PASSED" if good else "FAILED: prediction or cuts are not as good as they should be")
    return 0 if good else 7


if __name__ == "__main__":
    sys.exit(main())
