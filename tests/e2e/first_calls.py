"""What a user tries after the first compile: smaller batches, too many micro-batches, batches beyond memory, more devices than
ranks; and nested values in a C++ program (docs/examples/nested_values.cpp)."""
import os
import subprocess
import time
from typing import Any, Dict, List, Tuple

import torch
from torch import Tensor, nn

import e2e

USAGE = 2


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        return self.d(torch.relu(self.c(torch.relu(self.b(torch.relu(self.a(x)))))))


class Distance(Chain):
    """A loss."""

    def forward(self, x, y):
        return (self.d(torch.relu(self.c(torch.relu(self.b(torch.relu(self.a(x))))))) - y).pow(2).mean()


class Decoder(nn.Module):
    """Attention over a cache of keys and values that grows with every call."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(11, 4), nn.Linear(4, 4), nn.Linear(4, 11)

    def forward(self, ids: Tensor, past: List[Tuple[Tensor, Tensor]], scale: float, mode: str) -> Dict[str, Any]:
        x = self.embed(ids)
        now: List[Tuple[Tensor, Tensor]] = []
        for key, value in past:
            keys, values = torch.cat([key, x], 1), torch.cat([value, self.mix(x)], 1)
            x = x + torch.matmul(torch.softmax(torch.matmul(x, keys.transpose(1, 2)) * scale, -1), values)
            now.append((keys, values))
        result: Dict[str, Any] = {}
        result["logits"] = self.head(x)[:, -1]
        result["past"] = now
        result["length"] = now[0][0].size(1)
        result["mode"] = mode
        return result


class FirstCalls(e2e.Case):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(3)
        torch.jit.script(Chain().eval()).save("chain.pt")
        torch.save((torch.randn(2, 8),), "inputs.pt")
        torch.save((torch.randn(8, 8),), "eight.pt")
        cls.compiled(cls(), "chain.pt", "chain.pipe", "--at", "b,c", "--inputs", "inputs.pt")

    def testTheExampleOfTheCompileRunsAsItIs(self):
        result = self.pipec(0, "pipe-run", "chain.pipe", "--inputs", "inputs.pt", "--threads", 1, "--output", "out.pt", "--force")
        self.assertIn("note: running 2 micro-batches instead of the default 3: the batch has 2 samples\n", result.err)
        with torch.no_grad():
            rows = [torch.jit.load("chain.pt")(row[None]) for row in torch.load("inputs.pt")[0]]
        torch.testing.assert_close(torch.load("out.pt"), torch.cat(rows))
        self.assertNotIn("note:", self.pipec(0, "pipe-run", "chain.pipe", "--inputs", "eight.pt").err)
        report = self.pipec(0, "pipe-run", "chain.pipe", "--inputs", "f32[1,8]", "--json")
        self.assertIn('"microbatches": 1', report.out)
        self.refused(USAGE, "expected at most 2, the number of samples, got 3", "pipe-run", "chain.pipe", "--inputs", "inputs.pt", "--microbatches", 3)

    def testAStoredScheduleFixesTheNumber(self):
        self.pipec(0, "pipe-compile", "chain.pt", "-o", "csv.pipe", "--at", "b,c", "--inputs", "inputs.pt", "--schedule", self.table(3))
        self.refused(USAGE, "batch: expected at least 3 samples, one sample per micro-batch of the schedule, got 2",
                     "pipe-run", "csv.pipe", "--inputs", "inputs.pt")
        self.pipec(0, "pipe-run", "csv.pipe", "--inputs", "inputs.pt", "--schedule", "forward-only")

    def table(self, microBatches):
        with open("table.csv", "w", encoding="utf-8") as file:
            for stage in range(3):
                file.write(",".join(f"{stage}F{m}" for m in range(microBatches)) + "\n")
        return "table.csv"

    def testTooManyMicroBatchesAreRefusedAtOnce(self):
        for model in ("chain.pipe", "chain.pt"):
            start = time.monotonic()
            self.refused(USAGE, "expected at most 4, the number of samples, got 100000", "pipe-run", model, "--inputs", "f32[4,8]", "--microbatches", 100000)
            self.assertLess(time.monotonic() - start, 10)

    def testABatchWithoutSamples(self):
        for model in ("chain.pipe", "chain.pt"):
            self.refused(USAGE, ["micro-batches: expected 1, because the batch has no samples, got 2", "help: pass one micro-batch (--microbatches 1)"], "pipe-run", model, "--inputs", "f32[0,8]", "--microbatches", 2)
            self.pipec(0, "pipe-run", model, "--inputs", "f32[0,8]", "--microbatches", 1)

    def testWhatDoesNotFitIntoMemoryIsRefused(self):
        huge = "f32[64,3,99999,99999]"
        for command in (["pipe-run", "chain.pipe"], ["pipe-run", "chain.pt"], ["pipe-compile", "chain.pt", "--at", "b", "--dry-run"]):
            start = time.monotonic()
            self.refused(USAGE, ["a quarter of this machine's memory, as runs hold copies of them, got 6.98 TiB"], *command, "--inputs", huge)
            self.assertLess(time.monotonic() - start, 10)

    def testADescriptionIsCheckedBeforeItsTensorsAreMade(self):
        """A gigabyte that fits into memory and not to the model: refused with the message of small ones, without the gigabyte."""
        compile = ["pipe-compile", "chain.pt", "--at", "b", "--dry-run"]
        cases = [(["pipe-run", "chain.pipe"], "f32[4,8,{}]", 32, "input x, micro-batch 0: expected 2 dimensions, got 3"),
                 (["pipe-run", "chain.pipe"], "f32[4,{}]", 4, "input x, micro-batch 0, dimension 1: expected size 8, got "),
                 (["pipe-run", "chain.pipe"], "i64[{},8]", 16, "input x, micro-batch 0: expected dtype float32, got int64")]
        cases += [(command, "f32[4,8],f32[{}]", 1, "arguments: expected at most 1 (x), got 2") for command in (["pipe-run", "chain.pipe"], ["pipe-run", "chain.pt"], compile)]
        # A training's, too, with and without targets of their own.
        torch.jit.script(Distance()).save("distance.pt")
        self.compiled("distance.pt", "distance.pipe", "--train", "--at", "b", "--inputs", "f32[4,8],f32[4,8]")
        train = ["pipe-run", "distance.pipe", "--train"]
        cases += [(train, "f32[4,8],f32[4,{}]", 4, "input y, micro-batch 0, dimension 1: expected size 8, got "),
                  ([*train, "--targets", "f32[4,9]"], "f32[4,{}]", 4, "input x, micro-batch 0, dimension 1: expected size 8, got "),
                  ([*train, "--targets", "f32[4,8]"], "f32[4,8],f32[{}]", 1, "arguments: expected at most 2 (x, y), got 3")]
        for (tool, *arguments), text, floats, saying in cases:
            with self.subTest(tool=tool, text=text):
                peaks = []
                for size in (9, (1 << 28) // floats):
                    command = [e2e.BIN / tool, *arguments, "--inputs", text.format(size)]
                    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
                        err = run.stderr.read()
                        _, status, usage = os.wait4(run.pid, 0)
                        run.returncode = os.waitstatus_to_exitcode(status)
                    self.assertEqual(run.returncode, USAGE, err)
                    self.assertIn(saying, err)
                    peaks.append(usage.ru_maxrss >> 10)
                self.assertLess(peaks[1], peaks[0] + 200, "MiB")

    def testAnExpandedTensorOfAFileThatDoesNotFitIsRefused(self):
        """A file of a few bytes, whose tensor would need terabytes in a copy."""
        torch.save((torch.zeros(1, 1).expand(1 << 20, 1 << 20),), "wide.pt")
        for command in (["pipe-run", "chain.pipe"], ["pipe-run", "chain.pt"], ["pipe-compile", "chain.pt", "--at", "b", "--dry-run"]):
            self.refused(USAGE, ["inputs wide.pt: expected tensors of at most ", "a quarter of this machine's memory", "got 4.00 TiB; argument 0 is float32[1048576,1048576]"],
                         *command, "--inputs", "wide.pt")

    def testMoreDevicesThanRanks(self):
        self.compiled("chain.pt", "two.pipe", "--at", "b,c,d", "--ranks", 2)
        for devices in ("cpu,cpu,cpu,cpu", "cuda:0,cuda:1,cuda:2,cuda:3"):
            result = self.refused(USAGE, "devices: expected one, or one for each of 2 ranks, got 4; the artifact has 4 stages on 2 ranks",
                                  "pipe-run", "two.pipe", "--inputs", "f32[4,8]", "--device", devices)
            self.assertIn("help: compile with --ranks 4 to have one rank per stage\n", result.err)


class NestedValues(e2e.Case):
    def testExample(self):
        torch.manual_seed(5)
        model = Decoder().eval()
        torch.jit.script(model).save("decoder.pt")
        pair = (torch.randn(2, 3, 4), torch.randn(2, 3, 4))
        torch.save({"ids": torch.tensor([[1], [2]]), "past": [pair, pair], "scale": 0.5, "mode": "greedy"}, "decoder.inputs.pt")
        self.compiled("decoder.pt", "decoder.pipe", "--at", "head", "--inputs", "decoder.inputs.pt", "--microbatches", 1)
        done = subprocess.run([str(e2e.BIN / "pipec-values-example"), "decoder.pipe"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "".join(f"greedy, length {n}: 22 logits, past.0.1 is float32 with {n} rows\n" for n in (1, 2, 3))
                         + "".join(f"result: {path}\n" for path in ("logits", "past.0.0", "past.0.1", "past.1.0", "past.1.1", "length", "mode")))


if __name__ == "__main__":
    e2e.main()
