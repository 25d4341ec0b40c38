"""Sizes beside the batch that differ from run to run: the artifact takes those that the model takes, with its bits."""
from pathlib import Path
from typing import Dict, List

import torch
from torch import nn

import e2e


class Attention(nn.Module):
    """Positions come from a table: no run is longer than it."""

    def __init__(self, longest: int = 24):
        super().__init__()
        self.tokens = nn.Embedding(32, 16)
        self.positions = nn.Parameter(torch.randn(longest, 16))
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)
        self.value = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 32)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor):
        x = self.tokens(ids) + self.positions[:ids.size(1)]
        heads = [part(x).view(x.size(0), x.size(1), 2, 8).transpose(1, 2) for part in (self.query, self.key, self.value)]
        scores = (heads[0] @ heads[1].transpose(-1, -2) / 8.0).masked_fill(mask[:, None, None, :] == 0, -1e9)
        mixed = (torch.softmax(scores, -1) @ heads[2]).transpose(1, 2).reshape(x.size(0), x.size(1), 16)
        return self.head(self.norm(x + mixed).relu_())


class OfTrees(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, batch: Dict[str, torch.Tensor], more: List[torch.Tensor]):
        x = self.a(batch["ids"] * batch["mask"].unsqueeze(2))
        return self.b(torch.relu(x)) + more[0] + more[1].unsqueeze(1)


class Scripted(Attention):
    def forward(self, ids: torch.Tensor, mask: torch.Tensor):
        x = self.tokens(ids) + self.positions[:ids.size(1)]
        q = self.query(x).view(x.size(0), x.size(1), 2, 8).transpose(1, 2)
        k = self.key(x).view(x.size(0), x.size(1), 2, 8).transpose(1, 2)
        v = self.value(x).view(x.size(0), x.size(1), 2, 8).transpose(1, 2)
        scores = (q @ k.transpose(-1, -2) / 8.0).masked_fill(mask[:, None, None, :] == 0, -1e9)
        mixed = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.size(0), x.size(1), 16)
        return self.head(self.norm(x + mixed).relu_())


class Fixed(Attention):
    """As a trace that took sizes as numbers of Python."""

    def forward(self, ids: torch.Tensor, mask: torch.Tensor):
        x = self.norm(self.tokens(ids) + self.positions[:8])
        x = x.view(-1, 128)
        return self.head(x.view(-1, 8, 16)) * mask[:, :, None]


class Decides(nn.Module):
    """What is done hangs on the length: a branch, a loop, and how many pieces there are."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor):
        x = self.a(x)
        if x.size(1) > 9:
            x = x * 2.0
        total = torch.zeros_like(x[:, 0])
        for i in range(x.size(1)):
            total = total + x[:, i] * float(i + 1)
        pieces = x.split(4, 1)
        if len(pieces) > 2:
            y = total.unsqueeze(0)
        else:
            y = total
        if y.dim() == 3:
            y = y.squeeze(0) - 1.0
        return self.b(y), x.flatten(0, 1)


class Halves(nn.Module):
    """An image that is halved four times and joined again: only multiples of 16 run."""

    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList([nn.Conv2d(3, 3, 3, padding=1) for _ in range(4)])
        self.last = nn.Conv2d(12, 2, 1)

    def forward(self, x: torch.Tensor):
        whole = [x]
        for convolution in self.inner:
            x = torch.relu_(convolution(nn.functional.max_pool2d(x, 2)))
            whole.append(x)
        for i in range(3):
            x = nn.functional.interpolate(x, scale_factor=2.0) + whole[3 - i]
        x = torch.cat([nn.functional.interpolate(x, scale_factor=2.0), whole[0], whole[0], whole[0]], 1)
        return self.last(x)


class Offsets(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, offsets: torch.Tensor):
        return self.b(torch.relu(self.a(x)) + offsets)


class PadsToWindows(Offsets):
    """Divides by nothing for fewer than 8."""

    def forward(self, x: torch.Tensor):
        window = x.size(1) // 8
        x = torch.nn.functional.pad(self.a(x), [0, 0, 0, (window - x.size(1) % window) % window])
        return self.b(torch.relu(x))


class Strides(Offsets):
    """Never comes to an end for fewer than 8."""

    def forward(self, x: torch.Tensor):
        x = torch.relu(self.a(x))
        y, i = self.b(x), 0
        while i < x.size(1):
            y = y + x[:, i:i + x.size(1) // 8].sum()
            i += x.size(1) // 8
        return y


class JoinsByChance(Offsets):
    """Of 4 samples only; the second result is as long as there are samples, by chance."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.randn(4, 1, 8))

    def forward(self, x: torch.Tensor):
        return self.b(torch.relu(self.a(x) + self.position)), torch.arange(x.size(1))


class Graph(nn.Module):
    """A network over a graph: an edge names two nodes by their number."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor):
        for layer in self.layers:
            nodes = torch.relu(layer(torch.zeros_like(nodes).index_add(0, edges[1], nodes[edges[0]])))
        return nodes


class Molecule(Graph):
    """Atoms have a kind, which is a number, too, and edges a weight."""

    def __init__(self):
        super().__init__()
        self.kinds = nn.Embedding(50, 8)

    def forward(self, kinds: torch.Tensor, edges: torch.Tensor, weights: torch.Tensor):
        nodes = self.kinds(kinds)
        for layer in self.layers:
            nodes = torch.relu(layer(torch.zeros_like(nodes).index_add(0, edges[1], nodes[edges[0]] * weights)))
        return nodes


def batch(length, samples=2):
    torch.manual_seed(length)
    return torch.randint(0, 32, (samples, length)), (torch.rand(samples, length) > 0.2).long()


class Lengths(e2e.Case):
    def save(self, build, trace=False):
        torch.manual_seed(3)
        path = Path(f"{build.__name__}.pt")
        model = build().eval()
        (torch.jit.trace(model, batch(8)) if trace else torch.jit.script(model)).save(str(path))
        return path

    def sameAsUnsplit(self, model, artifact, inputs, microBatches=1):
        torch.save(inputs, "inputs.pt")
        counted = ["--inputs", "inputs.pt", "--microbatches", microBatches]
        self.pipec(0, "pipe-run", model, *counted, "--threads", 1, "--output", "expected.pt", "--force")
        self.pipec(0, "pipe-run", artifact, *counted, *e2e.BITS, "--expect", "expected.pt", saying="PASSED")

    def shapes(self, plan):
        return {argument["name"]: argument["tensor"]["shape"] for argument in plan["signature"]["inputs"]}

    def testLengthsOfAttention(self):
        torch.save(batch(8), "example.pt")
        for build, trace in ((Attention, True), (Scripted, False)):
            model = self.save(build, trace)
            for cuts in (["--at", "norm,head"], ["--stages", 3], ["--stages", 2, "--split", "auto"]):
                with self.subTest(f"{build.__name__} {cuts}"):
                    plan = self.compiled(model, "x.pipe", "--inputs", "example.pt", *cuts)
                    self.assertEqual(self.shapes(plan), {"ids": ["B", "?"], "mask": ["B", "?"]})
                    self.assertEqual(plan["required_features"], ["varying-sizes"])
                    for length, samples, parts in ((13, 2, 1), (8, 4, 2), (5, 3, 3), (1, 4, 2), (24, 2, 2)):
                        self.sameAsUnsplit(model, "x.pipe", batch(length, samples), parts)
                    self.pipec(0, "pipe-check", "x.pipe")
                    self.pipec(0, "pipe-check", "x.pipe", "--against", model)

    def testLongerThanTheModelTakes(self):
        """Its own message, from the stage."""
        model = self.save(Scripted)
        torch.save(batch(8), "example.pt")
        torch.save(batch(30), "long.pt")
        self.compiled(model, "long.pipe", "--at", "norm", "--inputs", "example.pt")
        for runs in (model, "long.pipe"):
            result = e2e.run("pipe-run", runs, "--inputs", "long.pt", "--microbatches", 1)
            self.assertNotEqual(result.code, 0)
            self.assertIn("must match", result.err)

    def testSizesOfImages(self):
        model = self.save(Halves)
        plan = self.compiled(model, "halves.pipe", "--inputs", "f32[2,3,48,48]", "--stages", 3)
        self.assertEqual(self.shapes(plan), {"x": ["B", 3, "?", "?"]})
        for height, width in ((48, 48), (16, 16), (32, 80)):
            self.sameAsUnsplit(model, "halves.pipe", (torch.randn(4, 3, height, width),), 2)

    def testArgumentsGivenWhole(self):
        model = self.save(Offsets)
        torch.save((torch.randn(2, 6, 8), torch.randn(6, 8)), "offsets.pt")  # the second is given whole
        plan = self.compiled(model, "offsets.pipe", "--inputs", "offsets.pt", "--at", "b")
        self.assertEqual(self.shapes(plan), {"x": ["B", "?", 8], "offsets": ["?", 8]})
        for length in (2, 6, 11):
            self.sameAsUnsplit(model, "offsets.pipe", (torch.randn(4, length, 8), torch.randn(length, 8)), 2)

    def testWhatTheReportSays(self):
        model = self.save(Scripted)
        torch.save(batch(8), "example.pt")
        sentence = "sizes: dimension 1 of ids, mask may differ from run to run"
        self.pipec(0, "pipe-compile", model, "-o", "said.pipe", "--force", "--at", "norm", "--inputs", "example.pt", saying=[sentence, "other sizes"])
        self.pipec(0, "pipe-inspect", "said.pipe", saying=[sentence])

    def testWhatTheReportSaysOfTrees(self):
        """Parts of dicts and lists are named, unless all of an argument vary alike."""
        model = self.save(OfTrees)
        example = lambda length: ({"ids": torch.randn(4, length, 8), "mask": torch.rand(4, length)}, [torch.randn(4, length, 8), torch.randn(4, 8)])
        for length in (5, 9):
            torch.save(example(length), f"trees{length}.pt")
        compile = ["pipe-compile", model, "-o", "trees.pipe", "--force", "--at", "b"]
        sentence = "sizes: dimension 1 of batch, more.0 may differ from run to run"
        self.pipec(0, *compile, "--inputs", "trees5.pt", "--inputs", "trees9.pt",
                   saying=[sentence, "sizes in the examples: t = dimension 1 of batch, dimension 1 of more.0\n"])

    def testFixedLength(self):
        for build, trace in ((Fixed, False), (Fixed, True)):
            model = self.save(build, trace)
            torch.save(batch(8), "example.pt")
            plan = self.compiled(model, "fixed.pipe", "--at", "head", "--inputs", "example.pt")
            self.assertEqual(self.shapes(plan), {"ids": ["B", 8], "mask": ["B", 8]})
            torch.save(batch(13), "other.pt")
            self.refused(2, ["input ids", "dimension 1: expected size 8, got 13"], "pipe-run", "fixed.pipe", "--inputs", "other.pt", "--microbatches", 1)

    def testSizesAreNotTriedWhereThatIsNotSafe(self):
        for build, example in ((PadsToWindows, "f32[2,8,8]"), (Strides, "f32[2,8,8]"), (JoinsByChance, "f32[4,4,8]")):
            with self.subTest(build.__name__):
                plan = self.compiled(self.save(build), "tried.pipe", "--inputs", example, "--stages", 2)
                self.assertEqual(self.shapes(plan)["x"][1:], [int(size) for size in example[:-1].split(",")[1:]])

    def testGraphs(self):
        """Parts of a graph are none, so it is no batch; another graph may have more nodes, or fewer."""
        def graph(nodes, edges):
            return torch.randn(nodes, 8), torch.randint(nodes, (2, edges))

        torch.manual_seed(4)
        torch.save((torch.randn(10, 8), torch.arange(20).view(2, 10) % 10), "graph.pt")
        model = self.save(Graph)
        plan = self.compiled(model, "graph.pipe", "--inputs", "graph.pt", "--stages", 4)
        self.assertEqual([argument.get("batch_dim") for argument in plan["signature"]["inputs"]], [None, None])
        for nodes, edges in ((10, 10), (13, 20), (12, 7), (6, 30)):
            self.sameAsUnsplit(model, "graph.pipe", graph(nodes, edges))
        torch.save(graph(12, 20), "inputs.pt")
        self.refused(2, "expected 1 micro-batch, got 2", "pipe-run", "graph.pipe", "--inputs", "inputs.pt", "--microbatches", 2)

    def testGraphsWithAsManyEdgesAsNodes(self):
        """Only what has to point at nodes is said to; nor do the weights' sizes make the graph a batch."""
        torch.manual_seed(5)
        model = self.save(Molecule)
        says = "edges refers to samples by index"
        for edges in (9, 20):
            torch.save((torch.randint(50, (9,)), torch.arange(2 * edges).view(2, edges) % 9, torch.rand(edges, 1)), "molecule.pt")
            plan = self.compiled(model, "molecule.pipe", "--inputs", "molecule.pt", "--stages", 2)
            self.assertEqual([argument.get("batch_dim") for argument in plan["signature"]["inputs"]], [None, None, None])
            result = self.pipec(0, "pipe-compile", model, "--inputs", "molecule.pt", "--stages", 2, "--dry-run", saying=": " + says)
            self.assertNotIn("--batch-dim edges", result.err)
            self.sameAsUnsplit(model, "molecule.pipe", (torch.randint(50, (12,)), torch.randint(12, (2, 25)), torch.rand(25, 1)))
            self.refused(2, "micro-batches: expected 1, got 2: " + says, "pipe-run", model, "--inputs", "molecule.pt", "--microbatches", 2)
        torch.save((torch.randint(60, 70, (9,)), torch.randint(9, (2, 20)), torch.rand(20, 1)), "unknown.pt")
        wrong = self.refused(2, "index out of range", "pipe-run", model, "--inputs", "unknown.pt", "--microbatches", 2)
        self.assertNotIn("by their number", wrong.err)

    def testWhoNamesOnlyWhatIsNotCut(self):
        """A graph all the same."""
        torch.save((torch.randn(9, 8), torch.randint(9, (2, 20))), "graph.pt")
        plan = self.compiled(self.save(Graph), "named.pipe", "--inputs", "graph.pt", "--stages", 2, "--batch-dim", "edges=none")
        self.assertEqual([argument.get("batch_dim") for argument in plan["signature"]["inputs"]], [None, None])
        self.assertEqual(self.shapes(plan)["nodes"], ["?", 8])

    def testWhatHangsOnTheLength(self):
        model = self.save(Decides)
        for cuts in (["--at", "b"], ["--stages", 2]):
            plan = self.compiled(model, "decides.pipe", "--inputs", "f32[2,8,8]", *cuts)
            self.assertEqual(self.shapes(plan), {"x": ["B", "?", 8]})
            for length in (3, 8, 9, 10, 13):
                self.sameAsUnsplit(model, "decides.pipe", (torch.randn(4, length, 8),), 2)
            self.pipec(0, "pipe-check", "decides.pipe", "--against", model)


if __name__ == "__main__":
    e2e.main()
