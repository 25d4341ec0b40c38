"""The stages of an artifact in plain PyTorch, loaded once and run as docs/artifact.md shows, with a look at what crosses each cut."""
import json
from pathlib import Path

import torch


class Stages:
    """`bind` and `tree` are the functions of docs/artifact.md."""

    def __init__(self, directory, bind, tree):
        self.plan = json.loads((Path(directory) / "plan.json").read_text(encoding="utf-8"))
        self.modules = [torch.jit.load(str(Path(directory) / stage["file"])) for stage in self.plan["stages"]]
        self.bind, self.tree = bind, tree

    def run(self, *given, **named):
        """One micro-batch through all stages. State stays in them: a second call goes on from the first."""
        inputs = self.bind(self.plan["signature"], given, named)
        channels, leaves = {}, {}
        for stage, module in zip(self.plan["stages"], self.modules):
            arguments = [inputs[port["input"]] if "input" in port else channels[port["channel"]] for port in stage["inputs"]]
            arguments += [channels[weight["channel"]] for weight in stage["attributes"] if weight["channel"] is not None]
            results = module(*arguments)
            outputs = [port for port in stage["outputs"] if port["state"] is None]
            if len(outputs) + len(stage["weight_channels_out"]) == 1:
                results = [results]
            for port, value in zip(outputs, results or []):
                channels.update(dict.fromkeys(port["channels"], value))
                leaves.update(dict.fromkeys(port["leaves"], value))
            channels.update(zip(stage["weight_channels_out"], (results or [])[len(outputs):]))
        self.inputs, self.channels, self.leaves = inputs, channels, leaves
        return self.tree(self.plan["signature"]["outputs"], leaves)

    def cuts(self):
        """For each cut after a run: the kinds of what crosses it, weights left out: the types of what is no tensor, and "alias" when a tensor that
        crosses lies in the memory of another value that is alive there: one that crosses too, an argument, a result or a weight."""
        last = len(self.plan["stages"]) - 1
        return [self._cut(cut) for cut in range(last)]

    def _cut(self, cut):
        activations = [(index, channel) for index, channel in enumerate(self.plan["channels"]) if channel["kind"] == "activation"]
        crossing = [(index, channel) for index, channel in activations if channel["from"]["stage"] <= cut < max(port["stage"] for port in channel["to"])]
        kinds = {channel["type"] for _, channel in crossing if channel["type"] != "Tensor"}
        late = {port["input"] for stage in self.plan["stages"][cut + 1:] for port in stage["inputs"] if "input" in port}
        made = {leaf for stage in self.plan["stages"][:cut + 1] for port in stage["outputs"] for leaf in port["leaves"]}
        passed = {leaf for index, _ in crossing for stage in self.plan["stages"] for port in stage["outputs"] if index in port["channels"] for leaf in port["leaves"]}
        others = memories([self.inputs[index] for index in late] + [self.leaves[leaf] for leaf in made - passed])
        for module in self.modules:
            others |= memories(list(module.state_dict().values()))
        own = [memories([self.channels[index]]) for index, _ in crossing]
        if any(mine & others for mine in own) or len(set().union(*own)) < sum(map(len, own)):
            kinds.add("alias")
        return kinds or {"tensors"} if crossing else {"nothing"}


def memories(values):
    """The storages of the tensors in a tree of values, empty ones left out."""
    found = set()
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.numel():
                found.add(value.untyped_storage().data_ptr())
        elif isinstance(value, (list, tuple)):
            found |= memories(value)
        elif isinstance(value, dict):
            found |= memories(value.values())
    return found
