"""pipe-merge: the stages as one ordinary TorchScript model, which plain PyTorch loads and which is the source: its numbers, names,
arguments, defaults, result, ties and state."""
import json
import os
import resource
import shutil
from pathlib import Path
from typing import List

import torch

import e2e
import odd_models
import state_models

USAGE, DAMAGED = 2, 5
MODELS = {"mlp": ["transmit"], "gpt2": ["transmit", "replicate"], "t5": ["replicate"], "lstm": ["transmit"], "unet": ["transmit"]}


class Merge(e2e.Case):
    def save(self, build, training=False):
        torch.manual_seed(7)
        path = Path(f"{build.__name__}.pt")
        torch.jit.script(build().train(training)).save(str(path))
        return path

    def merged(self, artifact, target):
        self.pipec(0, "pipe-merge", artifact, "-o", target, "--force", saying=f"wrote {target}")
        return torch.jit.load(target)

    def results(self, model, calls, method="forward"):
        """Of one call after the other on one loaded model, each with arguments of its own."""
        with torch.no_grad(), torch.jit.optimized_execution(False):
            return [getattr(model, method)(*arguments) for arguments in calls]

    def sameWeights(self, source, merged, spare=()):
        """Names, bits, flags, and which of them are one tensor."""
        expected, got = source.state_dict(keep_vars=True), merged.state_dict(keep_vars=True)
        self.assertEqual(sorted(expected), sorted(got))
        for name, value in expected.items():
            self.sameBits(value, got[name], name)
            self.assertEqual(value.requires_grad, got[name].requires_grad, name)
            self.assertEqual(value.stride(), got[name].stride(), name)

        def shared(state):
            return {tuple(sorted(other for other in state if state[other].data_ptr() == state[name].data_ptr())) for name in state if state[name].numel()}
        self.assertEqual(shared(expected), shared(got))
        self.assertEqual(sorted(name for name, _ in source.named_parameters(remove_duplicate=False)),
                         sorted(name for name, _ in merged.named_parameters(remove_duplicate=False)))

    def digestOfRecompiled(self, merged, artifact, *options):
        """Compiled again, the merged file is the same source."""
        again = self.compiled(merged, "again.pipe", *options)
        self.assertEqual(again["source_digest"], e2e.plan(artifact)["source_digest"])


class TestModels(Merge):
    def test(self):
        for name, modes in MODELS.items():
            source, inputs = e2e.MODELS / f"{name}.pt", torch.load(e2e.MODELS / f"{name}.inputs.pt")
            expected, = self.results(torch.jit.load(source), [inputs])
            for mode in modes:
                with self.subTest(model=name, tied=mode):
                    artifact, target = f"{name}-{mode}.pipe", f"{name}-{mode}.pt"
                    options = ["--stages", 3, "--tied", mode, "--inputs", e2e.MODELS / f"{name}.inputs.pt"]
                    plan = self.compiled(source, artifact, *options)
                    self.assertEqual(bool(plan["ties"]), name in ("gpt2", "t5"))
                    merged = self.merged(artifact, target)
                    self.sameBits(expected, self.results(merged, [inputs])[0], "the merged model in plain PyTorch")
                    self.sameWeights(torch.jit.load(source), merged)
                    self.pipec(0, "pipe-check", artifact, "--against", target, saying="PASSED")
                    if name in ("mlp", "lstm"):  # the same again, at length
                        self.digestOfRecompiled(target, artifact, *options)

    def testTwiceIsTheSameBytes(self):
        self.compiled(e2e.MODELS / "unet.pt", "twice.pipe", "--stages", 3, "--inputs", e2e.MODELS / "unet.inputs.pt")
        for target in ("one.pt", "other-name.pt"):
            self.merged("twice.pipe", target)
        self.assertEqual(Path("one.pt").read_bytes(), Path("other-name.pt").read_bytes())


class State(Merge):
    def test(self):
        batch = torch.randn(8, 4)
        calls = [(part,) for part in batch.split(2)]
        for build in (state_models.WrittenIsReturned, state_models.WrittenIsAssigned, state_models.AssignedIsReadLater,
                      state_models.ViewIsAssigned, state_models.AssignedIsWrittenLater):
            with self.subTest(model=build.__name__):
                model, artifact = self.save(build), f"{build.__name__}.pipe"
                self.compiled(model, artifact, "--stages", 3, "--inputs", "f32[2,4]")
                merged = self.merged(artifact, f"{build.__name__}.merged.pt")
                source = torch.jit.load(model)
                self.sameBits(self.results(source, calls), self.results(merged, calls), "calls in order")
                for name, buffer in source.named_buffers():  # what the calls left behind
                    self.sameBits(buffer, dict(merged.named_buffers())[name], name)
                self.digestOfRecompiled(f"{build.__name__}.merged.pt", artifact, "--stages", 2, "--inputs", "f32[2,4]")

    def testInputsAreWritten(self):
        model = self.save(state_models.InputIsWrittenSometimes)
        torch.save((-torch.ones(2, 4), torch.zeros(4)), "never.pt")
        self.compiled(model, "writes.pipe", "--stages", 3, "--inputs", "never.pt", "--batch-dim", "whole=none")
        merged, x = self.merged("writes.pipe", "writes.merged.pt"), torch.ones(2, 4) * 3
        for module in (torch.jit.load(model), merged):
            whole = torch.zeros(4)
            result, = self.results(module, [(x, whole)])
            self.sameBits(whole, getattr(self, "whole", whole))
            self.sameBits(result, getattr(self, "result", result))
            self.whole, self.result = whole, result


class Into(Merge):
    def testAParameterAndItsTransposeAreTwoTensors(self):
        class Turned(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.randn(4, 4))
                self.register_buffer("turned", self.w.detach().t())

            def forward(self, x):
                return x @ self.w + x @ self.turned

        model, values = self.save(Turned), torch.randn(4, 4)
        torch.save({"w": values, "turned": values.t().contiguous()}, "state.pt")
        self.pipec(0, "pipe-merge", "--state", "state.pt", "--into", model, "-o", "turned.pt", "--force", saying="wrote turned.pt")
        merged = torch.jit.load("turned.pt")
        self.sameBits(values, merged.w.detach())
        self.sameBits(values.t(), merged.turned)

    def testNamesWithAnotherPrefix(self):
        """A module around the model puts a prefix before its names. A state of one does not fit the other, and the help says what to do."""
        class Inner(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

            def forward(self, x):
                return self.b(torch.relu(self.a(x)))

        class Around(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = Inner()

            def forward(self, x):
                return self.model(x).mean()

        inner, around = self.save(Inner), self.save(Around)
        torch.save(dict(torch.jit.load(inner).state_dict()), "inner.state.pt")
        torch.save(dict(torch.jit.load(around).state_dict()), "around.state.pt")
        self.compiled(inner, "inner.pipe", "--at", "b")
        self.compiled(around, "around.pipe", "--at", "model.b")
        no = ["-o", "never.pt"]
        self.refused(USAGE, ["inner.state.pt: expected a value for model.a.bias, which around.pipe uses, got none",
                             "help: pass what pipe-run --train wrote for this artifact; inner.state.pt has a.bias, without the prefix model.: "
                             "if it is for a file with these names, pass that file to --into, and leave around.pipe out\n"],
                     "pipe-merge", "around.pipe", "--state", "inner.state.pt", "--into", inner, *no)
        self.pipec(0, "pipe-merge", "--state", "inner.state.pt", "--into", inner, "-o", "inner.merged.pt", "--force")
        self.refused(USAGE, ["Inner.pt: expected a parameter or buffer model.a.bias, got none of this name",
                             "help: pass the file that was compiled, or take the prefix model. off the names in around.state.pt: Inner.pt has a.bias\n"],
                     "pipe-merge", "--state", "around.state.pt", "--into", inner, *no)
        self.refused(USAGE, ["Around.pt: expected a parameter or buffer a.bias, got none of this name",
                             "help: pass the file that was compiled, or put the prefix model. before the names in inner.state.pt: Around.pt has model.a.bias\n"],
                     "pipe-merge", "--state", "inner.state.pt", "--into", around, *no)
        self.refused(USAGE, "help: pass what pipe-run --train wrote for this artifact\n",  # with any other prefix
                     "pipe-merge", "inner.pipe", "--state", "around.state.pt", "--into", inner, *no)
        self.refused(USAGE, "help: pass the file that was compiled\n", "pipe-merge", "around.pipe", "--into", inner, *no)

    def trainBoth(self, model, *options):
        """Compiles and trains the artifact and the file; the words of both runs on what their state files lack."""
        stem, lacking = model.stem, []
        torch.save((torch.randn(8, 4),), "rows.pt")
        self.compiled(model, f"{stem}.pipe", "--train", "--stages", 3, "--inputs", "rows.pt", "--cost", "analytic")
        for trained in (model, f"{stem}.pipe"):
            run = self.pipec(0, "pipe-run", trained, "--train", "--inputs", "rows.pt", "--microbatches", 2, "--steps", 2, "--optimizer", "sgd,lr=0.1",
                             "--output", f"{trained}.state", "--force", *options)
            lacking.append(self.lacks(run, f"{trained}.state"))
        return lacking

    def lacks(self, run, state):
        """The names in the warning on a state file; None: there is no warning."""
        begin = f"warning: {state} lacks "
        found = [line.removeprefix(begin).split(", which a ")[0].split(", which the ")[0] for line in run.err.splitlines() if line.startswith(begin)]
        self.assertLess(len(found), 2, run.err)
        return sorted(found[0].replace(" and ", ", ").split(", ")) if found else None

    def testPlainTensors(self):
        """Tensors that are neither parameters nor buffers: a state dict does not have them, nor does a state file. Two stages know one by two names."""
        class Plain(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = (torch.nn.Linear(4, 4) for _ in range(3))
                self.mask = torch.tril(torch.ones(4, 4))
                self.again, self.row = self.mask, torch.ones(1).expand(4)
                self.register_buffer("scale", torch.full((4,), 0.5))

            def forward(self, x):
                y = torch.relu(self.b(torch.tanh(self.a(x)) @ self.mask)) * self.scale
                return (self.c(y) @ self.again * self.row).square().mean()

        model = self.save(Plain, training=True)
        self.assertEqual(self.trainBoth(model), [None, None])
        source, (state, other) = torch.jit.load(model), (torch.load(f"Plain.{kind}.state") for kind in ("pt", "pipe"))
        self.sameBits(dict(sorted(state.items())), dict(sorted(other.items())))
        self.assertEqual(sorted(state), sorted(source.state_dict()))
        Plain().load_state_dict(other)
        self.assertEqual(sorted(self.merged("Plain.pipe", "Plain.whole.pt").state_dict()), sorted(state))
        held = {name for stage in e2e.plan("Plain.pipe")["stages"] for name in torch.jit.load(f"Plain.pipe/{stage['file']}").state_dict()}
        self.assertEqual(sorted(held), sorted(state))
        torch.save({**state, "mask": source.mask, "again": source.mask, "row": source.row}, "earlier.state")  # as of an artifact of an earlier version
        for options in (["Plain.pipe"], ["--state", "Plain.pt.state"], ["--state", "Plain.pipe.state"], ["Plain.pipe", "--state", "Plain.pt.state"],
                        ["Plain.pipe", "--state", "Plain.pipe.state"], ["Plain.pipe", "--state", "earlier.state"], ["--state", "earlier.state"]):
            with self.subTest(options=options):
                run = self.pipec(0, "pipe-merge", *options, "--into", model, "-o", "plain.merged.pt", "--force", saying="wrote plain.merged.pt")
                self.assertNotIn("warning", run.err)
                merged = torch.jit.load("plain.merged.pt")
                self.sameBits([source.mask, source.again, source.row], [merged.mask, merged.again, merged.row])
                if "--state" in options:
                    self.sameBits(dict(sorted(state.items())), dict(sorted(merged.state_dict().items())))

    def testStateThatStateFilesLack(self):
        """State that is no parameter and no buffer: a warning names it, and a checkpoint has it."""
        class Remembers(torch.nn.Module):
            hist: List[torch.Tensor]

            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = (torch.nn.Linear(4, 4) for _ in range(3))
                self.hist, self.count, self.sum, self.gain = [torch.zeros(4)], 0, torch.zeros(4), torch.ones(4, requires_grad=True)

            def forward(self, x):
                self.count += 1
                y = torch.tanh(self.b(torch.tanh(self.a(x)) + self.hist[-1])) * self.gain
                self.hist.append(y.detach().mean(0))
                self.sum = self.sum + y.detach().mean(0)
                return (self.c(y) + self.sum).square().mean()

        model, names = self.save(Remembers, training=True), ["count", "hist", "sum"]  # gain is no parameter, so nothing trains it
        self.assertEqual(self.trainBoth(model), [names, names])
        self.assertEqual(self.trainBoth(model, "--json"), [names, names])
        kinds = [torch.load(f"Remembers.{kind}.state") for kind in ("pt", "pipe")]
        self.assertEqual([sorted(state) for state in kinds], 2 * [sorted(torch.jit.load(model).state_dict())])
        for options in (["--state", "Remembers.pt.state"], ["--state", "Remembers.pipe.state"], ["Remembers.pipe", "--state", "Remembers.pt.state"],
                        ["Remembers.pipe", "--state", "Remembers.pipe.state"]):
            with self.subTest(options=options):
                run = self.pipec(0, "pipe-merge", *options, "--into", model, "-o", "remembers.pt", "--force", "--json")
                self.assertEqual(sorted(json.loads(run.out)["unsaved"]), names)
                self.assertIn(f"warning: {options[-1]} lacks ", run.err)
                self.assertIn("pass --checkpoint DIR in place of --state", run.err)
                self.assertEqual(torch.jit.load("remembers.pt").count, 0)
        left = []
        for trained in (model, "Remembers.pipe"):
            shutil.rmtree("remembers.steps", ignore_errors=True)
            self.pipec(0, "pipe-run", trained, "--train", "--inputs", "rows.pt", "--microbatches", 2, "--steps", 2, "--optimizer", "sgd,lr=0.1",
                       "--checkpoint", "remembers.steps")
            run = self.pipec(0, "pipe-merge", "--checkpoint", "remembers.steps", "--into", model, "-o", "remembers.pt", "--force")
            self.assertNotIn("lacks", run.err)
            merged = torch.jit.load("remembers.pt")
            self.assertEqual((merged.count, len(merged.hist)), (4, 5))
            left.append([merged.hist, merged.sum, merged.gain.detach()])
        self.sameBits(*left)

    def testTensorsInObjectsAndInTheCode(self):
        """The stages hold them under names that the author's file does not have as parameters or buffers, or not at all."""
        class Boxed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c, self.box = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), state_models.Sum()

            def forward(self, x):
                y = self.b(torch.tanh(self.a(x)) + self.box.sum)
                self.box.sum = self.box.sum + y.detach().mean(0)
                return self.c(y).square().mean()

        factor = torch.ones(4)

        class Traced(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

            def forward(self, x):
                return self.b(torch.tanh(self.a(x) * factor.add_(1))).square().mean()

        model, rows = self.save(Boxed, training=True), torch.randn(8, 4)
        torch.save((rows,), "rows.pt")
        torch.jit.trace(Traced(), (rows,), check_trace=False).save("Traced.pt")
        self.compiled("Traced.pt", "Traced.pipe", "--train", "--stages", 2, "--inputs", "rows.pt", "--cost", "analytic")
        run = self.pipec(0, "pipe-run", "Traced.pipe", "--train", "--inputs", "rows.pt", "--optimizer", "sgd,lr=0.1", "--output", "traced.state", "--force")
        self.assertRegex(" ".join(self.lacks(run, "traced.state")), r"^constants\.\d$")
        for options in (["Traced.pipe"], ["Traced.pipe", "--state", "traced.state"]):
            self.pipec(0, "pipe-merge", *options, "--into", "Traced.pt", "-o", "traced.pt", "--force", saying="wrote traced.pt")
        self.compiled(model, "Boxed.pipe", "--train", "--stages", 2, "--inputs", "rows.pt", "--cost", "analytic")
        shutil.rmtree("boxed.steps", ignore_errors=True)
        run = self.pipec(0, "pipe-run", "Boxed.pipe", "--train", "--inputs", "rows.pt", "--optimizer", "sgd,lr=0.1", "--output", "boxed.state",
                         "--checkpoint", "boxed.steps", "--force")
        self.assertEqual(self.lacks(run, "boxed.state"), ["box.sum"])
        for options, isRestored in ((["Boxed.pipe"], False), (["Boxed.pipe", "--state", "boxed.state"], False), (["--checkpoint", "boxed.steps"], True)):
            self.pipec(0, "pipe-merge", *options, "--into", model, "-o", "boxed.pt", "--force", saying="wrote boxed.pt")
            self.assertEqual(bool(torch.jit.load("boxed.pt").box.sum.any()), isRestored, options)

    def testOtherMethodsAndFlagsStay(self):
        """Exported methods, which no run uses, and the mode of each module, also of one that is kept in eval mode."""
        class Rich(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.norm, self.drop, self.o = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 4)
                self.factor: int = 3

            def forward(self, x, y):
                return torch.nn.functional.mse_loss(self.predict(x), y)

            @torch.jit.export
            def predict(self, x):
                return self.o(self.drop(self.norm(self.a(x))))

            @torch.jit.export
            def times(self, n: int) -> int:
                return n * self.factor

        torch.manual_seed(7)
        rich = Rich().train()
        rich.norm.eval()
        torch.jit.script(rich).save("rich.pt")
        source, values = torch.jit.load("rich.pt"), (torch.randn(8, 4), torch.randn(8, 4))
        torch.save(values, "rich.inputs.pt")
        run = ["--inputs", "rich.inputs.pt", "--optimizer", "sgd,lr=0.1", "--output", "rich.state.pt", "--checkpoint", "rich.checkpoints", "--force"]
        self.compiled("rich.pt", "rich.pipe", "--train", "--stages", 2, "--inputs", "rich.inputs.pt", "--cost", "analytic")
        for trained in ("rich.pt", "rich.pipe"):
            shutil.rmtree("rich.checkpoints", ignore_errors=True)
            self.pipec(0, "pipe-run", trained, "--train", *run)
            state = torch.load("rich.state.pt")
            for options in (["--state", "rich.state.pt"], ["--checkpoint", "rich.checkpoints"]):
                with self.subTest(trained=trained, options=options):
                    self.pipec(0, "pipe-merge", *options, "--into", "rich.pt", "-o", "rich.merged.pt", "--force", saying="wrote rich.merged.pt")
                    merged = torch.jit.load("rich.merged.pt")
                    self.assertEqual({name: part.training for name, part in source.named_modules()}, {name: part.training for name, part in merged.named_modules()})
                    self.assertEqual((merged.training, merged.norm.training, merged.drop.training), (True, False, True))
                    self.sameBits(dict(sorted(state.items())), dict(sorted(merged.state_dict().items())))
                    self.assertEqual(merged.times(2), 6)
                    for module in (source, merged):
                        module.eval()
                    source.load_state_dict(state)
                    self.sameBits(self.results(source, [values[:1]], "predict"), self.results(merged, [values[:1]], "predict"))
                    source.train()
                    source.norm.eval()

    def testTheCodeIsTheAuthors(self):
        """Nothing of what a run inserts, such as the check of an LSTM's state, gets into the file: plain PyTorch does not know it."""
        class Recurrent(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.r, self.o = torch.nn.LSTM(4, 8, batch_first=True), torch.nn.Linear(8, 3)

            def forward(self, x, y):
                return torch.nn.functional.mse_loss(self.o(self.r(x)[0][:, -1]), y)

        model = self.save(Recurrent, training=True)
        torch.save((torch.randn(8, 5, 4), torch.randn(8, 3)), "recurrent.inputs.pt")
        self.pipec(0, "pipe-run", model, "--train", "--inputs", "recurrent.inputs.pt", "--optimizer", "sgd,lr=0.1", "--output", "recurrent.state.pt",
                   "--checkpoint", "recurrent.checkpoints", "--force")
        source, state = torch.jit.load(model), torch.load("recurrent.state.pt")
        for options in (["--state", "recurrent.state.pt"], ["--checkpoint", "recurrent.checkpoints"]):
            with self.subTest(options=options):
                self.pipec(0, "pipe-merge", *options, "--into", model, "-o", "recurrent.pt", "--force", saying="wrote recurrent.pt")
                merged = torch.jit.load("recurrent.pt")
                for one, other in ((merged, source), (merged.r.forward__0, source.r.forward__0), (merged.o, source.o)):
                    self.assertEqual(one.code, other.code)
                for name, value in merged.state_dict().items():
                    self.sameBits(state[name], value, name)


class Signatures(Merge):
    def schema(self, module, method="forward"):
        return str(getattr(module, method).schema).replace("__torch__.pipec.named1.", "").replace("__torch__.odd_models.", "").split("self", 1)[1].split(" ", 1)[1]

    def testDefaults(self):
        model = self.save(odd_models.Defaults)
        self.compiled(model, "defaults.pipe", "--at", "b")
        merged, source, x = self.merged("defaults.pipe", "defaults.merged.pt"), torch.jit.load(model), torch.randn(4, 16)
        self.assertEqual(self.schema(merged), self.schema(source))
        with torch.no_grad(), torch.jit.optimized_execution(False):
            for named in ({}, {"scale": 0.3, "word": "minus"}, {"times": 5, "tail": False}, {"more": x + 1}):
                self.sameBits(source(x, **named), merged(x, **named), named)

    def testTrees(self):
        model = self.save(odd_models.Trees)
        x, pair = torch.randn(6, 16), (torch.randn(6, 16), [torch.randn(6, 16), torch.randn(6, 16)])
        self.compiled(model, "trees.pipe", "--at", "b,c")
        merged, source = self.merged("trees.pipe", "trees.merged.pt"), torch.jit.load(model)
        expected, got = (self.results(module, [(x, pair)])[0] for module in (source, merged))
        self.sameBits(expected[:2], got[:2])
        self.assertEqual(type(got[2]).__name__, "Point")
        self.assertEqual(got[2]._fields, expected[2]._fields)
        self.sameBits(tuple(expected[2]), tuple(got[2]))
        self.assertEqual(self.schema(merged), self.schema(source))
        self.pipec(0, "pipe-check", "trees.pipe", "--against", "trees.merged.pt", saying="PASSED")
        self.pipec(0, "pipe-check", "trees.pipe", "--against", model, saying="PASSED")

    def testListsInsideATuple(self):
        model, x = self.save(odd_models.ListsInsideATuple), torch.randn(2, 8)
        for options in (["--inputs", "f32[2,8]"], []):  # example inputs let the compiler split more
            with self.subTest(options=options):
                self.compiled(model, "nested.pipe", "--at", "b", *options)
                merged, source = self.merged("nested.pipe", "nested.merged.pt"), torch.jit.load(model)
                self.sameBits(self.results(source, [(x,)]), self.results(merged, [(x,)]))
                self.assertEqual(self.schema(merged), self.schema(source))

    def testOtherMethod(self):
        model = self.save(odd_models.OnlyStep)
        self.compiled(model, "step.pipe", "--method", "step", "--at", "b")
        merged, source, x = self.merged("step.pipe", "step.merged.pt"), torch.jit.load(model), torch.randn(2, 64)
        self.pipec(0, "pipe-merge", "step.pipe", "-o", "step.merged.pt", "--force", saying="note: the only method of the merged model is step, which was compiled")
        self.sameBits(self.results(source, [(x,)], "step"), self.results(merged, [(x,)], "step"))
        self.digestOfRecompiled("step.merged.pt", "step.pipe", "--method", "step", "--stages", 2, "--inputs", "f32[2,64]")

    def testTwoNamesOfOneWeight(self):
        model = self.save(odd_models.TiedHead)
        ids = torch.randint(40, (3, 5))
        for mode in ("transmit", "replicate"):
            self.compiled(model, "tied.pipe", "--at", "middle,head", "--tied", mode)
            merged, source = self.merged("tied.pipe", "tied.merged.pt"), torch.jit.load(model)
            self.sameBits(self.results(source, [(ids,)]), self.results(merged, [(ids,)]))
            self.sameWeights(source, merged)

    def testPartOfAWeightSharesItsMemory(self):
        """Memory is shared if a stage has both tensors; otherwise no stage writes either."""
        model, x = self.save(odd_models.PartOfAWeight), torch.randn(3, 6)
        for cuts in ("again", "last", "again,last"):
            with self.subTest(cuts):
                self.compiled(model, "part.pipe", "--at", cuts)
                merged, source = self.merged("part.pipe", "part.merged.pt"), torch.jit.load(model)
                self.sameBits(self.results(source, [(x,)]), self.results(merged, [(x,)]))
                if cuts == "again":
                    self.sameWeights(source, merged)
                self.pipec(0, "pipe-check", "part.pipe", "--against", "part.merged.pt")

    def testDrawsAreTheSame(self):
        model = self.save(odd_models.DrawsAreOff)
        self.compiled(model, "draws.pipe", "--at", "b,c,d", "--inputs", "f32[2,16]")
        merged, source, x = self.merged("draws.pipe", "draws.merged.pt"), torch.jit.load(model), torch.randn(4, 16)
        results = []
        for module in (source, merged):
            torch.manual_seed(3)
            results.append(self.results(module, [(x,), (x,)]))
        self.sameBits(*results)


class Files(Merge):
    def setUp(self):
        if not Path("files.pipe").exists():
            self.compiled(e2e.MODELS / "mlp.pt", "files.pipe", "--stages", 2, "--inputs", e2e.MODELS / "mlp.inputs.pt")

    def testNothingIsOverwritten(self):
        Path("mine.pt").write_text("mine")
        self.refused(USAGE, ["mine.pt", "--force"], "pipe-merge", "files.pipe", "-o", "mine.pt")
        self.assertEqual(Path("mine.pt").read_text(), "mine")
        self.merged("files.pipe", "mine.pt")

    def testPlacesThatAreRefused(self):
        Path("folder").mkdir(exist_ok=True)
        self.refused(USAGE, "folder", "pipe-merge", "files.pipe", "-o", "folder", "--force")
        self.refused(USAGE, "artifact", "pipe-merge", "files.pipe", "-o", "files.pipe/merged.pt")
        self.refused(USAGE, "-o", "pipe-merge", "files.pipe")
        self.refused(8, "no/such", "pipe-merge", "files.pipe", "-o", "no/such/merged.pt")
        self.assertEqual(sorted(e2e.files("files.pipe")), sorted(["MANIFEST", "plan.json", "schedule.csv", "stage-0.ir", "stage-0.pt", "stage-1.ir", "stage-1.pt"]))

    def testFullDisk(self):
        """A limit on the size of files stands for a disk without room."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for options in ([], ["--into", e2e.MODELS / "mlp.pt"]):
            self.refused(8, ["full.pt: cannot write: file too large: a limit of the shell stops it at 1000 bytes", "help: raise the limit: ulimit -f unlimited"],
                         "pipe-merge", "files.pipe", *options, "-o", "full.pt", before=limit)
        self.assertEqual([name for name in os.listdir(".") if "full" in name], [], "nothing half-written is left")

    def testDamageIsRefused(self):
        shutil.rmtree("damaged.pipe", ignore_errors=True)
        shutil.copytree("files.pipe", "damaged.pipe")
        path = Path("damaged.pipe/stage-1.pt")
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        self.refused(DAMAGED, "stage-1.pt", "pipe-merge", "damaged.pipe", "-o", "never.pt")
        self.assertEqual([name for name in os.listdir(".") if "never" in name], [], "nothing half-written is left")

    def testJson(self):
        result = self.pipec(0, "pipe-merge", "files.pipe", "-o", "json.pt", "--force", "--json")
        document = json.loads(result.out)
        self.assertEqual(document["bytes"], Path("json.pt").stat().st_size)
        self.assertEqual(document["source_digest"], e2e.plan("files.pipe")["source_digest"])


if __name__ == "__main__":
    e2e.main()
