"""What the trainings of many models came to: rows of a CSV file, and the table of docs/training.md that counts them.

    outcomes.py FILE...      prints the table for files that `training_zoo.py --table FILE` wrote, all together
"""
import csv
import re
import sys
from collections import Counter, namedtuple

# outcome: equal; equal, N within TOLERANCE (N sums over stages that share a weight); refused; left out; failed.
# stages: how many the model is cut into; split: how many of them can split their backward. why: a refusal's row and text, or a sentence.
Outcome = namedtuple("Outcome", "model outcome gradients stages split why", defaults=(0, 0, 0, ""))


def write(found, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([Outcome._fields, *found])


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [Outcome(*row[:2], *map(int, row[2:5]), row[5]) for row in list(csv.reader(file))[1:]]


def kind(one):
    """The row of the table that counts this model."""
    if one.outcome == "refused":
        return f"refused: {one.why.split(': ')[0]}"
    if not one.outcome.startswith("equal"):
        return f"{one.outcome}: {one.why}"
    within = re.sub(r"equal, \d+ within", "; sums over stages that share a weight within", one.outcome) if one.outcome != "equal" else ""
    reasons = "; ".join(sorted(set(re.sub(r"stages? [\d, ]+: ", "", one.why).split("; "))))
    return f"equal bits{within}{f' (some stages with whole backwards: {reasons})' if one.why else ''}"


def percent(part, whole):
    return f"{part} ({100 * part / max(whole, 1):.1f} %)"


def summary(found):
    """Markdown: how many models each row counts, and which share of those that PyTorch trains is equal."""
    counts = Counter(map(kind, found))
    order = ["equal", "refused", "failed", "left out"]
    rows = sorted(counts, key=lambda row: (next(index for index, name in enumerate(order) if row.startswith(name)), -counts[row], row))
    trained = [one for one in found if one.outcome != "left out"]
    equal = [one for one in trained if one.outcome.startswith("equal")]
    bits = sum(one.outcome == "equal" for one in equal)
    return "\n".join([
        "| outcome | models |", "|---|---|", *(f"| {row} | {counts[row]} |" for row in rows), "",
        f"{len(found)} models, {len(trained)} of which PyTorch computes gradients. Of these {percent(len(equal), len(trained))} are equal: {percent(bits, len(trained))} in every bit, "
        f"{percent(len(equal) - bits, len(trained))} but for the sums of shared weights.",
        f"{sum(one.stages < 4 for one in equal)} of the equal ones have 2 or 3 stages, the most that they can have; {sum(one.split < one.stages for one in equal)} have a stage "
        "that cannot split its backward.",
    ])


if __name__ == "__main__":
    print(summary([one for path in sys.argv[1:] for one in read(path)]) if sys.argv[1:] else __doc__)
