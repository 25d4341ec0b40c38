"""The first training of docs/training.md as it stands: its Python runs, its commands end well, and print losses as it shows them. With the files that its
program makes, so do the evaluation of that page and the commands of docs/checkpoints.md."""
import re
import shlex
import subprocess
import sys
from pathlib import Path

import torch

import e2e
from tutorial import shows

PAGE = (e2e.SOURCE / "docs" / "training.md").read_text(encoding="utf-8")
CHECKPOINTS = (e2e.SOURCE / "docs" / "checkpoints.md").read_text(encoding="utf-8")


def section(title):
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def blocks(text):
    """Language and text of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)


def lastsOnAnyMachine(line):
    """Other processors round otherwise and take other times: three digits of the loss and two of the norm are compared, and the rate."""
    line = re.sub(r"(loss \d\.\d\d)\d*(  \d+ samples  ).*", r"\1...\2...", line)  # of an evaluation
    return re.sub(r"(loss \d\.\d\d)\d*(  lr \S+  grad norm \d\.\d).*", r"\1...\2...", line)


class FirstTraining(e2e.Case):
    def python(self, name, text):
        Path(name).write_text(text, encoding="utf-8")  # scripting reads its own source
        subprocess.run([sys.executable, name], check=True, timeout=300)

    def commands(self, text):
        lines = text.replace("\\\n", " ").splitlines()
        return "".join(self.pipec(0, *shlex.split(line)).out for line in lines)

    def compareShown(self, shown, printed):
        shown = "".join(lastsOnAnyMachine(line) + "\n" for line in shown.splitlines())
        self.assertIn("...", shown.splitlines()[0])
        self.assertTrue(shows(printed, shown), f"the page shows\n{shown}\nand the commands print\n{printed}")

    def testEveryBlockDoesWhatThePageSays(self):
        ran, printed = [], ""
        for language, text in blocks(section("A first training")):
            if language == "python" and not ran:
                self.python("model.py", text)
                ran.append("model")
            elif language == "python":
                self.python("block.py", text)
                ran.append("python")
            elif text.startswith("pipe-"):
                printed = self.commands(text)
                ran.append("commands")
            else:
                self.compareShown(text, printed)
                ran.append("output")
        self.assertEqual(ran, ["model", "commands", "output", "commands", "output", "python", "python", "commands", "commands"])
        losses = re.findall(r"^step 1/1  loss (\S+)", printed, re.M)
        self.assertEqual(len(losses), 2, printed)
        self.assertEqual(losses[0], losses[1], "of the joined artifact and of the model with --loss")
        self.assertLess(Path("micro.pt").stat().st_size, Path("data.pt").stat().st_size / 2, "a file of a slice that is no clone")
        inner = torch.load("classifier.pt")
        self.sameBits(dict(inner), dict(torch.jit.load("trained-classifier.pt").state_dict()), "trained, and put into the model itself")
        into = re.search(r"`(pipe-merge model.pipe --state [^`]*)`", section("A first training"))[1]
        self.commands(into)
        self.sameBits(torch.load("state.pt"), dict(torch.jit.load("trained.pt").state_dict()), into)
        # The module around the model is in every stage. It names none.
        for stage in e2e.plan("model.pipe")["stages"]:
            self.assertRegex(stage["first_module"] + " " + stage["last_module"], r"^model\.\S+ model\.\S+$")
        self.evaluates()
        self.writesCheckpoints()

    def evaluates(self):
        (_, commands), (_, shown) = blocks(section("Evaluation between steps"))
        self.compareShown(shown, self.commands(commands))

    def writesCheckpoints(self):
        ran = []
        for language, text in blocks(CHECKPOINTS):
            if text.startswith("pipe-"):
                self.commands(text)
                ran.append("commands")
            elif language == "python":
                self.python("block.py", text)
                ran.append("python")
        self.assertEqual(ran, ["commands", "commands", "python"])


if __name__ == "__main__":
    e2e.main()
