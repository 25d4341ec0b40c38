"""The first training of docs/training.md as it stands: its Python runs, its commands end well, and print losses as it shows them."""
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

import e2e
from tutorial import shows

PAGE = (e2e.SOURCE / "docs" / "training.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## A first training\n")[2].partition("\n## ")[0]


class Loss(nn.Module):
    def forward(self, result: torch.Tensor, target: torch.Tensor):
        return nn.functional.cross_entropy(result, target)


def lastsOnAnyMachine(line):
    """Other processors round otherwise and take other times: three digits of the loss and two of the norm are compared, and the rate."""
    return re.sub(r"(loss \d\.\d\d)\d*(  lr \S+  grad norm \d\.\d).*", r"\1...\2...", line)


class FirstTraining(e2e.Case):
    def python(self, name, text):
        Path(name).write_text(text, encoding="utf-8")  # scripting reads its own source
        subprocess.run([sys.executable, name], check=True, timeout=300)

    def commands(self, text):
        lines = text.replace("\\\n", " ").splitlines()
        return "".join(self.pipec(0, *shlex.split(line)).out for line in lines)

    def saveWhatTheReaderHas(self):
        """The files that the page only names: the model without a loss, a loss, and a batch."""
        sys.path.insert(0, ".")
        classifier = importlib.import_module("model").Classifier()
        for name in ("plain.pt", "classifier-model.pt"):
            torch.jit.script(classifier).save(name)
        torch.jit.script(Loss()).save("loss.pt")
        torch.save(torch.load("data.pt"), "batch.pt")

    def testEveryBlockDoesWhatThePageSays(self):
        ran, printed = [], ""
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", SECTION, re.M | re.S):
            if language == "python" and not ran:
                self.python("model.py", text)
                self.saveWhatTheReaderHas()
                ran.append("model")
            elif language == "python":
                self.python("block.py", text)
                ran.append("python")
            elif text.startswith("pipe-"):
                printed = self.commands(text)
                ran.append("commands")
            else:
                shown = "".join(lastsOnAnyMachine(line) + "\n" for line in text.splitlines())
                self.assertIn("...", shown.splitlines()[0])
                self.assertTrue(shows(printed, shown), f"the page shows\n{shown}\nand the commands print\n{printed}")
                ran.append("output")
        self.assertEqual(ran, ["model", "commands", "output", "python", "python", "commands", "commands"])
        inner = torch.load("classifier.pt")
        self.sameBits(dict(inner), dict(torch.jit.load("trained-classifier.pt").state_dict()), "trained, and put into the model itself")
        into = re.search(r"`(pipe-merge model.pipe --state [^`]*)`", SECTION)[1]
        self.commands(into)
        self.sameBits(torch.load("state.pt"), dict(torch.jit.load("trained.pt").state_dict()), into)
        # The module around the model is in every stage. It names none.
        for stage in e2e.plan("model.pipe")["stages"]:
            self.assertRegex(stage["first_module"] + " " + stage["last_module"], r"^model\.\S+ model\.\S+$")


if __name__ == "__main__":
    e2e.main()
