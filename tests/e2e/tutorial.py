"""docs/tutorial.md as it stands: its Python runs, its commands end as it says, and print what it shows."""
import re
import shlex
import subprocess
import sys
from pathlib import Path

import e2e

PAGE = e2e.SOURCE / "docs" / "tutorial.md"


def blocks():
    """Language and text of each fenced block of the page."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert found, PAGE
    return found


def shows(printed, expected):
    """Whether the lines of `expected` are among those printed, in their order. `...` is anything: lines, or a part of one."""
    pieces = [re.escape(line.rstrip()).replace(re.escape("..."), ".*?") for line in expected.splitlines()]
    pattern = "".join(r"(?:.*\n)*?" if piece == ".*?" else piece + r"[^\S\n]*\n" for piece in pieces)
    return re.search("^" + pattern, printed, re.M) is not None


class Tutorial(e2e.Case):
    def command(self, line):
        line, _, comment = line.partition("  # exit ")
        tool, *arguments = shlex.split(line)
        done = self.pipec(int(comment or 0), tool, *arguments)
        return done.out + done.err

    def testEveryBlockDoesWhatThePageSays(self):
        printed = ""
        kinds = set()
        for language, text in blocks():
            kinds.add(language)
            if language == "python":
                Path("block.py").write_text(text)  # scripting reads its own source
                subprocess.run([sys.executable, "block.py"], check=True, timeout=300)
            elif language == "sh":
                printed = "".join(self.command(line) for line in text.splitlines())
            else:
                self.assertEqual(language, "text", text)
                self.assertTrue(shows(printed, text), f"the page shows\n{text}\nand the commands print\n{printed}")
        self.assertEqual(kinds, {"python", "sh", "text"})

    def testShowsSeesWhatIsMissing(self):
        printed = "first\n  second 12 ms\nthird  \nfourth\n"
        for expected in ["second\n", "first\nthird\n", "third\n...\nfirst\n", "  second 1... s\n", "fourth\n...\nfifth\n"]:
            self.assertFalse(shows(printed, expected), expected)
        for expected in ["third\nfourth\n", "first\n...\nfourth\n", "  second ... ms\nthird\n", "first\n...\n  second 12 ms\n"]:
            self.assertTrue(shows(printed, expected), expected)


if __name__ == "__main__":
    e2e.main()
