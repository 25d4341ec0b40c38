"""Manual pages and completion as the commands write them: bash, and where they are there fish, zsh and groff, read them and offer what
the options take."""
import re
import shutil
import subprocess
from pathlib import Path

import e2e

COMMANDS = ["pipe-check", "pipe-compile", "pipe-inspect", "pipe-merge", "pipe-opt", "pipe-run", "pipe-schedule"]
FILES = ["model.pt", "other.pt", "notes.txt", "table.csv", "ops.so", "two words.pt"]


def printed(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60, cwd="files")
    assert done.returncode == 0 and not done.stderr, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


class Pages(e2e.Case):
    @classmethod
    def setUpClass(cls):
        cls.pages = Path("pages").resolve()
        cls.help = {}
        for name in COMMANDS:
            done = e2e.run(name, "--write-pages", cls.pages)
            assert done == (0, "", ""), done
            cls.help[name] = e2e.run(name, "--help").out
        Path("files/model.pipe").mkdir(parents=True)
        Path("files/weights").mkdir()
        for name in FILES:
            Path("files", name).touch()

    def bash(self, *words):
        """What bash offers for the last word; it has cut words like --split=a into three."""
        quoted = " ".join(f"'{word}'" for word in words)
        function = "_" + words[0].replace("-", "_")
        script = (f"source {self.pages}/bash/{words[0]}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; {function}; "
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        return sorted(printed("bash", "--norc", "-uc", script).split("\n")[:-1])

    def testBash(self):
        cases = [
            (["pipe-compile", "--split", ""], ["at", "auto", "markers"]),
            (["pipe-compile", "--split", "a"], ["at", "auto"]),
            (["pipe-compile", "--split", "=", "m"], ["markers"]),
            (["pipe-compile", "--split", "="], ["at", "auto", "markers"]),
            (["pipe-compile", "--sta"], ["--stages"]),
            (["pipe-compile", "model.pt", "--verify", "r"], ["run"]),
            (["pipe-compile", "--tied", "transmit,re"], ["transmit,replicate"]),
            (["pipe-compile", "--print-after", "insert-"], ["insert-transfers"]),
            (["pipe-compile", "mo"], ["model.pipe", "model.pt"]),  # a directory may hold models
            (["pipe-compile", ""], ["model.pipe", "model.pt", "other.pt", "two words.pt", "weights"]),
            (["pipe-compile", "--load-library", ""], ["model.pipe", "ops.so", "weights"]),
            (["pipe-compile", "--inputs", "no"], ["notes.txt"]),
            (["pipe-compile", "-o", "mod"], ["model.pipe"]),
            (["pipe-compile", "--stages", ""], [""]),
            (["pipe-compile", "--method", ""], [""]),
            (["pipe-run", "--schedule", "f"], ["forward-only"]),
            (["pipe-run", "--schedule", "ta"], ["table.csv"]),
            (["pipe-run", "--batch-dim", ""], [""]),
            (["pipe-opt", "--passes", "inline,dead"], ["inline,dead-code"]),
            (["pipe-check", "m"], ["model.pipe"]),
            (["pipe-schedule", "1f1b,zb-v"], ["1f1b,zb-v", "1f1b,zb-v-auto"]),
            (["pipe-schedule", "--pairs", "f"], ["fused"]),
        ]
        for words, expected in cases:
            self.assertEqual(self.bash(*words), expected, words)

    def testBashOffersEveryOption(self):
        for name in COMMANDS:
            options = sorted(re.findall(r"^  (--?[a-z-]+)", self.help[name], re.M))
            self.assertGreater(len(options), 3)
            self.assertEqual(self.bash(name, "-"), options, name)

    def testFish(self):
        if not shutil.which("fish"):
            self.skipTest("no fish")
        cases = [
            ("pipe-compile --split a", ["at", "auto"]),
            ("pipe-compile --split=m", ["--split=markers"]),
            ("pipe-compile --stag", ["--stages"]),
            ("pipe-compile --tied transmit,re", ["transmit,replicate"]),
            ("pipe-run --schedule fo", ["forward-only"]),
            ("pipe-run --schedule ta", ["table.csv"]),
            ("pipe-compile mod", ["model.pipe/", "model.pt"]),
        ]
        for line, expected in cases:
            offered = printed("fish", "--no-config", "-c", f"source {self.pages}/fish/{line.split()[0]}.fish; complete -C '{line}'")
            self.assertEqual(sorted(offer.split("\t")[0] for offer in offered.splitlines()), expected, line)

    def testZsh(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        for name in COMMANDS:  # what _arguments is given, one specification a line
            given = printed("zsh", "-fc", f'_arguments() {{ print -rl -- "$@" }}; source {self.pages}/zsh/_{name}').splitlines()
            options = re.findall(r"^  (--?[a-z-]+)", self.help[name], re.M)
            self.assertEqual([re.match(r"\*?(--?[a-z-]+)", spec)[1] for spec in given[1:-1]], options)
            self.assertRegex(given[-1], "^1:[A-Z]")
            if name == "pipe-compile":
                self.assertTrue([spec for spec in given if re.fullmatch(r"--split=\[.*\]:auto\|markers\|at:\(auto markers at\)", spec)], given)

    def testManualPages(self):
        for name in COMMANDS:
            page = (self.pages / f"man/{name}.1").read_text(encoding="utf-8")
            plain = re.sub(r"\\f[A-Z]|\\&", "", page).replace("\\-", "-").replace("\\(aq", "'")
            for heading in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES"):
                self.assertIn(f".SH {heading}\n", page)
            for option in re.findall(r"^  (--?[a-z-]+)", self.help[name], re.M):
                self.assertRegex(plain, rf"(?m)^\.TP\n{option}( |\[|$)", name)
            for example in self.help[name].split("\nexamples:\n")[1].splitlines():
                self.assertIn(example.strip() + "\n", plain)

    def testGroffReadsThem(self):
        if not shutil.which("groff"):
            self.skipTest("no groff")
        for name in COMMANDS:
            shown = printed("groff", "-man", "-ww", "-Tutf8", "-P-cbou", self.pages / f"man/{name}.1")
            self.assertIn("EXIT STATUS", shown)


if __name__ == "__main__":
    e2e.main()
