"""Trains the language model of docs/examples/text_model.py on the pages of docs, as a pipeline and unsplit, and draws both losses.

    tests/bench/training-curve.py [--steps N] [--schedule NAME] [--svg FILE]     the commands are those of build/bin, or of PIPEC_BIN

Prints the number of steps whose losses have the same bits, and writes the picture of docs/training.md. Exits with 1 if a loss differs.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("PIPEC_BIN", SOURCE / "build" / "bin"))
BATCH, MICRO_BATCHES = 32, 4
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 300, 56, 40, 34, 16


def pipec(tool, *arguments):
    return subprocess.run([BIN / tool, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def losses(model, folder, steps, *options):
    out = pipec("pipe-run", model, "--train", "--data", folder / "data.pt", "--batch", BATCH, "--microbatches", MICRO_BATCHES, "--shuffle",
                "--steps", steps, "--optimizer", "adamw,lr=3e-3", "--lr-schedule", "cosine,warmup=20", "--clip-norm", 1, "--json", *options)
    found = []
    for line in out.splitlines():
        if not line.startswith('{"') or '"step"' not in line:
            break
        found.append(json.loads(line)["loss"])
    return found


def path(values, most):
    x = lambda i: LEFT + (WIDTH - LEFT - RIGHT) * i / max(1, len(values) - 1)
    y = lambda value: TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most)
    return " ".join(f"{'M' if i == 0 else 'L'}{x(i):.1f} {y(value):.1f}" for i, value in enumerate(values))


def picture(pipeline, unsplit, title):
    most = max(1, int(max(pipeline + unsplit)) + 1)
    lines = []
    for value in range(most + 1):
        y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most)
        lines.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#8888" stroke-width="0.5"/>'
                     f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    for part in range(0, 5):
        step = round((len(pipeline) - 1) * part / 4)
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, len(pipeline) - 1)
        lines.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step + 1}</text>')
    legend = [("#e08214", 6, "unsplit model", 0), ("#2166ac", 1.8, "pipeline", 130)]
    for colour, width, name, shift in legend:
        lines.append(f'<line x1="{WIDTH - 270 + shift}" y1="20" x2="{WIDTH - 246 + shift}" y2="20" stroke="{colour}" stroke-width="{width}"/>'
                     f'<text x="{WIDTH - 240 + shift}" y="24">{name}</text>')
    for (colour, width, _, _), values in zip(legend, (unsplit, pipeline)):
        lines.append(f'<path d="{path(values, most)}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#888">\n'
            f'<text x="{LEFT}" y="24">{title}</text>\n' + "\n".join(lines) +
            f'\n<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">step</text>\n</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages = sorted(str(page) for page in (SOURCE / "docs").glob("*.md"))
        print(subprocess.run([sys.executable, SOURCE / "docs/examples/text_model.py", folder, *pages], check=True, capture_output=True,
                             text=True).stdout.strip())
        pipec("pipe-compile", folder / "text.pt", "--train", "--stages", options.stages, "--schedule", options.schedule, "--microbatches",
              MICRO_BATCHES, "--cost", "analytic", "--inputs", folder / "micro.pt", "-o", folder / "text.pipe")
        pipeline = losses(folder / "text.pipe", folder, options.steps)
        unsplit = losses(folder / "text.pt", folder, options.steps)
    same = sum(a == b for a, b in zip(pipeline, unsplit))
    print(f"{options.stages} stages under {options.schedule}: loss {pipeline[0]:.4f} at step 1, {pipeline[-1]:.4f} at step {len(pipeline)}; "
          f"{same} of {options.steps} losses have the bits of the unsplit model's")
    if options.svg:
        options.svg.write_text(picture(pipeline, unsplit, f"loss, {options.stages} stages under {options.schedule}"), encoding="utf-8")
    return 0 if same == len(pipeline) == len(unsplit) == options.steps else 1


if __name__ == "__main__":
    sys.exit(main())
