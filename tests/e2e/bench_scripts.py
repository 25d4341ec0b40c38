"""What the benchmarks against other programs compute from their measurements, and how they run the programs in turns."""
import importlib.util
import os
import subprocess
import sys

import e2e

SCRIPT = e2e.SOURCE / "tests" / "bench" / "versus-torch.py"


def loaded():
    spec = importlib.util.spec_from_file_location("versus_torch", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class VersusTorch(e2e.Case):
    @classmethod
    def setUpClass(cls):
        cls.script = loaded()

    def testIntervalHoldsTheMedianWith95Percent(self):
        # Of a table of the sign test: 20 values, the 6th and the 15th.
        self.assertEqual(self.script.interval(range(20, 0, -1)), (6, 15))
        self.assertEqual(self.script.interval([3, 1, 2]), (1, 3))

    def testRatiosAreTakenPerRound(self):
        self.assertEqual(self.script.ratio([10, 30, 80], [5, 10, 20]), "3.00 (2.00 to 4.00)")
        self.assertEqual(self.script.ratio(None, [5, 10, 20]), "–")

    def testRowHasDashesWithoutTorchgpipe(self):
        found = {"torch": [6.0], "pipec": [3.0], "pipec alone": [2.0], "pipec at once": [2.5]}
        self.assertEqual(self.script.row("small-mlp", "zb", found), "| small-mlp | zb | 6.00 | – | 3.00 | 2.00 | 2.50 | 1.50 (1.50 to 1.50) | "
                         "1.20 (1.20 to 1.20) | 2.00 (2.00 to 2.00) | – |")

    def testSideRunsARoundWhenItIsTold(self):
        code = "import sys; print('said before'); print('ready', flush=True)\nfor i, _ in enumerate(sys.stdin): print(f'step {i}.5  at once 7', flush=True)"
        side = self.script.Side([sys.executable, "-c", code])
        self.assertEqual([side.round(), side.round()], [[0.5, 7.0], [1.5, 7.0]])
        side.end()
        self.assertEqual(side.processes[0].returncode, 0)

    def testSideThatFailsSaysWhy(self):
        with self.assertRaises(SystemExit) as failed:
            self.script.Side([sys.executable, "-c", "raise ValueError('no such model')"])
        self.assertIn("no such model", str(failed.exception))

    def testTorchgpipeMustBeInstalled(self):
        if importlib.util.find_spec("torchgpipe"):
            self.skipTest("torchgpipe is installed")
        done = subprocess.run([sys.executable, str(SCRIPT), "--torchgpipe"], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertIn("pip install --no-deps torchgpipe", done.stderr)


if __name__ == "__main__":
    e2e.main()
