"""The scripts of tools/gpu-check run, and find what is wrong, on the CPU in their short form."""
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import torch

import e2e

TOOLS = e2e.SOURCE / "tools"


def loaded(script):
    sys.path.insert(0, str(TOOLS))
    spec = importlib.util.spec_from_file_location(script.replace("-", "_"), TOOLS / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrongRuns(directory):
    """Commands of which pipe-run draws other random numbers in artifacts than in the unsplit model."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    (directory / "pipe-compile").symlink_to(e2e.BIN / "pipe-compile")
    wrong = directory / "pipe-run"
    wrong.write_text(f'#!/bin/sh\ncase $1 in *.pipe) exec "{e2e.BIN}/pipe-run" "$@" --seed 7 ;; esac\nexec "{e2e.BIN}/pipe-run" "$@"\n')
    wrong.chmod(0o755)
    return directory


class GpuScripts(e2e.Case):
    def script(self, code, name, *options, bin=e2e.BIN):
        work = Path(f"{name}.files")
        work.mkdir(exist_ok=True)
        done = subprocess.run([sys.executable, TOOLS / f"{name}.py", bin, work, "cpu", "--short", *options], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout

    def testTimingComparesAndTimes(self):
        out = self.script(0, "gpu-timing")
        self.assertRegex(out, r"(?m)^  mlp +unsplit +\d+\.\d{3} ms   2 stages +\d+\.\d{3} ms, \d+\.\d{3}$")

    def testTrainingComparesAndTimes(self):
        """Dropout of attention and inside of a recurrent network is drawn again by a recompute."""
        out = self.script(0, "gpu-training")
        for name in ("mlp", "attention", "lstm_layers"):
            for what in ("2 stages", "2 stages, recomputed"):
                self.assertRegex(out, rf"(?m)^  {name} +{what} +gradients equal bit for bit$")
            self.assertRegex(out, rf"(?m)^  {name} +2 stages, bfloat16 +gradients equal bit for bit, \de-\d\d from float32$")
        for name in ("attention", "lstm_layers"):
            self.assertRegex(out, rf"(?m)^  {name} +unsplit, another seed +gradients differ by ")
        self.assertRegex(out, r"(?m)^  mlp +unsplit +\d+\.\d{3} ms   2 stages +\d+\.\d{3} ms, \d+\.\d{3}$")

    def testTrainingFindsOtherDraws(self):
        out = self.script(1, "gpu-training", "--models", "lstm_layers", bin=wrongRuns(Path("wrong").resolve()))
        self.assertEqual(len(re.findall(r"(?m)^  lstm_layers +2 stages.* gradients within .* \(expected equal bits\).* WRONG$", out)), 3, out)

    def testFailedCommandFails(self):
        for name in ("gpu-timing", "gpu-training"):
            self.assertRegex(self.script(1, name, "--models", "mlp", bin="nowhere"), "(?m)^  mlp +FAILED: .*nowhere/")

    def testBitsMayDifferForAReasonOnly(self):
        Unsplit = loaded("gpu-training").Unsplit
        one, near = ({"w": torch.tensor([number, 2.0])} for number in (1.0, 1.0 + 1e-6))
        for gradients, isShared, stages, right in (((one, one), False, 2, False), ((one, one), True, 1, False), ((one, one), True, 2, True),
                                                   ((one, near), False, 1, True)):
            unsplit = Unsplit(gradients, isShared, 1e-4)
            self.assertEqual(unsplit.judge(stages, loaded("gpu-training").distance(one, near))[0], right)
            self.assertEqual(unsplit.judge(stages, 1e-3)[0], False)
            self.assertEqual(unsplit.judge(stages, None), (True, "equal bit for bit"))

    def testBitsAreBits(self):
        distance = loaded("gpu-training").distance
        zero, minus = {"w": torch.tensor(0.0)}, {"w": torch.tensor(-0.0)}
        self.assertIsNone(distance(zero, zero))
        self.assertEqual(distance(zero, minus), 0.0)
        self.assertEqual(distance({"w": torch.tensor(1.0)}, {"w": torch.tensor(float("nan"))}), float("inf"))
        with self.assertRaises(RuntimeError):
            distance(zero, {"v": torch.tensor(0.0)})

    def testBenchmarkOfActionsTakesADevice(self):
        if not e2e.have("bench-actions"):
            self.skipTest("the target bench is not built")
        out = self.pipec(0, "bench-actions", "actions", "--actions", 5, "--device", "cpu").out
        self.assertRegex(out, r"(?m)^us on cpu, medians of 5$")
        for action in ("F", "B", "I", "W", "send, take"):
            self.assertRegex(out, rf"(?m)^{action} ( +-?\d+\.\d\d){{3}} ")

    def testWithoutAGpuNothingIsTested(self):
        if shutil.which("nvidia-smi"):
            self.skipTest("this machine may have a GPU")
        done = subprocess.run([TOOLS / "gpu-check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "gpu-check: no GPU on this machine (nvidia-smi lists none): nothing was tested\n")


if __name__ == "__main__":
    e2e.main()
