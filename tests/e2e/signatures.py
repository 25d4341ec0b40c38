"""Arguments and results of all kinds: defaults, arguments by name, trees in and out."""
from pathlib import Path

import torch

import container_models
import e2e
import odd_models


class Signatures(e2e.Case):
    def save(self, build):
        torch.manual_seed(7)
        path = Path(f"{build.__name__}.pt")
        torch.jit.script(build().eval()).save(str(path))
        return path

    def expected(self, model, *arguments, **named):
        with torch.no_grad(), torch.jit.optimized_execution(False):
            return torch.jit.load(model)(*arguments, **named)

    def testDefaults(self):
        model = self.save(odd_models.Defaults)
        x = torch.randn(4, 16)
        torch.save((x,), "x.pt")
        self.compiled(model, "defaults.pipe", "--at", "b", "--inputs", "x.pt")
        torch.save(self.expected(model, x), "expected.pt")
        for runs in (model, "defaults.pipe"):
            self.pipec(0, "pipe-run", runs, "--inputs", "x.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")

    def testByName(self):
        """One run gives some arguments by name, the other leaves the defaults."""
        model = self.save(odd_models.Defaults)
        x = torch.randn(4, 16)
        for named in ({"times": 5}, {"tail": False}, {"word": "minus"}, {"scale": 2.5}, {"scale": 2}):
            with self.subTest(named=named):
                torch.save({"x": x, **named}, "named.pt")
                self.compiled(model, "named.pipe", "--at", "b", "--inputs", "named.pt")
                torch.save(self.expected(model, x, **named), "expected.pt")
                self.pipec(0, "pipe-run", "named.pipe", "--inputs", "named.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt",
                           saying="PASSED")

    def testWholeNumbersOfAnySize(self):
        """torch.save writes large whole numbers in as few bytes as they need; each arrives as it is, also beside tensors."""
        model = self.save(odd_models.WholeNumber)
        self.compiled(model, "number.pipe", "--stages", 1)
        x = torch.arange(4.0)
        for number in (1, 2**31 - 1, 2**31, 2**32, 2**39 - 1, 2**40, -2**31 - 1, -2**33, 2**52 + 1, 2**62, 2**63 - 1, -2**63):
            with self.subTest(number=number):
                torch.save((x, number, [number, 7]), "number.pt")
                torch.save((x, torch.tensor(number), [number, 7]), "expected.pt")
                for runs in (model, "number.pipe"):
                    self.pipec(0, "pipe-run", runs, "--inputs", "number.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")
        torch.save((x, 2**64, [1]), "number.pt")
        self.refused(3, ["number.pt: holds a whole number that does not fit int64", "save it as a float or as a string"], "pipe-run", model, "--inputs", "number.pt")

    def testTuplesAsDefaults(self):
        """A plan says of a default whether it is a tuple or a list, also inside a tuple; the text of a pass says so too."""
        model = self.save(odd_models.Defaults)
        plan = self.compiled(model, "tuples.pipe", "--at", "b", "--dump-ir", "tuples.dumps")
        self.assertEqual([argument["default"] for argument in plan["signature"]["inputs"][-2:]],
                         [{"tuple": [1, {"float": "0x1p-1"}]}, {"tuple": [{"tuple": [1, 2]}, "in"]}])
        last = sorted(Path("tuples.dumps").iterdir())[-1]
        self.assertIn('default={"tuple":[1,{"float":"0x1p-1"}]}', self.pipec(0, "pipe-opt", last).out)
        x = torch.randn(4, 16)
        torch.save({"x": x, "pair": (3, 2.0)}, "pair.pt")
        torch.save(self.expected(model, x, pair=(3, 2.0)), "expected.pt")
        self.pipec(0, "pipe-run", "tuples.pipe", "--inputs", "pair.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")

    def testDevicesAndComplexNumbersAsDefaults(self):
        model = self.save(odd_models.ComplexAndDevice)
        x = torch.randn(4, 16)
        torch.save((x,), "x.pt")
        torch.save(self.expected(model, x), "expected.pt")
        plan = self.compiled(model, "complex.pipe", "--at", "b", "--inputs", "x.pt", "--dump-ir", "complex.dumps")
        self.assertEqual([argument["default"] for argument in plan["signature"]["inputs"][1:]],
                         [{"device": "cpu"}, {"complex": [{"float": "0x1p+0"}, {"float": "-0x1p-1"}]}])
        for runs in (model, "complex.pipe"):
            self.pipec(0, "pipe-run", runs, "--inputs", "x.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")
        self.sameBits(torch.load("expected.pt"), e2e.documented("artifact.md", "run")["run"]("complex.pipe", x))
        last = sorted(Path("complex.dumps").iterdir())[-1]
        self.assertIn('default={"device":"cpu"}', self.pipec(0, "pipe-opt", last).out)

    def testForks(self):
        """What is forked is computed in its place, wherever the future went."""
        model = self.save(odd_models.Forks)
        torch.save(torch.randn(4, 8), "forks-in.pt")
        torch.save(torch.cat(e2e.reference(torch.jit.load(model), [torch.load("forks-in.pt")], 2)), "expected.pt")
        for how in (["--at", "b"], ["--stages", 2, "--inputs", "f32[2,8]"]):
            self.compiled(model, "forks.pipe", *how)
            self.pipec(0, "pipe-run", "forks.pipe", "--inputs", "forks-in.pt", "--microbatches", 2, *e2e.BITS, "--expect", "expected.pt",
                       saying="PASSED")

    def testAnAbsentDict(self):
        """What might be made of a dict that the example leaves out hinders no cut; such an artifact does not take one, and says so."""
        model = self.save(container_models.LateTargets)
        x = torch.randn(4, 6)
        torch.save((x,), "absent.pt")
        torch.save((x, [{"boxes": torch.ones(2)}] * 6), "given.pt")
        torch.save(self.expected(model, x), "expected.pt")
        result = self.pipec(0, "pipe-compile", model, "-o", "absent.pipe", "--stages", 8, "--inputs", "absent.pt")
        self.assertIn("argument targets is always None, as in the example inputs", result.out + result.err)
        plan = e2e.plan("absent.pipe")
        self.assertIn("fact input targets has value None", plan["obligations"])
        self.assertEqual(plan["required_features"], ["absent-arguments"])
        self.pipec(0, "pipe-run", "absent.pipe", "--inputs", "absent.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")
        self.pipec(2, "pipe-run", "absent.pipe", "--inputs", "given.pt", "--microbatches", 1,
                   saying="argument targets: expected None, as in the example inputs of the compile, got a list of 6")
        self.pipec(0, "pipe-check", "absent.pipe", "--against", model, saying="PASSED")
        self.pipec(0, "pipe-merge", "absent.pipe", "-o", "merged.pt")
        self.sameBits(torch.load("expected.pt"), self.expected("merged.pt", x))
        # With an example that has it, it is a value like others.
        self.compiled(model, "given.pipe", "--stages", 2, "--inputs", "given.pt")
        torch.save(self.expected(model, *torch.load("given.pt")), "expected.pt")
        self.pipec(0, "pipe-run", "given.pipe", "--inputs", "given.pt", "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")

    def testResultsOfAnAbsentDict(self):
        """What only the left out argument could have given is None in the artifact; it was an internal error."""
        torch.save((torch.randn(4, 6),), "absent.pt")
        for name in ("ReturnsTheAbsent", "ReturnsOfTheAbsent"):
            with self.subTest(name):
                model = self.save(getattr(container_models, name))
                torch.save(self.expected(model, *torch.load("absent.pt")), "expected.pt")
                self.pipec(0, "pipe-compile", model, "-o", "absent.pipe", "--stages", 2, "--inputs", "absent.pt", "--force")
                self.pipec(0, "pipe-run", "absent.pipe", "--inputs", "absent.pt", "--microbatches", 2, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")
                self.pipec(0, "pipe-check", "absent.pipe", "--against", model, saying="PASSED")
                self.pipec(0, "pipe-merge", "absent.pipe", "-o", "merged.pt", "--force")
                self.pipec(0, "pipe-check", "absent.pipe", "--against", "merged.pt", saying="PASSED")

    def testResultsWithoutPlainForm(self):
        for build, what in ((odd_models.ReturnsADevice, "a torch.device"), (odd_models.ReturnsAFuture, "a future")):
            model = self.save(build)
            for command in (["pipe-compile", model, "--at", "b", "-o", "never.pipe"], ["pipe-run", model, "--inputs", "f32[2,8]"]):
                self.refused(4, [f"forward of {model} at odd_models.py:", f": the result holds {what}: expected tensors"], *command)

    def testTrees(self):
        model = self.save(odd_models.Trees)
        x, pair = torch.randn(6, 16), (torch.randn(6, 16), [torch.randn(6, 16), torch.randn(6, 16)])
        torch.save((x, pair), "trees-in.pt")
        expected = self.expected(model, x, pair)
        for cuts in ("b", "b,c"):
            plan = self.compiled(model, "trees.pipe", "--at", cuts, "--inputs", "trees-in.pt")
            leaves = [sorted(leaf for port in stage["outputs"] for leaf in port["leaves"]) for stage in plan["stages"]]
            self.assertTrue(leaves[0] and leaves[-1], "an output leaves from the stage that makes it")
            self.pipec(0, "pipe-run", "trees.pipe", "--inputs", "trees-in.pt", "--microbatches", 1, "--threads", 1, "--output", "trees-out.pt",
                       "--force")
            got = torch.load("trees-out.pt", weights_only=False)
            self.sameBits(list(expected[0].items()), list(got[0].items()), "dict")
            self.sameBits(expected[1], got[1], "list")
            self.sameBits(tuple(expected[2]), tuple(got[2]), "named tuple")
            self.pipec(0, "pipe-run", model, "--inputs", "trees-in.pt", "--microbatches", 3, "--threads", 1, "--output", "three.pt", "--force")
            self.pipec(0, "pipe-run", "trees.pipe", "--inputs", "trees-in.pt", "--microbatches", 3, *e2e.BITS, "--expect", "three.pt",
                       saying="PASSED")

    def testNewDtypes(self):
        """torch.load reads what pipec wrote; LibTorch reads neither that nor what torch.save wrote, and the refusal says what to do."""
        model, counts = self.save(odd_models.NewDtypes), torch.arange(10)[2:4]
        x = torch.randn(2, 8)
        torch.save((x, counts), "new-in.pt")
        how = ["pipe-run", model, "--inputs", "new-in.pt", "--threads", 1]
        self.pipec(0, *how, "--output", "new-out.pt", "--force", saying=["output 2.3: uint16[2]", "output 2.-1: uint64[2]"])
        got = torch.load("new-out.pt")
        self.sameBits(self.expected(model, x, counts), got)
        self.assertEqual(got[1][1].stride(), (1, 8))
        torch.save(got, "new-again.pt")
        for expected in ("new-out.pt", "new-again.pt"):
            self.pipec(4, *how, "--expect", expected, saying=[f"{expected}: the tensor in data/", "float8_e4m3fn", "save it as x.to(torch.float32)"])
        torch.save((x, counts.to(torch.uint32)), "new-in.pt")
        self.pipec(4, *how, saying=["new-in.pt: the tensor in data/1 has dtype uint32", "save it as x.to(torch.int64)", "x.to(torch.uint32)"])


if __name__ == "__main__":
    e2e.main()
