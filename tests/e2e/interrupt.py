"""Ctrl-C in the middle of a compile: exit code 130, and no trace beside the target; an artifact that was there stays as it was."""
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import torch

import e2e

MODEL, INPUTS = e2e.MODELS / "unet.pt", e2e.MODELS / "unet.inputs.pt"
OPTIONS = ["--stages", "4", "--inputs", INPUTS]


class Interrupt(e2e.Case):
    def interrupted(self, directory, number, when, command=None, cwd=None):
        """Starts a compile into `directory`, or the command, sends the signal as soon as when() holds, and returns exit code and output."""
        command = command or ["pipe-compile", MODEL, *OPTIONS, "-o", directory / "out.pipe", "--force"]

        def prepare():
            for ignored in (signal.SIGINT, signal.SIGQUIT):  # as a shell that runs the tests in the background has them
                signal.signal(ignored, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        process = subprocess.Popen([e2e.BIN / command[0], *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, cwd=cwd, preexec_fn=prepare)
        while process.poll() is None and not when():
            time.sleep(0.001)
        process.send_signal(number)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    def fresh(self, more=""):
        directory = Path.cwd() / (self.id().removeprefix("__main__.") + more)
        directory.mkdir()
        return directory

    def testWhileWriting(self):
        """As soon as the temporary directory is there, which is when something can be left behind."""
        directory = self.fresh()
        code, output = self.interrupted(directory, signal.SIGINT, lambda: bool(os.listdir(directory)))
        self.assertEqual(code, 130, output)
        self.assertEqual(os.listdir(directory), [], "left behind")

    def testWhatBatchSystemsSend(self):
        for number in (signal.SIGUSR1, signal.SIGXCPU):
            with self.subTest(signal=number):
                directory = self.fresh(number.name)
                code, output = self.interrupted(directory, number, lambda: bool(os.listdir(directory)))
                self.assertEqual(code, 128 + number, output)
                self.assertEqual(os.listdir(directory), [], "left behind")

    def testQuit(self):
        """Ctrl-\\: the process ends by the signal itself (131 in a shell), and nothing of an artifact, an output or a page is left."""
        artifact = Path("quit.pipe").resolve()
        self.compiled(MODEL, artifact, *OPTIONS)
        for name, command in (("artifact", None),
                              ("outputs", ["pipe-run", MODEL, "--inputs", e2e.MODELS / "unet.inputs4.pt", "--output", "out.pt"]),
                              ("page", ["pipe-inspect", artifact, "--html", "out.html"])):
            with self.subTest(command=name):
                directory = self.fresh(name)
                start = time.monotonic()
                begun = lambda: bool(os.listdir(directory)) or (command and time.monotonic() > start + 0.5)
                code, output = self.interrupted(directory, signal.SIGQUIT, begun, command, cwd=directory)
                if code == 0 and command:  # it was over before the signal came
                    continue
                self.assertEqual(code, -signal.SIGQUIT, output)
                self.assertEqual([file for file in os.listdir(directory) if file.startswith(".") or not command], [], "left behind")

    def testWhileWritingOutputs(self):
        """The file that pipe-run writes its outputs into: not there, or whole where the signal came after it was."""
        directory = self.fresh()
        command = ["pipe-run", MODEL, "--inputs", e2e.MODELS / "unet.inputs4.pt", "--output", directory / "out.pt"]
        code, output = self.interrupted(directory, signal.SIGINT, lambda: bool(os.listdir(directory)), command)
        if code != 0:  # it was over before the signal came
            self.assertEqual(code, 130, output)
            self.assertIn(os.listdir(directory), ([], ["out.pt"]), output)
            if os.listdir(directory):
                torch.load(directory / "out.pt")

    def testEarlier(self):
        """While the program is being loaded, where the kernel ends it, or a little later, where it ends itself."""
        directory = self.fresh()
        start = time.monotonic()
        code, output = self.interrupted(directory, signal.SIGINT, lambda: time.monotonic() > start + 0.3)
        self.assertIn(code, (130, -signal.SIGINT), output)
        self.assertEqual(os.listdir(directory), [], "left behind")

    def testWhileLeavingAReproducer(self):
        """It is not complete then, so nothing of it stays."""
        directory = self.fresh()
        command = ["pipe-compile", MODEL.resolve(), "--at", "head", "--planted-fault", "wrong-weight", "-o", "out.pipe"]
        if "no planted fault is called" not in e2e.run("pipe-compile", MODEL, "--planted-fault", "?", "--at", "head", "--dry-run").err:
            self.skipTest("no planted faults in this build")
        begun = lambda: any(name.startswith(".pipec-reproducer") for name in os.listdir(directory))
        code, output = self.interrupted(directory, signal.SIGINT, begun, command, cwd=directory)
        if code != 70:  # it was over before the signal came
            self.assertEqual(code, 130, output)
            self.assertEqual(os.listdir(directory), [], "left behind")

    def testWhenItIsPublished(self):
        """A signal that comes when the artifact is at its place is too late: the compile ends as it would have. Before, nothing is left."""
        directory = self.fresh()
        model = e2e.MODELS / "mlp.pt"
        for attempt in range(8):
            target = directory / f"{attempt}.pipe"
            command = ["pipe-compile", model, "--at", "layers.4", "-o", target]
            code, output = self.interrupted(directory, signal.SIGINT, target.exists, command)
            self.assertEqual((code, target.exists()), (0, True), output)
            self.assertIn(f"wrote {target}", output)
        self.assertEqual(sorted(os.listdir(directory)), [f"{attempt}.pipe" for attempt in range(8)], "left behind")
        for attempt in range(8):  # about when it is written
            target = directory / "late.pipe"
            start = time.monotonic()
            self.pipec(0, "pipe-compile", model, "--at", "layers.4", "-o", target)
            usual = time.monotonic() - start
            shutil.rmtree(target)
            start = time.monotonic()
            moment = usual * (0.65 + 0.05 * attempt)
            code, output = self.interrupted(directory, signal.SIGINT, lambda: time.monotonic() > start + moment, ["pipe-compile", model, "--at", "layers.4", "-o", target])
            self.assertEqual(target.exists(), code == 0, (code, output))
            self.assertIn(code, (0, 130, -signal.SIGINT), output)  # the last: before any code of pipec ran
            shutil.rmtree(target, ignore_errors=True)

    def testTermKeepsTheOldArtifact(self):
        directory = self.fresh()
        self.pipec(0, "pipe-compile", MODEL, *OPTIONS, "-o", directory / "out.pipe")
        before = e2e.files(directory / "out.pipe")
        code, output = self.interrupted(directory, signal.SIGTERM, lambda: len(os.listdir(directory)) > 1)
        self.assertEqual(code, 143, output)
        self.assertEqual(os.listdir(directory), ["out.pipe"], "left behind")
        self.assertEqual(e2e.files(directory / "out.pipe"), before)
        self.pipec(0, "pipe-run", directory / "out.pipe", "--inputs", INPUTS, "--microbatches", 1)


if __name__ == "__main__":
    e2e.main()
