"""After its first steps a run takes nearly no memory from the system: each page that it gives back and takes again is zeroed and costs a fault."""
import os
import subprocess
import tempfile
import unittest

import torch
from torch import nn

import e2e


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(256, 256) for _ in range(4))

    def forward(self, x):
        return self.d(torch.relu(self.c(torch.relu(self.b(torch.relu(self.a(x))))))).square().mean()


class Large(nn.Module):
    """Results of 20 MiB, which an allocator maps and unmaps one by one."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return torch.relu(torch.relu(x + self.w) * self.w) - self.w


def keepsFreedMemory():
    """A sanitizer's allocator does not."""
    return "mimalloc" in subprocess.run(["ldd", e2e.BIN / "pipe-run"], capture_output=True, text=True).stdout


@unittest.skipUnless(keepsFreedMemory(), "built without mimalloc")
class SteadyMemory(e2e.Case):
    def faults(self, *arguments):
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen([str(e2e.BIN / "pipe-run"), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            self.assertEqual(process.returncode, 0, said.read())
        return usage.ru_minflt

    def steady(self, most, option, few, many, *arguments):
        """Runs of `few` and of `many` steps have about as many faults: less than `most` per step, a tenth of what the C library's allocator has.

        They differ a little: how many values exist at once depends on which rank is faster.
        """
        first, second = (self.faults(*arguments, "--threads", 1, option, steps) for steps in (few, many))
        self.assertLess(second - first, most * (many - few), arguments)

    def testInference(self):
        torch.jit.script(Large().eval()).save("large.pt")
        self.compiled("large.pt", "large.pipe", "--stages", 2, "--inputs", "f32[1,256]")
        self.steady(4000, "--repeat", 10, 30, "large.pipe", "--inputs", "f32[40960,256]", "--microbatches", 2)

    def testTraining(self):
        torch.jit.script(Loss()).save("loss.pt")
        self.compiled("loss.pt", "loss.pipe", "--train", "--stages", 2, "--inputs", "f32[128,256]")
        for schedule in ("gpipe", "1f1b"):
            self.steady(100, "--steps", 60, 160, "loss.pipe", "--train", "--inputs", "f32[1024,256]", "--microbatches", 8, "--schedule", schedule,
                        "--optimizer", "adamw,lr=0.001")


if __name__ == "__main__":
    e2e.main()
