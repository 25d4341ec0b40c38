"""On a terminal pipe-compile and pipe-run --train say in one line what runs; the line is gone when they end. Nowhere else is there such a line."""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios

import torch
from torch import nn

import e2e


class Slow(nn.Module):
    """Takes long enough to be looked at: a chain that no core does in an instant."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(256, 256)
        self.b = nn.Linear(256, 256)

    def forward(self, x):
        x = self.a(x)
        for i in range(100):
            x = torch.tanh(x @ x.transpose(1, 2) @ x / 512)
        return self.b(x)


class SlowLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.slow = Slow()

    def forward(self, x):
        return self.slow(x).square().mean()


def onScreen(text):
    """What a terminal shows at the end of it all, and every text that stood in the last line at some time."""
    rows, seen = [""], set()
    for part in re.split(r"(\r\n|\n|\r|\x1b\[K)", text):
        if part in ("\r\n", "\n"):
            rows.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            rows[-1] = rows[-1][:column]
            seen.add(rows[-1])
        elif part:
            column = 0 if len(rows) == 1 and not rows[0] else column
            rows[-1] = rows[-1][:column] + part + rows[-1][column + len(part):]
            column += len(part)
    return rows, seen


class Progress(e2e.Case):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(7)
        torch.jit.script(Slow().eval()).save("slow.pt")
        torch.jit.script(SlowLoss()).save("loss.pt")

    def onTerminal(self, *more, env=None, stop=None):
        return self.run_("pipe-compile", "slow.pt", "--at", "b", "--inputs", "f32[2,256,256]", "-o", "slow.pipe", "--force", *more, env=env, stop=stop)

    def run_(self, command, *more, env=None, stop=None, columns=None, out=subprocess.PIPE):
        """Exit code, stdout, and what the terminal at stderr got; with `stop` the signal is sent once that text was there. out=None: stdout is the same
        terminal."""
        master, slave = pty.openpty()
        if columns:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([e2e.BIN / command, *more], stdin=subprocess.DEVNULL, stdout=out or slave, stderr=slave,
                                   env={**os.environ, "TERM": "xterm", **(env or {})}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        os.close(slave)
        text = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the writer has closed it
                break
            if not part:
                break
            text += part
            if stop and stop in text:
                process.send_signal(signal.SIGINT)
                stop = None
        out = process.stdout.read().decode() if out else ""
        process.wait(timeout=300)
        os.close(master)
        return process.returncode, out, text.decode()

    def testSaysWhatRunsAndHowFarItIs(self):
        code, out, text = self.onTerminal()
        self.assertEqual(code, 0, out + text)
        rows, seen = onScreen(text)
        self.assertTrue(any("running the source" in line for line in seen), seen)
        self.assertTrue(any(re.fullmatch(r"\[#*\.*\] running the stages: \d+ of \d+ runs, about \d+ s left", line) for line in seen), seen)
        self.assertFalse(any("running" in row for row in rows), rows)
        self.assertTrue(all(row == "" or row.startswith(("note: ", "warning: ")) for row in rows), rows)
        self.assertNotIn("\x1b[3", text)  # no colour
        self.assertIn("wrote slow.pipe", out)
        self.assertNotIn("running the", out)

    def bars(self, text, count):
        """For each line that a training of `count` steps showed: the steps that were done, and the seconds that were left. None of them stays."""
        rows, seen = onScreen(text)
        shown = [re.fullmatch(rf"\[(#*)(\.*)\] training: (\d+) of {count} steps, about (\d+) s left", line) for line in seen if "training:" in line]
        self.assertTrue(shown and all(shown), seen)
        for line in shown:
            self.assertEqual([len(line[1]), len(line[1] + line[2])], [int(line[3]) * 20 // count, 20], line[0])
        self.assertFalse(any("training:" in row for row in rows), rows)
        return sorted((int(line[3]), int(line[4])) for line in shown)

    def testATrainingOfAnArtifactSaysItAlsoAfterAResume(self):
        """There the line counts the steps before the stop, too, and expects of those to come the time of those after it."""
        self.pipec(0, "pipe-compile", "loss.pt", "--train", "--at", "slow.b", "--inputs", "f32[1,64,256]", "--cost", "analytic", "-o", "loss.pipe")
        run = ["pipe-run", "loss.pipe", "--train", "--inputs", "f32[1,64,256]", "--microbatches", "1", "--optimizer", "sgd,lr=0.001", "--checkpoint", "c"]
        for first, last, options in ((0, 60, []), (60, 180, ["--resume"])):
            code, out, text = self.run_(*run, "--steps", str(last), *options)
            self.assertEqual(code, 0, out + text)
            steps = re.findall(r"^step (\d+)/(\d+)  .*  ([\d.]+) (ms|s)  ", out, re.MULTILINE)
            self.assertEqual([(int(step), int(of)) for step, of, _, _ in steps], [(step, last) for step in range(first + 1, last + 1)])
            fastest = min(float(number) / {"ms": 1000, "s": 1}[unit] for _, _, number, unit in steps)
            for done, left in self.bars(text, last):
                self.assertTrue(first < done <= last, done)
                # A step may take a second longer than others, which the line does not know yet.
                self.assertGreaterEqual(left, fastest * (last - done) - 1, f"after step {done}, {fastest} s each")

    def testATrainingSaysHowLongItGoesOn(self):
        run = ["pipe-run", "loss.pt", "--train", "--inputs", "f32[1,64,256]", "--steps", "60"]
        code, out, text = self.run_(*run)
        self.assertEqual(code, 0, out + text)
        self.bars(text, 60)
        self.assertEqual(sum(line.startswith("step ") for line in out.splitlines()), 60)
        code, out, text = self.run_(*run, columns=45)  # too narrow for a bar
        self.assertEqual(code, 0, out + text)
        _, seen = onScreen(text)
        self.assertTrue(any(re.fullmatch(r"training: \d+ of 60 steps, about \d+ s left", line) for line in seen), seen)
        self.assertFalse(any("[" in line or len(line) > 44 for line in seen), seen)
        code, out, text = self.run_(*run, "--json")
        self.assertEqual(code, 0, out + text)
        self.assertNotIn("training:", text)

    def testIsGoneAfterCtrlC(self):
        code, out, text = self.onTerminal(stop=b"running the source")
        self.assertEqual(code, 130, out + text)
        rows, _ = onScreen(text)
        self.assertEqual([row for row in rows if row], ["error: stopped by signal 2"])

    def testIsGoneAfterCtrlCInATraining(self):
        """Lines of steps are whole, and no file that the run was to write is there, not even a temporary one."""
        self.pipec(0, "pipe-compile", "loss.pt", "--train", "--at", "slow.b", "--inputs", "f32[1,64,256]", "--cost", "analytic", "-o", "stopped.pipe")
        os.mkdir("stopped")
        for what, more in (("loss.pt", []), ("stopped.pipe", ["--trace", "stopped/trace.json"])):
            code, _, text = self.run_("pipe-run", what, "--train", "--inputs", "f32[1,64,256]", "--microbatches", "1", "--steps", "100000", "--optimizer", "sgd",
                                      "--output", "stopped/state.pt", "--emit-grads", "stopped/grads.pt", *more, stop=b"of 100000 steps, about", out=None)
            self.assertEqual(code, 130, text)
            rows, seen = onScreen(text)
            self.assertTrue(any("training: " in line for line in seen), seen)
            rows = [row for row in rows if row and not row.startswith(("note: ", "warning: "))]
            self.assertEqual(rows.pop(), "error: stopped by signal 2", text)
            for index, row in enumerate(rows):
                self.assertRegex(row, rf"^step {index + 1}/100000  loss .* [MG]iB$")
            self.assertTrue(rows, text)
            self.assertEqual(os.listdir("stopped"), [])

    def testNowhereElse(self):
        for more, env in ((["--json"], {}), ([], {"TERM": "dumb"})):
            with self.subTest(more=more, env=env):
                code, out, text = self.onTerminal(*more, env=env)
                self.assertEqual(code, 0, out + text)
                self.assertNotIn("running", text)
                self.assertNotIn("\x1b", text)
        result = self.pipec(0, "pipe-compile", "slow.pt", "--at", "b", "--inputs", "f32[2,256,256]", "-o", "slow.pipe", "--force")
        self.assertNotIn("running", result.err)
        self.assertNotIn("\x1b", result.err)


if __name__ == "__main__":
    e2e.main()
