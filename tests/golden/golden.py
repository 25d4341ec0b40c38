"""Golden files: what the commands print, word for word. Run by CTest as `golden`; `golden.py --update` writes what is printed now.

Each *.golden file beside this script is a transcript. A line `$ COMMAND` is run by bash in an empty directory that is shared by
the commands of the file, with the commands of pipec on the PATH and the test models in $PIPEC_MODELS; the lines up to the next one
are its stdout and stderr, and `exit: N` when it does not exit with 0. Lines `# replace: REGEX => TEXT` at the top hide what
differs from run to run (times, memory); other lines starting with `#` there are comments.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def environment():
    build = ROOT / "build"
    commands = os.environ.get("PIPEC_BIN", str(build / "bin"))
    models = os.environ.get("PIPEC_MODELS", str((build / "bin").resolve().parent / "models"))
    return {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PIPEC_MODELS": models, "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}


def parse(text):
    """(lines before the first command, replacements, commands)"""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("$ ")), len(lines))
    replacements = []
    for line in lines[:first]:
        if match := re.match(r"# replace: (.*) => (.*)$", line):
            replacements.append((re.compile(match[1], re.MULTILINE), match[2]))
    return lines[:first], replacements, [line[2:] for line in lines if line.startswith("$ ")]


def transcript(text):
    """The file as the commands print it now."""
    head, replacements, commands = parse(text)
    env = environment()
    out = list(head)
    with tempfile.TemporaryDirectory() as directory:
        for command in commands:
            run = subprocess.run(["bash", "-c", command], cwd=directory, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, timeout=300)
            printed = run.stdout.replace(env["PIPEC_MODELS"], "$PIPEC_MODELS").replace(directory, "$PWD")
            for pattern, replacement in replacements:
                printed = pattern.sub(replacement, printed)
            out += ["$ " + command, *(line.rstrip() for line in printed.splitlines())]
            if run.returncode:
                out.append(f"exit: {run.returncode}")
    return "\n".join(out) + "\n"


def main(arguments):
    update = "--update" in arguments
    names = [name for name in arguments if name != "--update"]
    files = [HERE / name for name in names] or sorted(HERE.glob("*.golden"))
    if not files:
        print("golden.py: no *.golden file", file=sys.stderr)
        return 1
    failed = 0
    for file in files:
        expected = file.read_text()
        got = transcript(expected)
        if got == expected:
            continue
        if update:
            file.write_text(got)
            print(f"{file.name}: updated")
            continue
        failed += 1
        sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), got.splitlines(True), file.name, "printed now"))
    if not update:
        print(f"golden: {len(files) - failed} passed, {failed} failed; golden.py --update accepts what is printed now")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
