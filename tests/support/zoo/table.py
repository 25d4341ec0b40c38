"""table.csv: of each model of the zoo that the tests compile, the most stages it can have and the refusal above that.

    table.py DIRECTORY [NAME...]       counts again, of models made by zoo.py in DIRECTORY, and fails where table.csv says another number
    table.py DIRECTORY --update        writes table.csv afresh (which models it has is its first column: add a line with NAME,,, to add one)

The numbers are count_cuts.py's, which knows nothing of pipec. `tests` says which run takes the model: light (CTest, every time) or all
(tests/e2e/zoo.py --all). At least 38 models must reach 8 stages.
"""
import csv
import os
import sys
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE = HERE / "table.csv"
COLUMNS = ["model", "stages", "refusal_above", "tests"]
ABOVE = "too-few-places"  # the row of ir/Refusals.cpp
REACH_8 = 38

Row = namedtuple("Row", "name stages refusal light")


def read():
    with open(FILE, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    return [Row(line["model"], int(line["stages"] or 0), line["refusal_above"] or ABOVE, (line["tests"] or "all") == "light") for line in lines]


def write(rows):
    with open(FILE, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        out.writerows((row.name, row.stages, row.refusal, "light" if row.light else "all") for row in rows)


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    from count_cuts import count
    try:
        import torchvision  # noqa: F401  its operators
    except ImportError:
        pass
    update = "--update" in arguments
    names = [name for name in arguments[1:] if name != "--update"]
    rows = [row for row in read() if not names or row.name in names]
    counted = [row._replace(stages=count(Path(arguments[0]), row.name)) for row in rows]
    if update and not names:
        write(counted)
    wrong = [] if update else [f"{row.name}: the table says {row.stages} stages, count_cuts.py counts {new.stages}"
                               for row, new in zip(rows, counted) if row != new]
    enough = sum(row.stages >= 8 for row in read())
    if enough < REACH_8:
        wrong.append(f"{enough} models reach 8 stages, {REACH_8} are wanted")
    print("\n".join(wrong) or f"{len(rows)} models counted; {enough} of {len(read())} reach 8 stages")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
