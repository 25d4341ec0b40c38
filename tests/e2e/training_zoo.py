"""training_zoo.py [NAME...]: real models with a loss on top, in training mode, compile with --train to 4 stages, every gradient compared with the unsplit model's,
and one step runs in threads under three schedules, its gradients, state and loss in eval mode compared with `pipe-run MODEL.pt --train`.

    training_zoo.py            the light ones
    training_zoo.py --all      all 48
    training_zoo.py --strangers REGEX    models of strangers.py whose names match ('' for all), but for the 48
    training_zoo.py --compile-only [...]  no step, and no stages in eval mode
    training_zoo.py --table FILE [...]   also writes what was found, after each model; outcomes.py prints several such files as one table

A model of which PyTorch itself computes no gradients is left out and named. The compile fails where a gradient differs, and a refusal must have its message
and help from the table of refusals. At the end it prints how many models came to what, as docs/training.md has it.
"""
import importlib.util
import json
import os
import re
import sys
import warnings
from pathlib import Path

import torch

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support" / "zoo"))
import outcomes  # noqa: E402
import refused_losses  # noqa: E402
import table  # noqa: E402
import with_loss  # noqa: E402
import zoo  # noqa: E402
from outcomes import Outcome  # noqa: E402

DIRECTORY = Path(os.environ.get("PIPEC_ZOO", e2e.MODELS.parent / "zoo")).resolve()
STAGES = 4
SCHEDULES = ["1f1b", "interleaved-1f1b", "zb-v"]
OWN_LOSS = {"tv_fasterrcnn", "tv_fasterrcnn_mnv3_320"}  # in training they want targets and return a dict of losses


class TrainingZoo(e2e.Case):
    def test(self):
        arguments = list(e2e.NAMES)
        file = arguments.pop(arguments.index("--table") + 1) if "--table" in arguments else None
        pattern = arguments.pop(arguments.index("--strangers") + 1) if "--strangers" in arguments else None
        everything, self.runsSteps = "--all" in arguments, "--compile-only" not in arguments
        names = [name for name in arguments if not name.startswith("--")]
        models = [row.name for row in table.read() if row.name in names or not names and (row.light or everything)]
        if pattern is not None:
            spec = importlib.util.spec_from_file_location("e2e_strangers", Path(__file__).with_name("strangers.py"))  # the zoo has a strangers, too
            strangers = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(strangers)
            known = {row.name for row in table.read()}
            models = [name for name in strangers.MODELS if re.search(pattern, name) and name not in known]
        found = []
        for name in models:
            if name in OWN_LOSS:
                continue
            print(f"{name} ", end="", file=sys.stderr, flush=True)
            with self.subTest(model=name):
                try:
                    found.append(self.one(name) if pattern is None else self.stranger(name, strangers))
                except Exception as error:  # noqa: BLE001  of the test, too
                    found.append(Outcome(name, "failed", why=str(error).strip().splitlines()[-1][:160]))
                    raise
                else:
                    self.expect(found[-1])
                finally:
                    print(*found[-1][1:], file=sys.stderr, flush=True)
                    if file:
                        outcomes.write(found, file)
        print(outcomes.summary(found), flush=True)

    def expect(self, found):
        """Of the models that say it."""
        if found.model in refused_losses.REFUSED:
            self.assertEqual(found.outcome, "refused")
            self.assertIn(refused_losses.REFUSED[found.model], found.why)
        elif found.model.startswith("lo_"):
            self.assertRegex(found.outcome, "^equal")

    def one(self, name):
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        zoo.make(name, DIRECTORY)
        return self.trained(name, DIRECTORY / f"{name}.pt", torch.load(DIRECTORY / f"{name}.inputs.pt", weights_only=False))

    def stranger(self, name, strangers):
        try:
            strangers.make(strangers.MODELS[name])
        except Exception as error:  # noqa: BLE001  of any library
            return Outcome(name, "left out", why="not made: " + str(error).strip().splitlines()[0][:100])
        example = torch.load("inputs2.pt", weights_only=False)
        if isinstance(example, dict):
            example = self.inOrder(torch.jit.load("model.pt"), example)
        if not isinstance(example, tuple):
            example = (example,)
        return self.trained(name, "model.pt", example)

    @staticmethod
    def inOrder(model, named):
        """The arguments by position, up to the last that has a name in the example."""
        arguments = model.forward.schema.arguments[1:]
        last = max(index for index, argument in enumerate(arguments) if argument.name in named)
        return tuple(named.get(argument.name, argument.default_value) for argument in arguments[:last + 1])

    def trained(self, name, path, example):
        torch.save(example, "inputs.pt")
        torch.manual_seed(0)
        torch.set_num_threads(1)
        try:
            model = with_loss.with_loss(torch.jit.load(path), example, ".", name)
            model.save("loss.pt")  # before a run changes its state
            expected = with_loss.gradients(model, example)
        except Exception as error:  # noqa: BLE001  whatever PyTorch says
            return Outcome(name, "left out", why="PyTorch: " + self.sentence(error))
        if expected == 0:
            return Outcome(name, "left out", why="no parameter is trained")
        command = ["loss.pt", "--train", *(["--evaluation"] if self.runsSteps else []), "--inputs", "inputs.pt", "--cost", "analytic", "-o", "loss.pipe", "--force", "--json", "--stages"]
        result = e2e.run("pipe-compile", *command, STAGES, timeout=1800)
        most = re.search(r"can be cut into at most (\d)", result.err)
        if result.code == 4 and most and int(most[1]) > 1:
            result = e2e.run("pipe-compile", *command, most[1], timeout=1800)
        said = next((line for line in result.err.splitlines() if line.startswith("error: ")), "")[:160]
        if result.code == 4:
            return Outcome(name, "refused", expected, why=f"{self.refusal(result.err)}: {said}")
        self.assertEqual(result.code, 0, f"{result.err}\nexit code {result.code}: {said}")
        report = json.loads(result.out)
        tested = " ".join(report["tested"])
        compared = re.search(r"the loss and (\d+) gradients? have the same bits", tested)
        self.assertTrue(compared, tested)
        self.assertEqual(int(compared[1]), expected, "gradients that were compared, and that PyTorch computes")
        whole = [note for note in report["notes"] if "cannot split its backward" in note]
        tied = re.search(r"(\d+) gradients? summed over several stages", tested)
        outcome = ("equal" if not tied else f"equal, {tied[1]} within {self.tolerance(report)}")
        if self.runsSteps:
            self.runs(report)
        stages = len(e2e.plan("loss.pipe")["stages"])
        return Outcome(name, outcome, expected, stages, stages - len(whole), self.reasons(whole))

    def refusal(self, error):
        """The name of the row of the table of refusals whose message and help these are."""
        rows = json.loads(self.pipec(0, "pipe-opt", "--list-refusals").out)["refusals"]

        def found(row):
            message, help = (".*".join(re.escape(part) for part in row[what].split("{}")) for what in ("message", "help"))
            return re.search(f"error: .*{message}.*\nhelp: {help}\n", error, re.S)
        names = [row["name"] for row in rows if found(row)]
        self.assertTrue(names, f"exit code 4, which the table of refusals does not have: {error}")
        return names[0]

    @staticmethod
    def sentence(error):
        """What PyTorch says, without names and numbers of this model. TorchScript has its message behind its trace, a compile error before it."""
        lines = str(error).strip().splitlines()
        text = lines[0] if "<--- HERE" in lines[-1] else lines[-1]
        return re.split(r"\. |: \[", re.sub(r"^(\w+Error: )+", "", text))[0][:120]

    @staticmethod
    def reasons(notes):
        """Which stages cannot split their backward, by reason: "stages 0, 2: ..."."""
        stages = {}
        for note in notes:
            number, why = re.search(r"stage (\d+).*? cannot split its backward: (.*)", note).groups()
            stages.setdefault(why, []).append(number)
        return "; ".join(f"stage{'s' * (len(numbers) > 1)} {', '.join(numbers)}: {why}" for why, numbers in sorted(stages.items()))

    @staticmethod
    def tolerance(report):
        """What the compile allows sums over stages; 0: there are none."""
        texts = [text.split("equal within ", 1)[1] for text in report["tested"] if "equal within " in text]  # other texts have other numbers
        return max((float(number) for text in texts for number in re.findall(r"(?<![a-z\d])\d[\d.e-]*", text)), default=0)

    @staticmethod
    def lossInEvalMode(done):
        return json.loads(done.out[done.out.index("{\n"):])["eval"][0]["loss"]

    def runs(self, report):
        """One step under each schedule; tensors of half precision and what ties touch may differ by their tolerance."""
        signature = e2e.plan("loss.pipe")["signature"]
        is_cut = signature["batch_symbolic"] and any(entry["batch_dim"] is not None for entry in signature["inputs"])
        micro = min(2, signature["batch_size"]) if is_cut else 1
        parts = [torch.tensor_split(value, 2)[0] if isinstance(value, torch.Tensor) and value.dim() else value for value in torch.load("inputs.pt", weights_only=False)]
        if micro > 1:
            try:
                with_loss.gradients(torch.jit.load("loss.pt").train(), parts)
            except Exception:  # noqa: BLE001  as a batch norm with one value per channel
                micro = 1
        step = ["--train", "--inputs", "inputs.pt", "--microbatches", micro, "--optimizer", "sgd,lr=0.01", "--on-nan", "skip", "--force", "--json"]
        inputs = torch.load("inputs.pt", weights_only=False)
        isEvaluated = any(isinstance(value, torch.Tensor) and value.dim() for value in inputs)  # a file of samples has tensors
        if isEvaluated:
            torch.save((tuple(inputs), ()), "eval.pt")
            step += ["--eval-data", "eval.pt"]
        done = self.pipec(0, "pipe-run", "loss.pt", *step, "--emit-grads", "expected.grads.pt", "--output", "expected.state.pt", timeout=900)
        expectedLoss = self.lossInEvalMode(done) if isEvaluated else None
        for schedule in SCHEDULES if len(e2e.plan("loss.pipe")["stages"]) == STAGES else ["1f1b", "zb-h1"]:
            done = self.pipec(0, "pipe-run", "loss.pipe", *step, "--schedule", schedule, "--emit-grads", "grads.pt", "--output", "state.pt", timeout=900)
            if isEvaluated and not e2e.plan("loss.pipe")["ties"]:  # with them a weight may differ by its tolerance
                self.assertEqual(self.lossInEvalMode(done), expectedLoss, f"{schedule}: the loss in eval mode after the step")
            for kind in ("grads", "state"):
                expected, actual = torch.load(f"expected.{kind}.pt", weights_only=False), torch.load(f"{kind}.pt", weights_only=False)
                if kind == "grads":
                    self.assertEqual(set(expected), set(actual), f"{schedule}: names of gradients")
                for name in set(expected) & set(actual):
                    a, b = expected[name], actual[name]
                    if e2e.firstDifference(a, b) is None:
                        continue
                    a, b = a.to(torch.complex128), b.to(torch.complex128)
                    off = ((a - b).norm() / (a.norm() + 1e-30)).item()
                    self.assertLessEqual(off, 10 * self.tolerance(report), f"{schedule}: {kind} of {name}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    e2e.main()
