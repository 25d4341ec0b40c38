#!/usr/bin/env python3
"""refused.py NAME COMMAND...: passes when the command exits 4 with the message and help of row NAME of `pipe-opt --list-refusals`.

refused.py --all DIRECTORY SOURCE: passes when every row has a case DIRECTORY/NAME.* that runs this script with its name, every case has
a row, and no C++ source but the table's names the exit code 4 other than to compare with it.
"""
import glob
import json
import os
import re
import subprocess
import sys

NAMES_EXIT_4 = re.compile(r"(?<![=!]= )ExitCode::Unsupported|\breturn\s+4\s*;|\b(?:exit\s*\(|ExitCode>?\s*[({])\s*4\b")
SEEN = ["ExitCode c = ExitCode::Unsupported;", "makeError(ExitCode::Unsupported, text)", "exitWith(static_cast<int>(ExitCode::Unsupported))", "return 4;", "exit(4)",
        "static_cast<ExitCode>(4)"]
NOT_SEEN = ["if (error.code != ExitCode::Unsupported)", "error.code == ExitCode::Unsupported ||", "return 4 * bytes;", "return 42;", "exit(40)"]


def rows():
    printed = subprocess.run(["pipe-opt", "--list-refusals"], capture_output=True, text=True, check=True).stdout
    return {row["name"]: row for row in json.loads(printed)["refusals"]}


def checkCase(name, command):
    row = rows()[name]
    run = subprocess.run(command, capture_output=True, text=True)
    message, help = (".*".join(re.escape(part) for part in row[what].split("{}")) for what in ("message", "help"))
    expected = f"error: .*{message}.*\nhelp: {help}\n"
    sys.stderr.write(run.stderr)
    if run.returncode != 4:
        return f"exit code: expected 4, got {run.returncode}"
    return None if re.search(expected, run.stderr, re.S) else f"expected the message and help of {name}, got those above"


def checkAll(directory, source):
    names, problems = set(rows()), []
    problems += [f"the check does not see {code}" for code in SEEN if not NAMES_EXIT_4.search(code)]
    problems += [f"the check is wrong about {code}" for code in NOT_SEEN if NAMES_EXIT_4.search(code)]
    cases = {os.path.splitext(os.path.basename(path))[0]: path for path in glob.glob(os.path.join(directory, "*.*"))}
    problems += [f"{name}: no case in tests/passes/refusals" for name in sorted(names - set(cases))]
    problems += [f"{name}: a case, but no such refusal" for name in sorted(set(cases) - names)]
    for name, path in sorted(cases.items()):
        with open(path, encoding="utf-8") as file:
            if not re.search(rf"^(#|//) RUN: %refused {name} ", file.read(), re.M):
                problems.append(f"{name}: its case does not run `%refused {name}`")
    for folder in ("ir", "passes", "compiler", "runtime", "tools"):
        for path in sorted(glob.glob(os.path.join(source, folder, "**", "*.*"), recursive=True)):
            if not path.endswith((".cpp", ".h")) or os.path.basename(path) == "Refusals.cpp":
                continue
            with open(path, encoding="utf-8") as file:
                if NAMES_EXIT_4.search(file.read()):
                    problems.append(f"{os.path.relpath(path, source)}: names exit code 4: use refuse() of ir/Refusals.h")
    return "\n".join(problems)


problem = checkAll(*sys.argv[2:]) if sys.argv[1] == "--all" else checkCase(sys.argv[1], sys.argv[2:])
if problem:
    sys.exit(f"refused: {problem}")
