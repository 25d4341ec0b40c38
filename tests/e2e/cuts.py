"""Where stages may begin: --at in all its forms, cuts that must move, and counts that do not fit."""
import inspect
import re
from pathlib import Path

import torch
from torch import Tensor, nn

import e2e
import odd_models

INPUTS = "f32[4,32]"
MLP, MLP_INPUTS = e2e.MODELS / "mlp.pt", e2e.MODELS / "mlp.inputs.pt"


class Cuts(e2e.Case):
    def save(self, build):
        torch.manual_seed(7)
        path = Path(f"{build.__name__}.pt")
        torch.jit.script(build().eval()).save(str(path))
        return path

    def firsts(self, plan):
        return [stage["first_module"] for stage in plan["stages"]]

    def sameNumbers(self, model, artifact, shape=(4, 32)):
        """One micro-batch of the artifact against plain PyTorch."""
        torch.save(torch.randn(shape), "in.pt")
        expected, = e2e.reference(torch.jit.load(model), [torch.load("in.pt")], 1)
        torch.save(expected, "expected.pt")
        self.pipec(0, "pipe-run", artifact, "--inputs", "in.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")


class At(Cuts):
    def testNames(self):
        plan = self.compiled(MLP, "at.pipe", "--at", "layers.4,head")
        self.assertEqual(self.firsts(plan), ["layers.0", "layers.4", "head"])
        self.sameNumbers(MLP, "at.pipe", (4, 64))

    def testOrderOfNamesDoesNotMatter(self):
        self.compiled(MLP, "forth.pipe", "--at", "layers.4", "--at", "head")
        self.compiled(MLP, "back.pipe", "--at", "head,layers.4")
        self.assertEqual(e2e.files("forth.pipe"), e2e.files("back.pipe"))

    def testSecondCall(self):
        model = self.save(odd_models.SharedBlock)
        first = self.compiled(model, "first.pipe", "--at", "block")
        self.assertEqual(self.firsts(first), ["first", "block"])
        self.sameNumbers(model, "first.pipe")
        second = self.compiled(model, "second.pipe", "--at", "block#2")
        self.assertEqual(self.firsts(second), ["first", "block#2"])
        self.assertGreater(second["stages"][0]["nodes"], first["stages"][0]["nodes"])
        self.assertEqual([tie["names"][0] for tie in second["ties"]], ["block.weight", "block.bias"])
        self.sameNumbers(model, "second.pipe")

    def testListOfSkipsIsNoObstacle(self):
        """A U-Net that keeps its skips in a list, with append and pop, is cut anywhere, and the skips go straight."""
        unet = e2e.MODELS / "unet"
        plan = self.compiled(f"{unet}.pt", "unet.pipe", "--stages", 4, "--inputs", f"{unet}.inputs.pt")
        far = [channel for channel in plan["channels"] if max(to["stage"] for to in channel["to"]) - channel["from"]["stage"] > 1]
        self.assertGreaterEqual(len(far), 2)
        self.assertTrue(all(channel["skip"] for channel in far))
        costs = [stage["cost_flops"] for stage in plan["stages"]]
        self.assertLess(max(costs), 1.35 * sum(costs) / len(costs))

    def testNamedFeaturesAreNoObstacle(self):
        """A dict that is filled by names that are known is its values, each of which goes where it is used."""
        model = self.save(odd_models.NamedFeatures)
        names = ["body.0", "body.2", "side.1", "side.3"]
        self.assertEqual(self.firsts(self.compiled(model, "named.pipe", "--at", ",".join(names[1:]), "--inputs", INPUTS)), names)
        torch.save(torch.randn(4, 32), "in.pt")
        self.pipec(0, "pipe-run", model, "--inputs", "in.pt", "--microbatches", 1, "--threads", 1, "--output", "whole.pt")
        plain, expected = torch.jit.load(model)(torch.load("in.pt"))[1], torch.load("whole.pt")[1]
        self.assertEqual(list(plain), list(expected))
        self.pipec(0, "pipe-run", "named.pipe", "--inputs", "in.pt", "--microbatches", 1, *e2e.BITS, "--expect", "whole.pt", saying="PASSED")

    def testOverloadedForward(self):
        """A scripted nn.LSTM is called as forward__0."""
        model = self.save(odd_models.Recurrent)
        plan = self.compiled(model, "lstm.pipe", "--at", "rnn,last", "--inputs", "f32[4,5,32]")
        self.assertEqual(self.firsts(plan), ["first", "rnn", "last"])
        self.sameNumbers(model, "lstm.pipe", (4, 5, 32))

    def testBothCalls(self):
        model = self.save(odd_models.SharedBlock)
        for mode in ("transmit", "replicate"):
            plan = self.compiled(model, "both.pipe", "--at", "block,block#2", "--tied", mode)
            self.assertEqual(self.firsts(plan), ["first", "block", "block#2"])
            self.assertEqual([(tie["stages"], tie["mode"]) for tie in plan["ties"]], [([1, 2], mode)] * 2)
            self.sameNumbers(model, "both.pipe")

    def testTwoNamesOfOneWeight(self):
        """Used under both names, in a scripted model (a trace uses one name for both)."""
        model = self.save(odd_models.TiedHead)
        torch.save(torch.randint(40, (4, 5)), "ids.pt")
        torch.save(e2e.reference(torch.jit.load(model), [torch.load("ids.pt")], 1)[0], "expected.pt")
        for mode in ("replicate", "transmit"):
            with self.subTest(tied=mode):
                plan = self.compiled(model, f"{mode}.pipe", "--at", "middle,head", "--tied", mode, "--inputs", "ids.pt")
                self.assertEqual([(tie["names"], tie["mode"]) for tie in plan["ties"]], [(["embedding.weight", "head.weight"], mode)])
                self.pipec(0, "pipe-run", f"{mode}.pipe", "--inputs", "ids.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt",
                           saying="PASSED")

    def testModesOfSingleWeights(self):
        model = self.save(odd_models.TiedHead)
        compile = ["pipe-compile", model, "--at", "middle,head", "-o", "single.pipe", "--force", "--tied"]
        self.refused(2, "--tied: embedding.weight and head.weight are one weight: expected one mode for both, got replicate and transmit",
                     *compile, "embedding.weight=replicate,head.weight=transmit")
        self.refused(2, "--tied: expected one mode for head.weight, got replicate and transmit",
                     *compile, "head.weight=replicate,head.weight=transmit")
        self.pipec(0, *compile, "embedding.weight=transmit,head.weight=transmit", saying="weight embedding.weight")
        self.pipec(0, *compile, "middle.weight=transmit", saying="note: --tied middle.weight=transmit changes nothing: no two stages use this weight")

    def testThirdCall(self):
        model = self.save(odd_models.SharedBlock)
        self.refused(2, ["expected one of the 2 calls of block, got block#3", "they are block, block#2"], "pipe-compile", model, "--at", "block#3",
                     "-o", "never.pipe")
        self.refused(2, "expected the one call of first, got first#2", "pipe-compile", model, "--at", "first#2", "-o", "never.pipe")

    def testNamesThatAreNone(self):
        model = self.save(odd_models.SharedBlock)
        for name in ("block#", "block#0", "block#02", "block#x", "#2", "block.", ".block", "block#2."):
            with self.subTest(name=name):
                self.refused(2, "--at: expected a module as encoder.layers.6", "pipe-compile", model, "--at", name, "-o", "never.pipe")
        self.refused(2, ['--at: expected something on both sides of each comma, got "between,,last"', "help: pass between,last"], "pipe-compile", model,
                     "--at", "between,,last", "-o", "never.pipe")

    def testModuleWithoutOperators(self):
        model = self.save(odd_models.Identities)
        self.pipec(0, "pipe-compile", model, "--at", "nothing", "-o", "nothing.pipe", saying="note: --at nothing: none of its operators are left; cut before b")
        self.assertEqual(self.firsts(e2e.plan("nothing.pipe")), ["a", "b"])
        self.sameNumbers(model, "nothing.pipe")

    def testModulesOfOneOperator(self):
        """The place of a module inside one operator is none of a cut, before or after that operator."""
        model = self.save(odd_models.FusedLayer)
        for name in ("linear1", "self_attn", "norm2", "dropout1"):
            with self.subTest(name=name):
                self.refused(4, [f"--at: a cut before middle.{name} is not possible: none of its operators are left, and its place ", "is unknown",
                                 "help: the nearest place is before last; --nearest cuts there"],
                             "pipe-compile", model, "--at", f"middle.{name}", "--inputs", "f32[4,3,32]", "-o", "never.pipe")
        self.pipec(0, "pipe-compile", model, "--at", "middle.linear1", "--nearest", "--inputs", "f32[4,3,32]", "-o", "fused.pipe",
                   saying=["warning: --at middle.linear1 is not possible: none of its operators are left", "cut before last instead"])
        self.assertEqual(self.firsts(e2e.plan("fused.pipe")), ["first", "last"])
        self.sameNumbers(model, "fused.pipe", (4, 3, 32))

    def testNothingFollows(self):
        self.refused(2, "after", "pipe-compile", self.save(odd_models.Identities), "--at", "after", "-o", "never.pipe")

    def testNothingBefore(self):
        """The help names a module that does work."""
        result = self.refused(2, ["a cut before layers.0 leaves the first stage empty", "help: name a later module, such as layers.1"], "pipe-compile", MLP, "--at", "layers.0",
                              "-o", "never.pipe")
        self.compiled(MLP, "later.pipe", "--at", result.err.split("such as ")[1].strip())
        branches = self.save(odd_models.BranchesOfModules)
        self.refused(2, "help: name a later module, such as last\n", "pipe-compile", branches, "--at", "first", "-o", "never.pipe")

    def testTwoAtOnePlace(self):
        self.refused(2, ["nothing", "b"], "pipe-compile", self.save(odd_models.Identities), "--at", "nothing,b", "-o", "never.pipe")
        self.refused(2, "layers.4", "pipe-compile", MLP, "--at", "layers.4,layers.4", "-o", "never.pipe")

    def testUnknown(self):
        self.refused(2, ["laiers.4", "layers.4"], "pipe-compile", MLP, "--at", "laiers.4", "-o", "never.pipe")
        self.refused(2, ["layers.99"], "pipe-compile", MLP, "--at", "layers.99", "-o", "never.pipe")

    def testStagesAgreeOrNot(self):
        self.compiled(MLP, "agree.pipe", "--at", "layers.4,head", "--stages", 3)
        self.refused(2, "--stages 2 conflicts with 2 --at cuts (3 stages)", "pipe-compile", MLP, "--at", "layers.4,head", "--stages", 2, "-o", "never.pipe")

    def tearDown(self):
        self.assertFalse(Path("never.pipe").exists())


class Moved(Cuts):
    def testWriteInPlace(self):
        """Whether the write is proved harmless to split or the cut moves, the numbers stay."""
        model = self.save(odd_models.WritesInPlace)
        self.compiled(model, "moved.pipe", "--at", "middle", "--nearest", "--inputs", INPUTS)
        self.sameNumbers(model, "moved.pipe")

    def testWriteInALoop(self):
        """A cut that would part a write from the value that it changes is refused, and moves only where that is asked for."""
        model = self.save(odd_models.WritesInALoop)
        compile = ["pipe-compile", model, "--at", "middle", "--inputs", INPUTS, "-o", "moved.pipe"]
        self.refused(4, ["--at middle is not possible: aten::add_", "must stay in one stage with it", "help: the nearest place is before ", "--nearest"], *compile)
        self.assertFalse(Path("moved.pipe").exists())
        result = self.pipec(0, *compile, "--nearest")
        self.assertRegex(result.err, r"warning: --at middle is not possible: .*; cut before .* instead")
        self.assertNotEqual(self.firsts(e2e.plan("moved.pipe")), ["first", "middle"])
        self.sameNumbers(model, "moved.pipe")

    def testModuleInALoop(self):
        model = self.save(odd_models.CallsInALoop)
        compile = ["pipe-compile", model, "--at", "middle", "--inputs", INPUTS, "-o", "inside.pipe"]
        self.refused(4, ["module middle begins inside a loop at odd_models.py:", "help: the nearest place is before "], *compile)
        self.pipec(0, *compile, "--nearest", saying="warning: --at middle is not possible: it begins inside a loop at odd_models.py:")
        self.assertEqual(len(e2e.plan("inside.pipe")["stages"]), 2)
        self.sameNumbers(model, "inside.pipe")

    def testControlFlowIsNamedAsWritten(self):
        """A branch, and an early return, behind which TorchScript puts the rest of the method into the other branch."""
        for build, name in ((odd_models.Branches, "a branch"), (odd_models.LeavesBeforeMost, "an early return")):
            compile = ["pipe-compile", self.save(build), "--at", "middle", "-o", "named.pipe", "--force"]
            with self.subTest(name=name):
                result = self.refused(4, [f"module middle begins inside {name} at odd_models.py:", f"the nearest place is before {name} at"], *compile)
                self.assertNotIn("prim::", result.err)
                self.assertNotIn("prim::", self.pipec(0, *compile, "--nearest", saying=f"it begins inside {name} at odd_models.py:").err)

    def testWhatDecidesIsNamed(self):
        model = self.save(odd_models.WaysByArguments)
        for way, decides in enumerate(("argument flag", "arguments mode and k", "argument k", "argument mask", "data")):
            with self.subTest(way=way):
                self.refused(4, f"control flow that depends on {decides} and stays in one stage", "pipe-compile", model, "--at", f"ways.{way}", "-o", "decided.pipe")
        grown = self.save(odd_models.WayByGrownList)
        self.refused(4, "control flow that depends on data and stays in one stage", "pipe-compile", grown, "--at", "way", "-o", "decided.pipe")

    def testFirstInControlFlow(self):
        """The cut would be before the whole branch or loop, which is another place."""
        model = self.save(odd_models.BranchesOfModules)
        for name, where in (("yes", "a branch"), ("no", "a branch"), ("round", "a loop")):
            with self.subTest(module=name):
                compile = ["pipe-compile", model, "--at", name, "-o", "first.pipe", "--force"]
                self.refused(4, [f"--at: module {name} begins inside {where} at odd_models.py:", f"the nearest place is before {where} at", "--nearest"], *compile)
                self.pipec(0, *compile, "--nearest", saying=f"warning: --at {name} is not possible: it begins inside {where} at")
                self.sameNumbers(model, "first.pipe")

    def testSeveralMoveToOnePlace(self):
        """They become one cut, and a warning names them. The stages name the modules that are in control flow."""
        model = self.save(odd_models.BranchesOfModules)
        for options in ((), ("--inputs", INPUTS)):
            result = self.pipec(0, "pipe-compile", model, "--at", "yes,no,last", "--nearest", "-o", "one.pipe", "--force", *options,
                                saying=["warning: --at no is not possible: it begins inside a branch at", "at the same place as --at yes, so both are one cut"])
            self.assertIn("yes .. round", result.out)
            stages = e2e.plan("one.pipe")["stages"]
            self.assertEqual([(stage["first_module"], stage["last_module"]) for stage in stages], [("first", "first"), ("yes", "round"), ("last", "last")])
            self.sameNumbers(model, "one.pipe")
        self.refused(2, "--stages 4 conflicts with 2 --at cuts (3 stages)", "pipe-compile", model, "--at", "yes,no,last", "--nearest", "--stages", 4, "-o", "never.pipe")
        early = self.save(odd_models.LeavesBeforeMost)
        self.pipec(0, "pipe-compile", early, "--at", "middle,last", "--nearest", "-o", "early.pipe", "--force", saying="at the same place as --at middle, so both are one cut")
        self.assertEqual(len(e2e.plan("early.pipe")["stages"]), 2)
        self.sameNumbers(early, "early.pipe")

    def testNothingBeforeControlFlow(self):
        """The nearest place is then after it."""
        model = self.save(odd_models.BranchesFirst)
        compile = ["pipe-compile", model, "--at", "no", "-o", "after.pipe"]
        self.refused(4, ["module no begins inside a branch at", "the nearest place is before middle"], *compile)
        self.pipec(0, *compile, "--nearest", saying="warning: --at no is not possible: it begins inside a branch at")
        self.assertEqual(self.firsts(e2e.plan("after.pipe")), ["yes", "middle"])

    def testEarlyReturns(self):
        """A return in the middle of a module keeps the module together, not what follows it."""
        model = self.save(odd_models.ReturnsEarly)
        for options in ((), ("--inputs", INPUTS)):
            plan = self.compiled(model, "early.pipe", "--at", "layers.1,layers.2,layers.3", *options)
            self.assertEqual(self.firsts(plan), [f"layers.{i}" for i in range(4)])
            self.sameNumbers(model, "early.pipe")

    def testLongStage(self):
        """A stage with more than twice the mean cost is named, with what makes it long."""
        model = self.save(odd_models.CallsInALoop)
        result = self.pipec(0, "pipe-compile", model, "--stages", 4, "--inputs", INPUTS, "-o", "long.pipe")
        self.assertRegex(result.err, r"warning: stage \d has \d+ % of the cost, [\d.]+ times the mean of 4 stages: .*a loop at odd_models.*, which runs in one stage; trace the model")
        self.pipec(0, "pipe-compile", MLP, "--stages", 4, "--inputs", MLP_INPUTS, "-o", "even.pipe")
        uneven = ["pipe-compile", MLP, "--at", "layers.1,layers.2", "-o", "uneven.pipe", "--force"]
        self.pipec(0, *uneven, "--inputs", MLP_INPUTS, saying=["warning: stage 2 has ", "times the mean of 3 stages: ", "cut elsewhere", "the shares are estimates: --cost analytic shows them"])
        self.assertFalse(any(stage["cost_flops"] for stage in e2e.plan("uneven.pipe")["stages"]), "the artifact has no costs unless --cost is given")
        self.assertNotIn("times the mean", self.pipec(0, *uneven).err)
        self.assertNotIn("times the mean", self.pipec(0, "pipe-compile", MLP, "--stages", 4, "--inputs", MLP_INPUTS, "-o", "even.pipe", "--force").err)

    def testLongStageOfAutomaticCuts(self):
        """Its stages are unequal because fewer messages are worth more; other cuts are not advised."""
        model = self.save(odd_models.TinyLoss)
        tiny = ["pipe-compile", model, "--train", "--inputs", "f32[4,8]", "--cost", "analytic", "-o", "tiny.pipe", "--force"]
        result = self.pipec(0, *tiny, "--stages", 4, saying=["times the mean of 4 stages: ", "; no better cuts were found, because messages between stages take time",
                                                             "have only operators without cost", "ask for fewer stages, 2 at most"])
        self.assertNotIn("--split auto", result.err)
        step = lambda done: float(re.search(r"expected: ([\d.]+) us per step", done.out)[1])
        self.assertLessEqual(step(result), step(self.pipec(0, *tiny, "--at", "layers.2,layers.4,layers.6")))

    def testWritesIntoParts(self):
        """A write to a part is a new value of the whole, which travels; so no write keeps stages together."""
        model = self.save(odd_models.WritesIntoParts)
        plan = self.compiled(model, "parts.pipe", "--at", "layers.1,layers.2,layers.3", "--inputs", INPUTS)
        self.assertEqual(self.firsts(plan), ["layers.0", "layers.1", "layers.2", "layers.3"])
        self.sameNumbers(model, "parts.pipe")

    def testBuffer(self):
        """Counts over micro-batches and over calls as the unsplit model does."""
        model = self.save(odd_models.Counter)
        self.compiled(model, "counter.pipe", "--at", "last", "--inputs", INPUTS)
        torch.save(torch.randn(6, 32), "six.pt")
        self.pipec(0, "pipe-run", model, "--inputs", "six.pt", "--microbatches", 3, "--threads", 1, "--output", "counted.pt")
        loaded = torch.jit.load(model)
        self.sameBits(torch.cat(e2e.reference(loaded, [torch.load("six.pt")], 3)), torch.load("counted.pt"), "the unsplit model")
        self.pipec(0, "pipe-run", "counter.pipe", "--inputs", "six.pt", "--microbatches", 3, *e2e.BITS, "--expect", "counted.pt", saying="PASSED")


class Branches(Cuts):
    def testFlagOfItsOwn(self):
        """A model that goes one of two ways by its own argument is cut within both, whichever way the example goes."""
        model = self.save(odd_models.TwoWays)
        x = torch.randn(4, 32)
        for example in (True, False):
            torch.save((x, example), "example.pt")
            plan = self.compiled(model, "ways.pipe", "--stages", 6, "--inputs", "example.pt")
            self.assertGreaterEqual(sum(any("ways" in a["name"] for a in stage["attributes"]) for stage in plan["stages"]), 2)
            for fast in (True, False):
                torch.save((x, fast), "in.pt")
                for parts in (1, 2):
                    self.pipec(0, "pipe-run", model, "--inputs", "in.pt", "--microbatches", parts, "--threads", 1, "--output", "expected.pt", "--force")
                    self.pipec(0, "pipe-run", "ways.pipe", "--inputs", "in.pt", "--microbatches", parts, *e2e.BITS, "--expect", "expected.pt",
                               saying="PASSED")

    def testAtWithinTheWays(self):
        """A module of either way begins its stage where it is asked for, also after the branch is split into steps and read back."""
        model = self.save(odd_models.TwoWays)
        torch.save((torch.randn(4, 32), True), "in.pt")
        parts = ["--microbatches", 2]
        self.pipec(0, "pipe-run", model, "--inputs", "in.pt", *parts, "--threads", 1, "--output", "expected.pt", "--force")
        for name, before in (("ways.1", "ways.0"), ("ways.3", "ways.2"), ("others.5", "others.4")):
            plan = self.compiled(model, "at.pipe", "--at", name, "--inputs", "in.pt")
            stages = [{a["name"] for a in stage["attributes"]} for stage in plan["stages"]]
            self.assertIn(before + ".weight", stages[0])
            self.assertNotIn(name + ".weight", stages[0])
            self.pipec(0, "pipe-run", "at.pipe", "--inputs", "in.pt", *parts, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")


class NormalisesFirst(nn.Module):
    """Renormalises the first weight next to its use."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x))
        with torch.no_grad():
            self.a.weight.div_(self.a.weight.norm())
        return self.c(torch.relu(self.b(h))).pow(2).mean()


class NormalisesLast(NormalisesFirst):
    """Behind the loss, as a training loop in Python would do it."""

    def forward(self, x: Tensor) -> Tensor:
        loss = self.c(torch.relu(self.b(torch.relu(self.a(x))))).pow(2).mean()
        with torch.no_grad():
            self.a.weight.div_(self.a.weight.norm())
        return loss


class AssignsLast(NormalisesFirst):
    """The first operator reads what the last one makes of this call."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.c(torch.relu(self.b(torch.relu(self.a(x - self.mean)))))
        self.mean = y.detach().mean(0).mul(0.1)
        return y


class TooMany(Cuts):
    def testStages(self):
        self.refused(4, ["1000 stages requested; this model can be cut into at most 33", "help: request fewer stages\n"], "pipe-compile", MLP, "--stages", 1000,
                     "--inputs", MLP_INPUTS, "-o", "never.pipe")
        self.assertFalse(Path("never.pipe").exists())

    def testAWriteThatAllStagesWaitFor(self):
        """Fewer stages than 2 are none, so the help is about the write."""
        lines, first = inspect.getsourcelines(NormalisesLast)
        line = next(first + i for i, text in enumerate(lines) if "div_(" in text)
        told = "help: change what keeps operators together: keep a write into a weight or state next to the operators that use it\n"
        compile = ["--stages", 2, "--inputs", "f32[4,8]", "--cost", "analytic", "-o"]
        for mode in ([], ["--train"]):
            self.refused(4, ["at most 1 stage: it has ", f"aten::div_ at cuts.py:{line} writes into an attribute (a.weight)", told], "pipe-compile",
                         self.save(NormalisesLast), *mode, *compile, "never.pipe")
            self.pipec(0, "pipe-compile", self.save(NormalisesFirst), *mode, *compile, "first.pipe", "--force")
        self.refused(4, ["at most 1 stage: it has ", "attribute mean is assigned the result of aten::mul at cuts.py:", told], "pipe-compile", self.save(AssignsLast),
                     *compile, "never.pipe")

    def testOneOperator(self):
        """There is nothing to change."""
        self.refused(4, ["at most 1 stage: it has 1 operator at top level", "help: pipe-run MODEL.pt runs it unsplit"], "pipe-compile", self.save(nn.ReLU),
                     "--stages", 2, "--inputs", "f32[4,8]", "-o", "never.pipe")

    def testAsManyAsFit(self):
        """The number that the refusal names does compile, one more does not."""
        import re
        model = self.save(odd_models.SharedBlock)
        result = self.pipec(4, "pipe-compile", model, "--stages", 99, "--inputs", INPUTS, "-o", "never.pipe")
        most = re.search(r"at most (\d+)", result.err)
        self.assertIsNotNone(most, result.err)
        plan = self.compiled(model, "most.pipe", "--stages", most[1], "--inputs", INPUTS)
        self.assertEqual(len(plan["stages"]), int(most[1]))
        self.sameNumbers(model, "most.pipe")
        self.pipec(4, "pipe-compile", model, "--stages", int(most[1]) + 1, "--inputs", INPUTS, "-o", "never.pipe")


if __name__ == "__main__":
    e2e.main()
