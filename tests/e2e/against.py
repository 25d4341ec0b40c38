"""pipe-check --against: an artifact is proved against its source without a run; what changed from one artifact to another is said in
words. A byte of one weight, one constant, one operator, another cut: each is found and named."""
import json
import shutil
from pathlib import Path

import torch
from torch import nn

import e2e
import odd_models

DAMAGED, MISMATCH = 5, 7


class Block(nn.Module):
    def __init__(self, constant=0.5, op=torch.relu):
        super().__init__()
        self.fc, self.constant = nn.Linear(8, 8), constant

    def forward(self, x):
        y = torch.relu(self.fc(x))
        y += x  # only types show that this needs no memory of its own
        if y.dim() == 2:
            y = y * self.constant
        return y


class OtherBlock(Block):
    def forward(self, x):
        y = torch.sigmoid(self.fc(x))
        y += x
        if y.dim() == 2:
            y = y * self.constant
        return y


class Net(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.a, self.b, self.c = Block(), middle, Block()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.c(self.drop(self.b(self.a(x))))


class OneDescription(nn.Module):
    """The first rank is the same for every input, the second is not; both are that of a `result 0 of aten::unsqueeze`."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        x = self.a(x)
        if x.unsqueeze(1).dim() == 3:
            x = x * 2
        if x.squeeze().unsqueeze(0).dim() == 3:
            x = x + 1
        return self.b(x)


def save(path, middle=Block, edit=None, training=False, **how):
    torch.manual_seed(7)
    net = Net(middle(**how)).train(training)
    with torch.no_grad():
        if edit:
            edit(net)
    torch.jit.script(net).save(path)
    return path


def oneBit(net):
    """The last bit of one element."""
    net.b.fc.weight.view(torch.int32)[3, 4] ^= 1


class Against(e2e.Case):
    def check(self, code, artifact, against, *saying):
        result = self.pipec(code, "pipe-check", artifact, "--against", against, "--json", saying=["PASSED" if code == 0 else "FAILED: ", *saying])
        document = json.loads(result.out)
        self.assertEqual(document["ok"], code == 0)
        for finding in document["findings"]:
            self.assertEqual(sorted(finding), ["code", "message", "where"])
        return document


class Trained(nn.Module):
    def __init__(self, width=8, tied=True):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, width), nn.Linear(width, 8), nn.Linear(8, 8)
        self.d = nn.Linear(8, 8)
        if tied:
            self.d.weight = self.c.weight

    def forward(self, x, y):
        return (self.d(self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))) - y).square().mean()


class WhatIsTrained(Against):
    """Every trained parameter that differs is named, after the first difference of the stages."""

    @classmethod
    def setUpClass(cls):
        torch.save((torch.randn(4, 8), torch.randn(4, 8)), "trained.inputs.pt")
        cls.save("trained.pt")
        done = e2e.run("pipe-compile", "trained.pt", "--train", "--at", "b,c,d", "--inputs", "trained.inputs.pt", "--cost", "analytic", "-o", "trained.pipe", "--force")
        assert done.code == 0, done

    @staticmethod
    def save(path, edit=None, **how):
        torch.manual_seed(7)
        net = Trained(**how)
        if edit:
            edit(net)
        torch.jit.script(net).save(path)

    def differences(self, source):
        document = self.check(DAMAGED, "trained.pipe", source)
        first, *others = document["findings"]
        self.assertNotIn("trained parameter", first["message"])
        for finding in others:
            self.assertEqual((finding["code"], finding["message"].split(": ")[0]), ("other-plan", "trained parameter " + finding["where"]))
        return [finding["message"] for finding in others]

    def testTheSource(self):
        self.check(0, "trained.pipe", "trained.pt")
        self.pipec(0, "pipe-merge", "trained.pipe", "-o", "trained.merged.pt", "--force")
        self.check(0, "trained.pipe", "trained.merged.pt")

    def testAnotherShape(self):
        self.save("narrow.pt", width=6)
        self.assertEqual(self.differences("narrow.pt"), [
            f"trained parameter {name}: expected float32[{source}] as the source has, got float32[{plan}]"
            for name, source, plan in (("a.weight", "6, 8", "8, 8"), ("a.bias", "6", "8"), ("b.weight", "8, 6", "8, 8"))])

    def testAnotherDtype(self):
        self.save("double.pt", edit=lambda net: net.b.double())
        self.assertEqual(self.differences("double.pt"), [
            f"trained parameter b.{name}: expected float64[{shape}] as the source has, got float32[{shape}]" for name, shape in (("weight", "8, 8"), ("bias", "8"))])

    def testFrozen(self):
        def freeze(net):
            for parameter in (net.a.bias, net.d.weight):
                parameter.requires_grad_(False)
        self.save("frozen.pt", edit=freeze)
        self.assertEqual(self.differences("frozen.pt"), [f"trained parameter {name}: the source's requires no gradient" for name in ("a.bias", "c.weight")])
        self.compiled("frozen.pt", "frozen.pipe", "--train", "--at", "b,c,d", "--inputs", "trained.inputs.pt", "--cost", "analytic")
        found = self.check(DAMAGED, "frozen.pipe", "trained.pt")["findings"][1:]
        self.assertEqual([finding["message"] for finding in found], [f"trained parameter {name}: the source trains it, and the plan does not" for name in ("a.bias", "c.weight")])

    def testAnotherName(self):
        self.save("untied.pt", tied=False)
        self.assertEqual(self.differences("untied.pt"), [
            f"trained parameter c.weight: names: expected [{source}] as the source has, got [c.weight, d.weight]" for source in ("c.weight", "d.weight")])

        class Without(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.other = nn.Linear(8, 8), nn.Linear(8, 8)

            def forward(self, x, y):
                return (self.other(torch.tanh(self.a(x))) - y).square().mean()

        torch.jit.script(Without()).save("without.pt")
        self.assertEqual(self.differences("without.pt"),
                         [f"trained parameter {name}: the source has none of this name" for name in ("b.weight", "b.bias", "c.weight", "c.bias", "d.bias")])


class Source(Against):
    @classmethod
    def setUpClass(cls):
        save("net.pt")

    def compileNet(self, target="net.pipe", *options):
        return self.compiled("net.pt", target, "--at", "b,c", *options)

    def testIsTheSource(self):
        for options in ((), ("--inputs", "f32[2,8]")):
            with self.subTest(options=options):
                plan = self.compileNet("same.pipe", *options)
                document = self.check(0, "same.pipe", "net.pt", "byte by byte")
                self.assertEqual(document["findings"], [])
                if options:  # what only types decide is in the plan, else this would prove less
                    self.assertIn("aten::add_ #1 in a: form of both kept = yes, from round 1", plan["normalisation"]["forms"])
                    self.assertTrue(any("rank" in text for text in plan["obligations"]))

    def testAFactHoldsWhereItWasUsed(self):
        torch.jit.script(OneDescription()).save("description.pt")
        plan = self.compiled("description.pt", "description.pipe", "--at", "b", "--inputs", "f32[2,8]")
        self.assertEqual(plan["obligations"], ["fact result 0 of aten::unsqueeze has rank 3"])
        self.check(0, "description.pipe", "description.pt", "byte by byte")

    def testSavedAgainIsTheSame(self):
        self.compileNet()
        torch.jit.load("net.pt").save("resaved.pt")
        self.check(0, "net.pipe", "resaved.pt")

    def testOneBitOfAWeight(self):
        self.compileNet()
        save("bit.pt", edit=oneBit)
        document = self.check(DAMAGED, "net.pipe", "bit.pt", "b.fc.weight", "expected parameter tensor", "got parameter tensor")
        self.assertEqual([(f["code"], f["where"]) for f in document["findings"]], [("other-weight", "weight b.fc.weight")])

    def testOneConstant(self):
        self.compileNet("net.pipe", "--inputs", "f32[2,8]")
        save("constant.pt", constant=0.25)
        document = self.check(DAMAGED, "net.pipe", "constant.pt", "aten::mul", "0x1p-2", "0x1p-1", "against.py:", "in b")
        self.assertEqual(document["findings"][0]["code"], "other-operator")
        self.assertRegex(document["findings"][0]["where"], r"aten::mul at against.py:\d+ in b")

    def testOneOperator(self):
        self.compileNet()
        save("operator.pt", middle=OtherBlock)
        self.check(DAMAGED, "net.pipe", "operator.pt", "aten::sigmoid", "aten::relu", "against.py:", "in b")
        text = self.pipec(DAMAGED, "pipe-check", "net.pipe", "--against", "operator.pt")
        self.assertRegex(text.out, r"against +FAILED +see below\n")
        self.assertEqual((text.out + text.err).count("the stages are not the source"), 1, text.out)

    def testFlagsAreThoseOfTheCompile(self):
        save("training.pt", training=True)
        self.compiled("training.pt", "training.pipe", "--at", "b,c", "--infer")
        self.check(0, "training.pipe", "training.pt")
        self.compiled("training.pt", "kept.pipe", "--at", "b,c", "--keep-eval", "drop")
        self.check(0, "kept.pipe", "training.pt")
        self.compiled("training.pt", "draws.pipe", "--at", "b,c")
        self.check(0, "draws.pipe", "training.pt")
        self.check(DAMAGED, "draws.pipe", "net.pt", "aten::dropout")

    def testAnArgumentGivenWhole(self):
        """The plan says what the user said of an argument: the model's file does not know it."""
        self.compiled("net.pt", "whole.pipe", "--at", "b,c", "--inputs", "f32[2,8]", "--batch-dim", "x=none")
        self.assertTrue(e2e.plan("whole.pipe")["signature"]["inputs"][0]["given_whole"])
        self.check(0, "whole.pipe", "net.pt")

    def testRealModels(self):
        for name in ("resnet50", "unet", "lstm", "gpt2", "t5"):
            with self.subTest(model=name):
                self.compiled(e2e.MODELS / f"{name}.pt", "model.pipe", "--stages", 4, "--inputs", e2e.MODELS / f"{name}.inputs.pt")
                self.check(0, "model.pipe", e2e.MODELS / f"{name}.pt")

    def testAnotherModelAltogether(self):
        self.compileNet()
        self.check(DAMAGED, "net.pipe", e2e.MODELS / "mlp.pt")

    def testNothingRuns(self):
        """A model that prints when it runs is silent unless a case is given."""
        torch.manual_seed(7)
        torch.jit.script(odd_models.Talks().eval()).save("talks.pt")
        spoken = "half way"
        self.assertIn(spoken, self.pipec(0, "pipe-run", "talks.pt", "--inputs", "f32[2,8]").err)
        self.compiled("talks.pt", "talks.pipe", "--at", "b", "--inputs", "f32[2,8]", "--record-case", "talks.case")
        for more in ((), ("--against", "talks.pt"), ("--against", "talks.pipe")):
            result = self.pipec(0, "pipe-check", "talks.pipe", *more)
            self.assertNotIn(spoken, result.out + result.err, more)
        result = self.pipec(0, "pipe-check", "talks.pipe", "--case", "talks.case")
        self.assertIn(spoken, result.err)

    def testFilesThatAreNoModel(self):
        self.compileNet()
        Path("text.pt").write_text("text")
        self.refused(3, "text.pt", "pipe-check", "net.pipe", "--against", "text.pt")
        self.refused(8, "missing.pt", "pipe-check", "net.pipe", "--against", "missing.pt")


class Old(Against):
    @classmethod
    def setUpClass(cls):
        save("net.pt")

    def setUp(self):
        if not Path("old.pipe").exists():
            self.compiled("net.pt", "old.pipe", "--at", "b,c", "--inputs", "f32[2,8]")

    def codes(self, document):
        return sorted({finding["code"] for finding in document["findings"]})

    def messages(self, document, code):
        return [finding["message"] for finding in document["findings"] if finding["code"] == code]

    def testNoDifference(self):
        self.compiled("net.pt", "new.pipe", "--at", "b,c", "--inputs", "f32[2,8]")
        self.check(0, "new.pipe", "old.pipe", "no difference")

    def testVersionsAreNoDifference(self):
        import damage  # MANIFEST made true again

        shutil.rmtree("older.pipe", ignore_errors=True)
        shutil.copytree("old.pipe", "older.pipe")
        path = Path("older.pipe/plan.json")
        plan = json.loads(path.read_text())
        plan["tool_version"] = "0.0.7"
        path.write_text(json.dumps(plan))
        damage.manifest(Path("older.pipe"))
        document = self.check(0, "old.pipe", "older.pipe", "no difference", "before 0.0.7")
        self.assertEqual(len(document["notes"]), 1)

    def testAnotherCut(self):
        self.compiled("net.pt", "new.pipe", "--at", "c", "--inputs", "f32[2,8]")
        document = self.check(MISMATCH, "new.pipe", "old.pipe", "stages: 2, before 3")
        self.assertEqual(self.messages(document, "module-moved"), ["b moved from stage 1 to stage 0", "c moved from stage 2 to stage 1"])
        self.assertTrue(any(message.endswith(": gone") for message in self.messages(document, "channel")))
        self.assertNotIn("source", self.codes(document))
        self.assertNotIn("weight", self.codes(document))

    def testOneWeight(self):
        save("bit.pt", edit=oneBit)
        self.compiled("bit.pt", "new.pipe", "--at", "b,c", "--inputs", "f32[2,8]")
        document = self.check(MISMATCH, "new.pipe", "old.pipe", "weight b.fc.weight")
        self.assertEqual(self.codes(document), ["source", "weight"])
        self.assertEqual([f["where"] for f in document["findings"] if f["code"] == "weight"], ["b.fc.weight"])

    def testOneOperator(self):
        save("operator.pt", middle=OtherBlock)
        self.compiled("operator.pt", "new.pipe", "--at", "b,c", "--inputs", "f32[2,8]")
        document = self.check(MISMATCH, "new.pipe", "old.pipe")
        self.assertEqual(self.codes(document), ["operator", "source"])
        self.assertIn("aten::sigmoid", self.messages(document, "operator")[0])

    def testPackedWeights(self):
        """Of objects, such as the weights of a quantised layer, the content counts."""
        for seed in (0, 1):
            torch.manual_seed(seed)
            net = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).eval(), {nn.Linear})
            torch.jit.save(torch.jit.trace(net, torch.randn(2, 8)), f"packed{seed}.pt")
            self.pipec(0, "pipe-compile", f"packed{seed}.pt", "--at", "2", "-o", f"packed{seed}.pipe", "--force")
        self.pipec(0, "pipe-check", "packed0.pipe", "--against", "packed0.pipe", saying="PASSED")
        self.pipec(MISMATCH, "pipe-check", "packed0.pipe", "--against", "packed1.pipe", saying=["weight ", "the content of its objects differs"])

    def testAnotherExample(self):
        self.compiled("net.pt", "new.pipe", "--at", "b,c", "--inputs", "f32[4,8]")
        document = self.check(MISMATCH, "new.pipe", "old.pipe", "batch size")
        self.assertNotIn("source", self.codes(document))

    def testRules(self):
        """Without an example nothing is known of the channels' tensors; options are named."""
        self.compiled("net.pt", "new.pipe", "--at", "b,c", "--microbatches", 7)
        document = self.check(MISMATCH, "new.pipe", "old.pipe", "micro-batches: 7, before 3")
        self.assertIn("channel", self.codes(document))
        self.compiled("net.pt", "wide.pipe", "--at", "b,c", "--inputs", "f32[2,8]", "--batch-dim", "x=none")
        document = self.check(MISMATCH, "wide.pipe", "old.pipe", "argument x: batch dimension: none, before 0")
        self.assertIn("merge-rule", self.codes(document))

    def testTies(self):
        torch.manual_seed(7)
        torch.jit.script(odd_models.TiedHead().eval()).save("tied.pt")
        for mode in ("transmit", "replicate"):
            self.compiled("tied.pt", f"{mode}.pipe", "--at", "middle,head", "--tied", mode)
        document = self.check(MISMATCH, "replicate.pipe", "transmit.pipe", "replicate, before transmit")
        self.assertTrue(any("weight" in message and message.endswith(": gone") for message in self.messages(document, "channel")))

    def testDamagedIsRefused(self):
        shutil.rmtree("broken.pipe", ignore_errors=True)
        shutil.copytree("old.pipe", "broken.pipe")
        Path("broken.pipe/stage-1.pt").write_bytes(b"")
        self.pipec(DAMAGED, "pipe-check", "old.pipe", "--against", "broken.pipe", saying=["broken.pipe", "stage-1.pt"])
        self.pipec(DAMAGED, "pipe-check", "broken.pipe", "--against", "old.pipe", saying=["not reached", "FAILED: "])


if __name__ == "__main__":
    e2e.main()
