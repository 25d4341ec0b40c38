"""Memory that outlives a micro-batch, or that a micro-batch must have to itself: equal to the model called once per micro-batch by plain PyTorch."""
import copy
import re
from pathlib import Path

import torch

import e2e
import state_models

KEEPING = [state_models.WrittenIsReturned, state_models.WrittenIsAssigned, state_models.AssignedIsReadLater, state_models.ViewIsAssigned,
           state_models.AssignedIsWrittenLater, state_models.CountedInABranch, state_models.AssignedInTwoModules,
           state_models.AddedAndReadFarBehind, state_models.WrittenInABranchAndReadFarBehind,
           state_models.SetToNothing, state_models.SetToNothingAtOnce, state_models.SetToNothingLater]


class State(e2e.Case):
    def save(self, build):
        torch.manual_seed(7)
        path = Path(f"{build.__name__}.pt")
        torch.jit.script(build()).save(str(path))
        return path

    def calledByHand(self, model, calls):
        """What the saved model returns for each call, as it is then; every call has arguments of its own."""
        module = torch.jit.load(model)
        with torch.no_grad(), torch.jit.optimized_execution(False):
            return [copy.deepcopy(module(*arguments)) for arguments in calls]

    def running(self, artifact, inputs, microBatches, expected, *more):
        torch.save(inputs, "inputs.pt")
        torch.save(expected, "expected.pt")
        self.pipec(0, "pipe-run", artifact, "--inputs", "inputs.pt", "--microbatches", microBatches, *more, *e2e.BITS, "--expect", "expected.pt",
                   saying="PASSED")

    def testStateIsThatOfCallsInOrder(self):
        batch = torch.randn(8, 4)
        for build in KEEPING:
            for stages in (2, 4):
                with self.subTest(model=build.__name__, stages=stages):
                    model = self.save(build)
                    results = self.calledByHand(model, [(part,) for part in batch.split(2)])
                    expected = torch.cat([result[0] if isinstance(result, tuple) else result for result in results])
                    if isinstance(results[0], tuple):  # every call returned the buffer
                        expected = expected, [result[1] for result in results]
                    artifact = f"{build.__name__}-{stages}.pipe"
                    self.compiled(model, artifact, "--stages", stages, "--inputs", "f32[2,4]")
                    self.running(artifact, (batch,), 4, expected)

    def testReferenceSaysWhatItWrites(self):
        """In the words of the compile, once; one micro-batch writes as the whole batch does."""
        note = re.compile(r"note: the model writes state \(.*\): each micro-batch writes it in order, whereas the whole batch writes it once")
        for build in (state_models.WrittenIsReturned, state_models.WrittenIsAssigned, state_models.AssignedInTwoModules,
                      state_models.AssignedInAnObject):
            with self.subTest(model=build.__name__):
                model = self.save(build)
                compiled = self.pipec(0, "pipe-compile", model, "--stages", 2, "--inputs", "f32[2,4]", "-o", "writes.pipe", "--force")
                run = ["pipe-run", model, "--inputs", "f32[4,4]", "--repeat", 2, "--microbatches"]
                self.assertEqual([len(note.findall(said.err)) for said in (compiled, self.pipec(0, *run, 2))], [1, 1])
                self.assertNotRegex(self.pipec(0, *run, 1).err, note)
        self.assertNotRegex(self.pipec(0, "pipe-run", self.save(state_models.OfItsOwn), "--inputs", "f32[4,4]", "--microbatches", 2).err, note)

    def testWhatSamplesDoToEachOtherIsSaid(self):
        note = "samples in a micro-batch affect each other (the result "
        for build, mixes in ((state_models.LessTheMean, True), (state_models.NormOfBatch, True), (state_models.DrawnNoise, False), (state_models.OfItsOwn, False)):
            with self.subTest(model=build.__name__):
                path = self.save(build)
                for batch in (2, 5):
                    inputs = f"f32[{batch},4]"
                    done = e2e.run("pipe-compile", path, "-o", "mixes.pipe", "--force", "--stages", 2, "--inputs", inputs)
                    (self.assertIn if mixes else self.assertNotIn)(note, done.out + done.err)

    def testStateIsSentToWhoReadsItLater(self):
        for build in (state_models.AddedAndReadFarBehind, state_models.WrittenInABranchAndReadFarBehind):
            with self.subTest(model=build.__name__):
                plan = self.compiled(self.save(build), "sent.pipe", "--at", "b,c,d", "--inputs", "f32[2,4]")
                self.assertEqual([stage["first_module"] for stage in plan["stages"]], ["a", "b", "c", "d"])
                written = [[a["name"] for a in stage["attributes"] if a["written"]] for stage in plan["stages"]]
                self.assertEqual(written[1:], [[], [], []])
                self.assertIn("sum", written[0])

    def testWrittenConstantHasANameOfItsOwn(self):
        batch = torch.randn(8, 4)
        for asModules in (False, True):
            for stages in (1, 3):
                with self.subTest(asModules=asModules, stages=stages):
                    torch.manual_seed(7)
                    torch.jit.trace(state_models.WritesItsConstant(asModules), (batch[:2],), check_trace=False).save("constant.pt")
                    expected = torch.cat(self.calledByHand("constant.pt", [(part,) for part in batch.split(2)]))
                    plan = self.compiled("constant.pt", "constant.pipe", "--stages", stages, "--inputs", "f32[2,4]")
                    self.assertIn("constants__.0" if asModules else "constants_.0", [a["name"] for stage in plan["stages"] for a in stage["attributes"]])
                    self.running("constant.pipe", (batch,), 4, expected)

    def testWrittenInputIsReadInSeveralStages(self):
        model = self.save(state_models.InputIsWrittenAndRead)
        torch.save((torch.randn(4, 8),), "inputs.pt")
        plan = self.compiled(model, "turned.pipe", "--at", "b,c,d", "--inputs", "f32[4,2]", "--batch-dim", "x=1")
        self.assertEqual([stage["first_module"] for stage in plan["stages"]], ["a", "b", "c", "d"])
        for parts in (1, 2, 4):
            self.pipec(0, "pipe-run", model, "--inputs", "inputs.pt", "--microbatches", parts, "--batch-dim", "x=1", "--threads", 1,
                       "--output", "expected.pt", "--force")
            self.pipec(0, "pipe-run", "turned.pipe", "--inputs", "inputs.pt", "--microbatches", parts, *e2e.BITS, "--expect", "expected.pt",
                       saying="PASSED")

    def testWholeInputIsFreshInEveryMicroBatch(self):
        model = self.save(state_models.InputIsWrittenSometimes)
        never = -torch.ones(2, 4)
        torch.save((never, torch.zeros(4)), "never.pt")  # the example does not take the branch
        batch = torch.randn(8, 4)
        expected = torch.cat(self.calledByHand(model, [(part, torch.zeros(4)) for part in batch.split(2)]))
        self.compiled(model, "whole.pipe", "--stages", 3, "--inputs", "never.pt", "--batch-dim", "whole=none")
        for which in (model, "whole.pipe"):
            more = ("--batch-dim", "whole=none") if which == model else ()
            self.running(which, (batch, torch.zeros(4)), 4, expected, *more)

    def testTensorsOfAListAreCopiedToo(self):
        model = self.save(state_models.ListIsWritten)
        x, part = torch.randn(8, 4), torch.randn(8, 4)
        parts = zip(x.split(2), part.split(2))
        expected = torch.cat(self.calledByHand(model, [(a, [b.clone()]) for a, b in parts]))
        torch.save((x, [part]), "example.pt")
        self.compiled(model, "list.pipe", "--stages", 3, "--inputs", "example.pt")
        for _ in range(2):
            self.running("list.pipe", (x, [part]), 4, expected, "--repeat", 3)
        self.running(model, (x, [part]), 4, expected, "--repeat", 3)

    def testZeroOfTheExampleIsNotBelieved(self):
        """0 in all test runs may be a count or a maximum: runs with other values show that it is no count."""
        model = self.save(state_models.NumberHangsOnData)
        batch = torch.cat([torch.full((4, 4), 1.0), torch.full((4, 4), 9.0)])
        large = [number for _, number, _ in self.calledByHand(model, [(part,) for part in batch.split(4)])]
        self.assertEqual(large, [0, 1])
        torch.save((batch[:4],), "example.pt")
        torch.save((batch,), "inputs.pt")
        note = "warning: result 1 is a list with a value per micro-batch, which differs from the whole batch"
        self.pipec(0, "pipe-compile", model, "-o", "number.pipe", "--stages", 2, "--inputs", "example.pt", saying=note)
        self.pipec(0, "pipe-run", model, "--inputs", "inputs.pt", "--microbatches", 2, "--output", "reference.pt", "--force", saying=note)
        self.pipec(0, "pipe-run", "number.pipe", "--inputs", "inputs.pt", "--microbatches", 2, "--expect", "reference.pt", saying="PASSED")
        self.assertEqual(torch.load("reference.pt")[1], large)
        self.assertEqual(torch.load("reference.pt")[2], 4)


if __name__ == "__main__":
    e2e.main()
