#!/usr/bin/env python3
"""PyTorch reads and runs the tables with sends and receives that pipec writes: its step simulator gets through every schedule, and its
runtime, in two processes over Gloo, gives the gradients of accumulation on the whole model. (Schedules on a V are simulated only: their turn is a
send of a rank to itself when PyTorch sets up, which Gloo cannot do.)"""
import csv
import glob
import json
import os
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _Action, _PipelineScheduleRuntime, _simulate_comms_compute

RANKS, MICRO_BATCHES, WIDTH = 2, 4, 16
loss = torch.nn.functional.mse_loss


def readTable(path):
    """Actions by rank, and the rank of every stage."""
    with open(path, newline="", encoding="utf-8") as file:
        table = {rank: [_Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(file))}
    rankOf = {a.stage_index: rank for rank, row in table.items() for a in row if a.computation_type.value in "FBIW"}
    return table, rankOf


def runTable(rank, path):
    """The largest difference of a gradient of this rank's stages from accumulation on the whole model."""
    table, rankOf = readTable(path)
    torch.manual_seed(0)
    count = len(rankOf)
    make = lambda: torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())
    parts, whole = [make() for _ in range(count)], [make() for _ in range(count)]
    for part, other in zip(parts, whole):
        other.load_state_dict(part.state_dict())
    x, y = torch.randn(2 * MICRO_BATCHES, WIDTH), torch.randn(2 * MICRO_BATCHES, WIDTH)
    for a, b in zip(x.chunk(MICRO_BATCHES), y.chunk(MICRO_BATCHES)):
        (loss(torch.nn.Sequential(*whole)(a), b) / MICRO_BATCHES).backward()
    mine = [s for s in range(count) if rankOf[s] == rank]
    example = torch.zeros(2, WIDTH)
    stages = [PipelineStage(parts[s], s, count, torch.device("cpu"), input_args=(example,), output_args=(example,)) for s in mine]
    schedule = _PipelineScheduleRuntime(stages, MICRO_BATCHES, loss_fn=loss)
    schedule._prepare_schedule_with_comms(table, format="compute_comms")
    schedule.step(*((x,) if 0 in mine else ()), **({"target": y} if count - 1 in mine else {}))
    pairs = [(p.grad, q.grad) for s in mine for p, q in zip(parts[s].parameters(), whole[s].parameters())]
    return max((p - q).abs().max().item() for p, q in pairs)


def worker(rank, meeting, paths, differences):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    for path in paths:
        differences[path, rank] = runTable(rank, path)
    dist.barrier()
    dist.destroy_process_group()


def main():
    os.makedirs("tables", exist_ok=True)
    command = [os.path.join(os.environ["PIPEC_BIN"], "pipe-schedule")]
    for schedule in json.loads(subprocess.run([*command, "--list", "--json"], check=True, capture_output=True).stdout)["schedules"]:
        subprocess.run([*command, schedule["name"], "--ranks", str(RANKS), "--microbatches", str(MICRO_BATCHES), "--force",
                        "--comms", f"tables/{schedule['name']}.csv"], check=True, stdout=subprocess.DEVNULL)
    run = []
    for path in sorted(glob.glob("tables/*.csv")):
        table, rankOf = readTable(path)
        timed = {rank: [a for a in row if a.computation_type.value != "REDUCE_GRAD"] for rank, row in table.items()}  # it knows no other
        _simulate_comms_compute(timed, lambda s: rankOf[s], len(rankOf))
        loop = all(rankOf[s] == s % RANKS for s in rankOf)
        if loop and any(a.computation_type.value in "BIW" for row in table.values() for a in row):
            run.append(path)
    assert len(run) >= 8, run
    meeting = os.path.abspath("meeting")
    if os.path.exists(meeting):
        os.remove(meeting)
    with mp.Manager() as manager:
        differences = manager.dict()
        mp.spawn(worker, (meeting, run, differences), nprocs=RANKS)
        worst = {path: max(differences[path, rank] for rank in range(RANKS)) for path in run}
    for path, difference in worst.items():
        print(f"{path}: gradients differ by {difference}")
    return 0 if max(worst.values()) <= 1e-7 else 1


if __name__ == "__main__":
    sys.exit(main())
