"""What the benchmarks against other programs compute from their measurements, and how they run the programs in turns."""
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
from unittest import mock

import e2e

BENCH = e2e.SOURCE / "tests" / "bench"
SCRIPT = BENCH / "versus-torch.py"


def loaded(script):
    spec = importlib.util.spec_from_file_location(script.stem.replace("-", "_"), script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class VersusTorch(e2e.Case):
    @classmethod
    def setUpClass(cls):
        cls.script = loaded(SCRIPT)

    def testIntervalHoldsTheMedianWith95Percent(self):
        # Of a table of the sign test, two-sided, 5 %: how many values are left out at each end.
        for n, skip in {6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 14: 2, 15: 3, 16: 3, 17: 4, 20: 5, 25: 7}.items():
            self.assertEqual(self.script.interval(range(n, 0, -1)), (1 + skip, n - skip), n)
            self.assertGreaterEqual(self.script.probability(skip, n), 0.95, n)
            self.assertLess(self.script.probability(skip + 1, n), 0.95, n)

    def testIntervalOfFewValuesHasLessThan95Percent(self):
        self.assertEqual(self.script.interval([3, 1, 2]), (1, 3))
        self.assertEqual([self.script.probability(0, n) for n in (1, 2, 3, 5)], [0, 0.5, 0.75, 0.9375])

    def testProbabilityIsThatOfAllSides(self):
        """Each of n values is above or below the median, as likely: all 2^n ways, counted."""
        for n in range(1, 11):
            above = [bin(way).count("1") for way in range(2 ** n)]
            for skip in range(n // 2):
                inside = sum(skip < count < n - skip for count in above)
                self.assertEqual(self.script.probability(skip, n), inside / 2 ** n, (n, skip))

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

    def testEachProcessHasItsCore(self):
        usable = sorted(os.sched_getaffinity(0))
        code = "import os; print('ready', flush=True); input(); print(*os.sched_getaffinity(0), flush=True)"
        command = [sys.executable, "-c", code]
        for core in usable[0], usable[-1]:
            side = self.script.Side(command, cores=[core])
            self.assertEqual(side.round(), [core])
            side.end()
        side = self.script.Side(command)
        self.assertEqual(sorted(side.round()), usable)
        side.end()

    def testSlowModelsRunOnlyWhenTheyAreNamed(self):
        for name in self.script.ONLY_WHEN_NAMED:
            self.assertIn(name, self.script.MODELS)
        models = []
        with mock.patch.object(self.script, "compile_ours", lambda name, directory: models.append(name)), \
                mock.patch.object(self.script, "measure", lambda *arguments: {}), mock.patch.object(self.script, "row", lambda *arguments: ""), \
                mock.patch.object(os, "sched_setaffinity"), contextlib.redirect_stdout(io.StringIO()):
            for arguments in [], ["large-gpt"]:
                with mock.patch.object(sys, "argv", ["versus-torch.py", *arguments]):
                    self.script.main()
        self.assertEqual(models, ["small-mlp", "small-gpt", "medium-mlp", "medium-gpt", "large-gpt"])

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


class TrainingPrediction(e2e.Case):
    """(model, schedule) -> plan, run, measured, shortest action: what the judgement makes of them."""

    GOOD = {("net", "gpipe"): (100, 100, 100, 6), ("net", "1f1b"): (94, 94, 94, 6), ("net", "zb-h1"): (80, 80, 80, 5), ("net", "zb-v"): (70, 70, 70, 6)}

    @classmethod
    def setUpClass(cls):
        cls.script = loaded(BENCH / "bench-training-prediction.py")

    def judged(self, **cells):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            cells = {**self.GOOD, **{("net", schedule.replace("_", "-")): values for schedule, values in cells.items()}}
            passed = self.script.report({cell: (*values, 1.01) for cell, values in cells.items()})
        return passed, said.getvalue()

    def testGoodCellsPass(self):
        passed, said = self.judged()
        self.assertTrue(passed, said)
        self.assertIn("steps: of 3 cells whose actions all take 5 ms or more, 3 are at most 1.03 of run; largest 1.000\n", said)
        self.assertIn("order: of 6 pairs of schedules that differ by more than 5 %, 6 as plan expects\n", said)
        self.assertIn("order: of 6 pairs of schedules that differ by more than 5 %, 6 as run expects\n", said)

    def testStepsAreJudgedByRunWhereActionsAreLong(self):
        passed, said = self.judged(zb_h1=(80, 80, 83.2, 5))
        self.assertFalse(passed, said)
        self.assertIn("steps: of 3 cells whose actions all take 5 ms or more, 2 are at most 1.03 of run; largest 1.040\n", said)
        self.assertIn(f"{1.04:15.3f} {5:10.2f} {1.01:7.3f}\n", said)
        for cells in {"zb_h1": (80, 80, 83.2, 4.9)}, {"zb_v": (70, 70, 72.8, 6)}:  # short actions; a schedule that is only shown
            passed, said = self.judged(**cells)
            self.assertTrue(passed, said)

    def testOrderIsJudgedByPlanAndByRun(self):
        for which, cells in ("plan", (101, 94, 94, 1)), ("run", (94, 101, 94, 1)):
            passed, said = self.judged(**{"1f1b": cells})
            self.assertFalse(passed, said)
            self.assertIn(f", 5 as {which} expects\n", said)
            self.assertEqual(said.count(", 6 as "), 1, said)

    def testShortestActionIsThatOfTheSimulatedRows(self):
        def event(pid, category, us):
            return {"ph": "X", "pid": pid, "cat": category, "dur": us}

        events = [event(0, "F", 1000), event(2, "F", 7000), event(3, "W", 4500), event(3, "SEND", 1), {"ph": "s", "cat": "transfer", "pid": 3}]
        self.assertEqual(self.script.shortestAction({"otherData": {"ranks": 2}, "traceEvents": events}), 4.5)

    def testReplayHasWhatTheActionsTookAndNothingElse(self):
        def span(rank, name, category, start, us):
            return {"ph": "X", "pid": rank, "name": name, "cat": category, "ts": start, "dur": us}

        # Rank 0: F 10, SEND, TAKE, B 10. Rank 1: TAKE, B 20, SEND, a sum of its own. Norms, then an update of 5 on each. 10 + 20 + 10 + 5; 9 more in
        # the measured step.
        events = [span(0, "0/0/F", "F", 0, 10), span(0, "SEND a", "transfer", 10, 2), span(0, "TAKE g", "transfer", 12, 24), span(0, "0/0/B", "B", 36, 10),
                  span(0, "NORM", "collective", 46, 2), span(0, "OPT stage=0", "transfer", 48, 5), {"ph": "M", "pid": 0},
                  span(1, "TAKE a", "transfer", 0, 13), span(1, "1/0/B", "B", 13, 20), span(1, "SEND g", "transfer", 33, 2),
                  span(1, "TIE_REDUCE tie=0", "collective", 35, 1), span(1, "NORM", "collective", 36, 12), span(1, "OPT stage=1", "transfer", 49, 5)]
        for number, (of, start, to, end) in enumerate([(0, 10, 1, 13), (1, 33, 0, 36)]):
            events += [{"ph": "s", "pid": of, "ts": start, "id": number}, {"ph": "f", "pid": to, "ts": end, "id": number}]
        trace = {"otherData": {"ranks": 2, "step_ns": 54000}, "traceEvents": events}
        self.assertAlmostEqual(self.script.overReplay(trace), 54 / 45)


if __name__ == "__main__":
    e2e.main()
