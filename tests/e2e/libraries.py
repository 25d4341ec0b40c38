"""--load-library: operators of a library that was made for Python, torchvision's, run without Python."""
import importlib.util
from pathlib import Path

import torch
import torchvision  # registers the operators for torch.jit.script

import e2e

LIBRARY = Path(importlib.util.find_spec("torchvision").origin).with_name("_C.so")


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, boxes: torch.Tensor) -> torch.Tensor:
        x = self.a(boxes).abs().cumsum(1)
        return self.b(x[torch.ops.torchvision.nms(x, x[:, 0], 0.5)])


class Libraries(e2e.Case):
    def testOperatorsMadeForPython(self):
        """And without the library the operator is missed by name."""
        torch.manual_seed(3)
        model, x = torch.jit.script(Detector().eval()), torch.randn(6, 4)
        model.save("detector.pt")
        torch.save((x,), "x.pt")
        with torch.no_grad(), torch.jit.optimized_execution(False):
            torch.save(model(x), "expected.pt")
        options = ["--load-library", LIBRARY, "--inputs", "x.pt"]
        self.pipec(0, "pipe-compile", "detector.pt", *options, "--at", "b", "-o", "detector.pipe")
        for runs in ("detector.pt", "detector.pipe"):
            self.pipec(0, "pipe-run", runs, *options, "--microbatches", 1, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")
        self.pipec(0, "pipe-check", "detector.pipe", "--load-library", LIBRARY, saying="PASSED")
        self.pipec(0, "pipe-inspect", "detector.pipe", "--load-library", LIBRARY, "--html", "detector.html", "--force")
        self.pipec(3, "pipe-run", "detector.pt", "--inputs", "x.pt", saying="torchvision::nms")


if __name__ == "__main__":
    e2e.main()
