"""Pipelines for a training: planned from a model or from a table of its operators, within the memory of the devices."""
import json
import sys
from pathlib import Path

import torch

import damage
import e2e
import odd_models

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

MLP = [e2e.MODELS / "mlp.pt", "--inputs", e2e.MODELS / "mlp.inputs.pt"]
BERT = [e2e.MODELS / "bert.pt", "--inputs", e2e.MODELS / "bert.inputs.pt"]
PLAN = ["--train", "--cost", "analytic", "--dry-run"]


class Counts(torch.nn.Module):
    """Between the reading and the writing of its counter nothing may be cut."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (torch.nn.Linear(8, 8) for _ in range(3))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        x = self.first(x) + self.count
        x = self.second(x)
        self.count.add_(1)
        return self.third(x)


class Skips(torch.nn.Module):
    """Two results of the layers before c are read behind it."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        first = torch.tanh(self.a(x))
        second = torch.tanh(self.b(first))
        return (self.c(second) + first).pow(2).mean()


class Normed(torch.nn.Module):
    """LibTorch's group norm gives the gradients of its weights and of its input together: a backward that cannot be split."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(64, 64), torch.nn.GroupNorm(4, 64)

    def forward(self, x):
        return torch.tanh(self.norm(self.linear(x))) + x


class Norms(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = torch.nn.Linear(64, 64), Normed(), Normed()

    def forward(self, x):
        return self.c(self.b(torch.tanh(self.a(x)))).square().mean()


class CountedLoss(Counts):
    def forward(self, x):
        x = self.second(self.first(x) + self.count)
        self.count.add_(1)
        return self.third(x).pow(2).mean()


class TrainingPlans(e2e.Case):
    def document(self, tool, *arguments, code=0):
        done = e2e.run(tool, *arguments, "--json")
        self.assertEqual(done.code, code, done)
        return json.loads(done.out)

    def refused(self, tool, code, *arguments, saying):
        done = e2e.run(tool, *arguments)
        self.assertEqual(done.code, code, done)
        for text in saying:
            self.assertIn(text, done.err)
        return done

    def table(self, model=MLP, name="costs.json"):
        done = e2e.run("pipe-compile", *model, "--ranks", 2, *PLAN, "--emit-costs", name, "--force")
        self.assertEqual(done.code, 0, done)
        return json.loads(Path(name).read_text())

    def testReport(self):
        report = self.document("pipe-compile", *BERT, "--ranks", 2, *PLAN, "-o", "none.pipe")
        self.assertFalse(Path("none.pipe").exists())
        plan = report["prediction"]
        self.assertEqual(len(report["stages"]), len(plan["stages"]))
        self.assertEqual(plan["ranks"], 2)
        self.assertEqual((plan["microbatches"], plan["samples"]), (4, 2))  # two per rank, like the example
        self.assertLessEqual(plan["lower_bound_ms"], plan["step_ms"])
        self.assertAlmostEqual(plan["gap"], 1 - plan["lower_bound_ms"] / plan["step_ms"], places=9)
        self.assertLess(plan["gap"], 0.2)
        work = [0, 0]
        for stage, planned in zip(report["stages"], plan["stages"]):
            self.assertEqual(stage["rank"], planned["rank"])
            self.assertAlmostEqual(stage["backward_ms"], planned["input_grad_ms"] + planned["weight_grad_ms"])
            work[planned["rank"]] += 4 * (stage["forward_ms"] + stage["backward_ms"])
        self.assertGreaterEqual(plan["step_ms"], max(work) * 0.999)
        self.assertIn(plan["tied"], ("transmit", "replicate"))  # BERT's embedding is its decoder
        for rank, bytes in enumerate(plan["peak_memory"]):  # weights, gradients, two states of the optimizer
            weights = sum(stage["parameter_bytes"] for stage in plan["stages"] if stage["rank"] == rank)
            self.assertGreater(bytes, 3.5 * weights)
        done = e2e.run("pipe-compile", *BERT, "--ranks", 2, *PLAN)
        for text in ("training stages", "training: ", " per step with an update by AdamW, ", "lower bound ", "peak memory per rank: 0 ",
                     "searched: ", "dry run: nothing was written"):
            self.assertIn(text, done.out)

    def testInspectShowsTheTraining(self):
        """pipe-inspect shows what the compile planned and the plan has, as text, as JSON and on the page."""
        for name, stages, schedule, recompute, microBatches, again in (("gpt", 3, "1f1b", "0,2", 5, [5, 0, 5]), ("mlp", 2, "zb-h1", "never", 4, [0, 0]),
                                                                       ("lstm", 3, "1f1b", "except-last", 4, [3, 3, 3])):
            model, batch = training_models.save(name)
            pipe = f"shown-{name}.pipe"
            planned = json.loads(self.pipec(0, "pipe-compile", model, "--train", "--stages", stages, "--schedule", schedule, "--recompute", recompute,
                                            "--microbatches", microBatches, "--inputs", batch, "--cost", "analytic", "-o", pipe, "--force",
                                            "--json").out)["prediction"]
            plan = e2e.plan(pipe)
            training = plan["training"]
            shown = json.loads(self.pipec(0, "pipe-inspect", pipe, "--json").out)["training"]
            text = self.pipec(0, "pipe-inspect", pipe).out
            self.pipec(0, "pipe-inspect", pipe, "--html", "shown.html", "--force")
            page = Path("shown.html").read_text(encoding="utf-8")
            self.assertEqual((shown["loss"], shown["count"], shown["tied"]), ("result", None, planned["tied"]), name)
            self.assertEqual((shown["recompute"], shown["recompute_except_last"]), (training["recompute"], recompute == "except-last"), name)
            for key in ("forward_ms", "input_grad_ms", "weight_grad_ms", "kept_bytes", "pending_bytes", "rank", "recompute"):
                self.assertEqual([stage[key] for stage in shown["stages"]], [stage[key] for stage in planned["stages"]], f"{name} {key}")
            self.assertEqual([stage["parameter_bytes"] for stage in shown["stages"]], [stage["parameter_bytes"] for stage in plan["stages"]], name)
            self.assertEqual([stage["recomputed_microbatches"] for stage in shown["stages"]], again, name)
            self.assertEqual([stage["why_whole"] for stage in shown["stages"]], training["why_whole"], name)
            self.assertEqual({stage["backward"] for stage in shown["stages"]}, {"split" if schedule == "zb-h1" else "whole"}, name)
            for parameter, entry in zip(shown["parameters"], training["parameters"], strict=True):
                for key in ("name", "other_names", "dtype", "shape"):
                    self.assertEqual(parameter[key], entry[key], name)
                self.assertEqual(parameter["stages"], [use["stage"] for use in entry["uses"]])
                self.assertEqual(parameter["owner"], parameter["stages"][-1])
                self.assertIn(f"  {entry['name']} ", text)
                self.assertIn(f"<td>{entry['name']}</td>", page)
            # The plan has what the planner's step is made of; the stages' channels may be others than the planner's.
            self.assertEqual((plan["format_version"]["minor"], training["samples"]), (6, planned["samples"]), name)
            self.assertTrue(any(costs.get("optimizer_ns", 0) > 0 for costs in training["costs"]), name)  # a stage may hold no weights
            self.assertTrue(abs(shown["step_ms"] / planned["step_ms"] - 1) < 0.01, f"{name}: {shown['step_ms']} {planned['step_ms']}")
            self.assertLessEqual(shown["lower_bound_ms"], shown["step_ms"])
            self.assertEqual(len(shown["activation_peaks"]), planned["ranks"])
            for rank, bytes in enumerate(shown["activation_peaks"]):
                self.assertTrue(0 <= bytes < planned["peak_memory"][rank], f"{name} {rank}")
            self.assertGreater(max(shown["activation_peaks"]), 0, name)  # a stage that only hands on weights keeps nothing
            for words in ("training stages\n  stage  rank  forward", "loss: result\n", "expected: ", "lower bound with these stages ",
                          "predicted from the analytic cost model, with an update by AdamW; transfers are between threads of one process\n",
                          "peak of activations per rank: 0 ", "trained parameters\n  parameter "):
                self.assertIn(words, text)
            for words in ("<h3>Training stages</h3>", "<h3>Trained parameters</h3>", f"<td>{'3 of 4' if recompute == 'except-last' else 'no'}</td>"):
                self.assertIn(words, page)
        # Older plans do not have the optimizer's time, and the text says so.
        document = e2e.plan("shown-mlp.pipe")
        counted = json.loads(self.pipec(0, "pipe-inspect", "shown-mlp.pipe", "--json").out)["training"]["step_ms"]
        for costs in document["training"]["costs"]:
            del costs["optimizer_ns"]
        Path("shown-mlp.pipe/plan.json").write_text(json.dumps(document))
        damage.manifest(Path("shown-mlp.pipe"))
        self.assertIn("predicted from the analytic cost model, without the optimizer, whose time this plan does not have;", self.pipec(0, "pipe-inspect", "shown-mlp.pipe").out)
        self.assertLess(json.loads(self.pipec(0, "pipe-inspect", "shown-mlp.pipe", "--json").out)["training"]["step_ms"], counted)
        # A reason why a backward stays whole, and a plan that knows no costs.
        document["training"]["why_whole"][1] = "a <reason>"
        del document["training"]["costs"]
        Path("shown-mlp.pipe/plan.json").write_text(json.dumps(document))
        damage.manifest(Path("shown-mlp.pipe"))
        text = self.pipec(0, "pipe-inspect", "shown-mlp.pipe").out
        self.assertIn("stage 1 cannot split its backward: a <reason>\n", text)
        self.assertRegex(text, r"(?m)^  1 +1 +- +- +- +- +no +whole only$")
        self.assertNotIn("expected: ", text)
        self.assertNotIn("step_ms", json.loads(self.pipec(0, "pipe-inspect", "shown-mlp.pipe", "--json").out)["training"])
        self.pipec(0, "pipe-inspect", "shown-mlp.pipe", "--html", "shown.html", "--force")
        self.assertIn("stage 1 cannot split its backward: a &lt;reason&gt;", Path("shown.html").read_text())
        self.compiled(e2e.MODELS / "mlp.pt", "infer.pipe", "--inputs", e2e.MODELS / "mlp.inputs.pt", "--stages", 2, "--cost", "analytic")
        self.assertNotIn("training", json.loads(self.pipec(0, "pipe-inspect", "infer.pipe", "--json").out))
        self.assertNotIn("training stages", self.pipec(0, "pipe-inspect", "infer.pipe").out)

    def testAStageThatCannotBeSplit(self):
        """The plan counts its whole backward at I, and so do its expectation and every schedule that pipe-inspect is given."""
        torch.jit.script(Norms()).save("norms.pt")
        torch.save((torch.randn(16, 64),), "norms.inputs.pt")
        report = json.loads(self.pipec(0, "pipe-compile", "norms.pt", "--train", "--at", "b,c", "--inputs", "norms.inputs.pt", "--cost", "analytic", "--schedule", "zb-h1",
                                       "--microbatches", 4, "-o", "norms.pipe", "--json").out)
        training = e2e.plan("norms.pipe")["training"]
        self.assertEqual([bool(why) for why in training["why_whole"]], [False, True, True])
        for stage, (why, costs) in enumerate(zip(training["why_whole"], training["costs"])):
            self.assertEqual(costs["weight_grad_ns"] == 0, bool(why), stage)
            self.assertEqual(costs["freed_by_input_grad_bytes"], costs["kept_bytes"] if why else 0, stage)
        # Stage 0 receives no value with a gradient: its I does nothing, and the gradient of its result waits for W.
        first = training["costs"][0]
        self.assertEqual(first["input_grad_ns"], 0)
        self.assertEqual(first["pending_bytes"], first["kept_bytes"] + e2e.plan("norms.pipe")["channels"][0]["tensor"]["bytes"])
        planned = report["prediction"]["stages"]
        self.assertEqual([stage["weight_grad_ms"] == 0 for stage in planned], [False, True, True])
        shown = json.loads(self.pipec(0, "pipe-inspect", "norms.pipe", "--json").out)["training"]
        self.assertTrue(abs(shown["step_ms"] / report["prediction"]["step_ms"] - 1) < 0.01, f"{shown['step_ms']} {report['prediction']['step_ms']}")
        # A plan that keeps the two parts of such a stage apart is read as this one, and so is one that has times at I of stage 0, as older ones have.
        document = e2e.plan("norms.pipe")
        first = document["training"]["costs"][0]
        del first["pending_bytes"]
        first["input_grad_ns"] = 1000
        first["weight_grad_ns"] -= 1000
        for costs in document["training"]["costs"][1:]:
            costs["weight_grad_ns"], costs["freed_by_input_grad_bytes"] = 1000, 0
            costs["input_grad_ns"] -= 1000
        Path("norms.pipe/plan.json").write_text(json.dumps(document))
        damage.manifest(Path("norms.pipe"))
        again = json.loads(self.pipec(0, "pipe-inspect", "norms.pipe", "--json").out)["training"]
        for key in ("step_ms", "activation_peaks"):
            self.assertEqual(again[key], shown[key], key)

    def testTwoResultsOfTheFirstStage(self):
        """It receives no value with a gradient, so W is its whole backward, although one result leads to the other."""
        torch.jit.script(Skips()).save("skips.pt")
        torch.save((torch.randn(16, 64),), "skips.inputs.pt")
        document = self.compiled("skips.pt", "skips.pipe", "--train", "--at", "c", "--inputs", "skips.inputs.pt", "--cost", "analytic", "--schedule", "zb-h1",
                                 "--microbatches", 4)
        first = document["training"]["costs"][0]
        results = [channel["tensor"]["bytes"] for channel in document["channels"]]
        self.assertEqual(len(results), 2)
        self.assertEqual((first["input_grad_ns"], first["pending_bytes"]), (0, first["kept_bytes"] + sum(results)))
        shown = json.loads(self.pipec(0, "pipe-inspect", "skips.pipe", "--json").out)["training"]
        # A plan that has times at I is read as this one.
        del first["pending_bytes"]
        first["input_grad_ns"] = 1000
        first["weight_grad_ns"] -= 1000
        Path("skips.pipe/plan.json").write_text(json.dumps(document))
        damage.manifest(Path("skips.pipe"))
        again = json.loads(self.pipec(0, "pipe-inspect", "skips.pipe", "--json").out)["training"]
        for key in ("step_ms", "activation_peaks"):
            self.assertEqual(again[key], shown[key], key)

    def testSplitBackwardOff(self):
        """Every stage is planned and run with its whole backward, under schedules with I and W, too."""
        model, batch = training_models.save("mlp")
        command = ["pipe-compile", model, "--train", "--stages", 4, "--inputs", batch, "--cost", "analytic", "--recompute", "never", "--microbatches", 4,
                   "--schedule", "zb-h1"]
        why = "asked by --split-backward off"
        report = json.loads(self.pipec(0, *command, "--split-backward", "off", "-o", "whole.pipe", "--force", "--json").out)
        self.assertEqual(report["options"]["split_backward"], "off")
        self.assertIn(f"no stage splits its backward: {why}", report["notes"])
        self.assertRegex(" ".join(report["tested"]), r"the loss and \d+ gradients have the same bits as the source's, in .*, with whole backwards\b")
        training = e2e.plan("whole.pipe")["training"]
        self.assertEqual(training["why_whole"], [why] * 4)
        for costs in training["costs"]:
            self.assertGreater(costs["input_grad_ns"], 0)
            self.assertEqual((costs["weight_grad_ns"], costs["freed_by_input_grad_bytes"]), (0, costs["kept_bytes"]))
        text = self.pipec(0, "pipe-inspect", "whole.pipe").out
        self.assertIn(f"no stage splits its backward: {why}\n", text)
        self.assertEqual(text.count("whole only"), 4)
        run = ["--train", "--inputs", batch, "--microbatches", 4, "--steps", 2, "--optimizer", "sgd,lr=0.1,momentum=0.9", "--threads", 1, "--emit-grads", "g.pt",
               "--output", "s.pt", "--force"]
        self.pipec(0, "pipe-run", model, *run)
        expected = torch.load("g.pt"), torch.load("s.pt")
        for schedule in ("zb-h1", "zb-v", "1f1b"):
            self.pipec(0, "pipe-run", "whole.pipe", *run, "--schedule", schedule, "--verify", "run")
            self.sameBits(expected, (torch.load("g.pt"), torch.load("s.pt")), schedule)
        report = json.loads(self.pipec(0, *command, "--split-backward", "on", "-o", "split.pipe", "--force", "--json").out)
        self.assertEqual(e2e.plan("split.pipe")["training"]["why_whole"], [""] * 4)
        self.assertRegex(" ".join(report["tested"]), "with whole and split backwards")
        self.refused("pipe-compile", 2, *command[1:], "--split-backward", "maybe", "-o", "no.pipe", saying=["--split-backward: expected on or off, got maybe"])
        self.refused("pipe-compile", 2, e2e.MODELS / "mlp.pt", "--stages", 2, "--split-backward", "off", "-o", "no.pipe",
                     saying=["--split-backward: expected --train with it"])

    def testGivenTablesThatDoNotFit(self):
        """The table is the user's, so it is no damaged artifact: exit 2."""
        torch.manual_seed(0)
        torch.jit.script(CountedLoss()).save("counted.pt")
        for name, options, rows in (("infer", [], ["0F1,0F0", "1F1,1F0"]), ("train", ["--train"], ["0F1,0F0,0B0,0B1", "1F1,1B1,1F0,1B0"])):
            Path("turned.csv").write_text("\n".join(rows) + "\n")
            self.refused("pipe-compile", 2, "counted.pt", *options, "--inputs", "f32[4,8]", "--cost", "analytic", "--schedule", "turned.csv", "-o",
                         f"turned-{name}.pipe", "--force", saying=["--schedule: schedule: rank ", "writes state (count), so its forwards come in the order of "
                                                                   "micro-batches: expected micro-batch 0, got 1"])

    def testRecomputesOfAGivenTable(self):
        """A table with recomputes and --recompute agree, or the compile says where they do not."""
        model, batch = training_models.save("mlp")
        compiles = [model, "--train", "--inputs", batch, "--cost", "analytic", "--schedule", "again.csv", "-o", "again.pipe", "--force"]
        Path("again.csv").write_text("0F0,0F1,0R0,0B0,0R1,0B1\n1F0,1B0,1F1,1B1\n")
        for recompute in ("auto", "0", "always"):
            self.pipec(0, "pipe-compile", *compiles, "--recompute", recompute)
            self.assertEqual(e2e.plan("again.pipe")["training"]["recompute"], [0, 1] if recompute == "always" else [0])
        for recompute, action in (("never", "0R0"), ("1", "0R0"), ("except-last", "0R1")):
            self.refused("pipe-compile", 2, *compiles, "--recompute", recompute,
                         saying=[f"--schedule: expected a table without {action}, as --recompute requests, got one with it", "leave out --recompute"])
        Path("again.csv").write_text("0F0,0F1,0R0,0B0,0B1\n1F0,1B0,1F1,1B1\n")
        for recompute in ("0", "except-last"):
            self.pipec(0, "pipe-compile", *compiles, "--recompute", recompute)
        self.refused("pipe-compile", 2, *compiles, "--recompute", "always",
                     saying=["--schedule: expected a table with 0R1, as --recompute requests, got one without it", "leave out --recompute"])

    def testTheScheduleOfAnArtifact(self):
        """pipe-schedule simulates it as pipe-inspect does, with the plan's costs."""
        for name, options in (("gpt", ["--schedule", "zb-h1", "--microbatches", 4]), ("mlp", ["--ranks", 2]), ("lstm", ["--stages", 3, "--recompute", "always"])):
            model, batch = training_models.save(name)
            pipe = f"simulated-{name}.pipe"
            self.compiled(model, pipe, "--train", "--inputs", batch, "--cost", "analytic", *options, *([] if {"--ranks", "--stages"} & set(options) else ["--stages", 3]))
            shown = json.loads(self.pipec(0, "pipe-inspect", pipe, "--json").out)["training"]
            for files in ([], ["--csv", "own.csv", "--program", "own.program", "--svg", "own.svg", "--trace", "own.json", "--force"]):
                trial = self.document("pipe-schedule", pipe, *files)
                self.assertEqual((trial["makespan_ms"], trial["lower_bound_ms"], trial["peak_memory"], trial["valid"]),
                                 (shown["step_ms"], shown["lower_bound_ms"], shown["activation_peaks"], True), name)
            self.assertEqual(self.document("pipe-schedule", "own.csv")["actions"], trial["actions"])
            self.assertEqual(self.document("pipe-schedule", f"{pipe}/schedule.csv")["actions"], trial["actions"])
            text = self.pipec(0, "pipe-schedule", pipe).out
            for words in (f"{pipe}: ", "step time", "rank 0", "peak of activations", "PASSED"):
                self.assertIn(words, text)
        help = f"help: pass {pipe}/schedule.csv, its table"
        self.refused("pipe-schedule", 2, pipe, "--costs", "f=1,i=1,w=1",
                     saying=[f"--costs: expected it without an artifact, whose plan has the costs, got {pipe}", help])
        self.refused("pipe-schedule", 2, f"1f1b,{pipe}", saying=[f"{pipe}: expected an artifact alone, got 2 schedules", help])
        Path("no-artifact").mkdir(exist_ok=True)
        self.refused("pipe-schedule", 2, "no-artifact", saying=["no-artifact: expected a table, a program or an artifact, got a directory without plan.json"])
        # A plan that knows no costs, a schedule that does not fit, and a plan that is none.
        document = e2e.plan(pipe)
        del document["training"]["costs"]
        Path(f"{pipe}/plan.json").write_text(json.dumps(document))
        self.assertIn("warning: the plan has no costs: each part of a stage's work takes 1 ms", self.pipec(0, "pipe-schedule", pipe).err)
        Path(f"{pipe}/schedule.csv").write_text("0F0,0B0\n")
        self.assertFalse(self.document("pipe-schedule", pipe, code=5)["valid"])
        Path(f"{pipe}/plan.json").write_text("{}")
        self.refused("pipe-schedule", 5, pipe, saying=[f"{pipe}: plan"])
        self.compiled(e2e.MODELS / "mlp.pt", "forwards.pipe", "--inputs", e2e.MODELS / "mlp.inputs.pt", "--stages", 2, "--cost", "analytic")
        trial = self.document("pipe-schedule", "forwards.pipe")
        self.assertNotIn("costs", trial["options"])
        self.assertGreater(trial["makespan_ms"], 0)
        self.assertEqual({cell.lstrip("0123456789")[0] for row in trial["actions"] for cell in row}, {"F"})

    def testModulesInsideControlFlow(self):
        """The planned stages name modules that are called in branches and loops, as the table of stages does."""
        torch.jit.script(odd_models.BranchesOfModules()).save("branches.pt")
        torch.save((torch.randn(4, 32),), "branches.in.pt")
        report = self.document("pipe-compile", "branches.pt", "--inputs", "branches.in.pt", "--at", "last", *PLAN)
        planned = [stage["modules"] for stage in report["prediction"]["stages"]]
        self.assertEqual(planned, [["first", "round"], ["last", "last"]])
        self.assertEqual(planned, [stage["modules"] for stage in report["stages"]])

    def testTableSaysTheSame(self):
        """What is planned from the model, is planned from its table, again and again."""
        whole = self.document("pipe-compile", *BERT, "--ranks", 2, *PLAN, "--emit-costs", "costs.json", "--force")["prediction"]
        table = json.loads(Path("costs.json").read_text())
        self.assertIs(table["training"], True)
        self.assertEqual(table["batch"], 2)
        trained = [weight["name"] for weight in table["shared_weights"] if weight["trained"]]
        self.assertEqual(trained, ["model.bert.embeddings.word_embeddings.weight"])
        first = self.document("pipe-schedule", "auto", "--costs", "costs.json", "--ranks", 2)
        for key in ("schedule", "microbatches", "step_ms", "lower_bound_ms", "peak_memory", "tied", "stages"):
            self.assertEqual(whole[key], first[key], key)
        self.assertIs(first["valid"], True)
        self.assertEqual(len(first["actions"]), 2)
        self.assertEqual(self.document("pipe-schedule", "auto", "--costs", "costs.json", "--ranks", 2), first)
        again = self.document("pipe-compile", *BERT, "--ranks", 2, "--train", "--cost", "costs.json", "--dry-run")["prediction"]
        self.assertEqual(again["step_ms"], whole["step_ms"])

    def testFilesOfThePlan(self):
        self.table()
        done = e2e.run("pipe-schedule", "auto", "--costs", "costs.json", "--ranks", 2, "--microbatches", 4, "--csv", "plan.csv", "--svg", "plan.svg",
                       "--trace", "plan.trace.json", "--program", "plan.txt")
        self.assertEqual(done.code, 0, done)
        self.assertTrue(done.out.rstrip().endswith("PASSED"), done)
        self.assertIn("peak memory", done.out)
        self.assertEqual(e2e.run("pipe-schedule", "plan.csv", "--ranks", 2, "--microbatches", 4).code, 0)
        self.assertIn("<svg", Path("plan.svg").read_text())
        json.loads(Path("plan.trace.json").read_text())
        self.assertIn("OPT", Path("plan.txt").read_text())

    def testMemoryLimit(self):
        self.table(BERT)
        free = self.document("pipe-schedule", "auto", "--costs", "costs.json", "--ranks", 2, "--batch", 16)
        tight = self.document("pipe-schedule", "auto", "--costs", "costs.json", "--ranks", 2, "--batch", 16, "--memory-limit",
                              max(free["peak_memory"]) - 1)
        self.assertLess(max(tight["peak_memory"]), max(free["peak_memory"]))
        asked = ["auto", "--costs", "costs.json", "--ranks", 2, "--batch", 16, "--memory-limit"]
        done = self.refused("pipe-schedule", 12, *asked, "1MB", saying=["no pipeline fits: expected at least", "got 1000000 bytes (977 KiB)"])
        self.assertIn("help: raise the memory limit: a part of the model that cannot be cut needs", done.err)
        least = int(done.err.split("expected at least ")[1].split()[0])
        less = least - least // 20  # the search for the least limit counts its work, and may end a little above it
        fits = self.document("pipe-schedule", *asked, least)
        self.assertIn("use more ranks, each on a device of its own", self.refused("pipe-schedule", 12, *asked, less, saying=["help: raise"]).err)
        self.assertLessEqual(max(fits["peak_memory"]), least)
        self.assertTrue(any(stage["recompute"] for stage in fits["stages"]))
        self.assertGreater(fits["step_ms"], free["step_ms"])
        self.refused("pipe-schedule", 12, *asked, less, saying=[f"expected at least {least} bytes"])
        none = self.document("pipe-schedule", *asked, "1MB", code=12)
        self.assertIs(none["valid"], False)
        self.assertIn("no pipeline fits", none["why"])
        self.refused("pipe-compile", 12, *BERT, "--ranks", 2, *PLAN, "--batch", 16, "--memory-limit", "1MB",
                     saying=[f"no pipeline fits: expected at least {least} bytes ("])

    def testChoices(self):
        """What is said is no longer free, and what is free is at least as good."""
        self.table(BERT)
        asked = ["--costs", "costs.json", "--ranks", 2, "--microbatches", 4]
        free = self.document("pipe-schedule", "auto", *asked)
        for more, key, value in ((["--tied", "replicate"], "tied", "replicate"), (["--tied", "transmit"], "tied", "transmit")):
            plan = self.document("pipe-schedule", "auto", *asked, *more)
            self.assertEqual(plan[key], value)
            self.assertGreaterEqual(plan["step_ms"], free["step_ms"])
        named = self.document("pipe-schedule", "1f1b", *asked)
        self.assertEqual((named["schedule"], len(named["stages"])), ("1f1b", 2))
        self.assertGreaterEqual(named["step_ms"], free["step_ms"])
        self.assertEqual(len(self.document("pipe-schedule", "auto", *asked, "--stages", 6)["stages"]), 6)
        again = self.document("pipe-schedule", "1f1b", *asked, "--recompute", "always")
        self.assertTrue(all(stage["recompute"] for stage in again["stages"]))
        self.assertGreater(again["step_ms"], named["step_ms"])
        self.assertLess(max(again["peak_memory"]), max(named["peak_memory"]))
        cluster = e2e.SOURCE / "docs/clusters/four-gpus.json"
        four = self.document("pipe-schedule", "auto", "--costs", "costs.json", "--cluster", cluster)
        self.assertEqual(four["ranks"], 4)
        zb = self.document("pipe-compile", *MLP, "--ranks", 2, *PLAN, "--schedule", "zb-h1", "--microbatches", 6)["prediction"]
        self.assertEqual((zb["schedule"], zb["microbatches"]), ("zb-h1", 6))

    def testGivenCuts(self):
        """Stages are those of an inference with the same cuts; schedule, micro-batches and ranks of stages are free."""
        nodes = lambda report: [stage["nodes"] for stage in report["stages"]]
        for cuts in (["--at", "layers.4,layers.8,head"], ["--at", "layers.2,layers.4,head"]):
            wanted = nodes(self.document("pipe-compile", *MLP, *cuts, "--infer", "--dry-run"))
            for ranks in (4, 2, 1):
                report = self.document("pipe-compile", *MLP, *PLAN, *cuts, "--ranks", ranks, "--batch", 16)
                self.assertEqual((nodes(report), report["prediction"]["ranks"]), (wanted, ranks))
                self.assertEqual([stage["nodes"] for stage in report["prediction"]["stages"]], wanted)
                self.assertEqual([stage["rank"] for stage in report["stages"]], [stage["rank"] for stage in report["prediction"]["stages"]])
                self.assertIs(report["prediction"]["every_cut"], True)
                self.assertLessEqual(report["prediction"]["lower_bound_ms"], report["prediction"]["step_ms"])
            free = self.document("pipe-compile", *MLP, *PLAN, "--stages", 4, "--batch", 16)
            given = self.document("pipe-compile", *MLP, *PLAN, *cuts, "--batch", 16)  # ranks: one per stage
            self.assertEqual(given["prediction"]["ranks"], 4)
            self.assertLessEqual(free["prediction"]["step_ms"], 1.001 * given["prediction"]["step_ms"])
        done = self.refused("pipe-compile", 12, *MLP, *PLAN, "--at", "layers.4", "--memory-limit", "1kB", saying=["no pipeline fits: expected at least"])
        least = int(done.err.split("expected at least ")[1].split()[0])
        self.document("pipe-compile", *MLP, *PLAN, "--at", "layers.4", "--memory-limit", least)
        self.refused("pipe-compile", 12, *MLP, *PLAN, "--at", "layers.4", "--memory-limit", least - 1, saying=[f"at least {least} bytes"])
        markers = [e2e.MODELS / "mlp_markers.pt", "--inputs", e2e.MODELS / "mlp_markers.inputs.pt", *PLAN]
        marked = self.document("pipe-compile", *markers)
        self.assertEqual((len(marked["stages"]), marked["prediction"]["ranks"]), (4, 4))
        self.assertEqual(nodes(marked), nodes(self.document("pipe-compile", *markers, "--split", "markers", "--ranks", 2)))
        self.assertEqual(len(self.document("pipe-compile", *markers, "--split", "auto", "--ranks", 3, "--stages", 3)["stages"]), 3)

    def testGivenCutsMoveWhereAsked(self):
        """With --nearest a cut where none may be goes to the nearest place, and what is planned goes along."""
        torch.jit.script(Counts()).save("counts.pt")
        done = e2e.run("pipe-compile", "counts.pt", "--inputs", "f32[2,8]", *PLAN, "--at", "second", "--nearest", "--json")
        self.assertEqual(done.code, 0, done)
        self.assertIn("warning: --at second is not possible: ", done.err)
        report = json.loads(done.out)
        self.assertEqual([stage["nodes"] for stage in report["prediction"]["stages"]], [stage["nodes"] for stage in report["stages"]])
        self.assertEqual(report["prediction"]["stages"][1]["modules"][1], "third")

    def testTiedByName(self):
        """Any name of a weight selects how it is kept; the plan decides for the others."""
        names = ["model.bert.embeddings.word_embeddings.weight", "model.cls.predictions.decoder.weight"]
        for name in names:
            for mode in ("transmit", "replicate"):
                other = {"transmit": "replicate", "replicate": "transmit"}[mode]
                report = self.document("pipe-compile", *BERT, "--ranks", 2, "--stages", 2, *PLAN, "--tied", f"{other},{name}={mode}")
                plan = self.document("pipe-compile", *BERT, "--ranks", 2, "--stages", 2, *PLAN, "--tied", mode)
                self.assertEqual([tie["mode"] for tie in report["ties"]], [mode])
                for key in ("tied", "schedule", "microbatches", "step_ms", "peak_memory"):
                    self.assertEqual(report["prediction"][key], plan["prediction"][key], (name, mode, key))
        self.refused("pipe-compile", 2, *BERT, "--ranks", 2, *PLAN, "--tied", f"{names[0]}=transmit,{names[1]}=replicate",
                     saying=["are one weight: expected one mode for both"])

    def testMeasured(self):
        table = self.document("pipe-compile", *MLP, "--ranks", 2, "--train", "--cost-budget", "100ms", "--emit-costs", "measured.json", "--dry-run")
        self.assertIn("measure costs", [phase["name"] for phase in table["phases"]])
        rows = json.loads(Path("measured.json").read_text())["operators"]
        self.assertGreater(sum(row.get("weight_grad_ns", 0) for row in rows), 0)
        self.assertGreater(sum(row.get("kept_bytes", 0) for row in rows), 0)

    def testWritingIntoNumbersIsNoBackward(self):
        """T5 counts positions in place: its backward runs on copies, once."""
        t5 = [e2e.MODELS / "t5.pt", "--inputs", e2e.MODELS / "t5.inputs.pt"]
        self.assertGreater(self.document("pipe-compile", *t5, "--ranks", 2, *PLAN)["prediction"]["step_ms"], 0)

    def testRefusals(self):
        compile = lambda *arguments, saying: self.refused("pipe-compile", 2, *arguments, saying=saying)
        compile(*MLP, "--ranks", 2, "--train", saying=["--train: expected the result to be the loss, one floating-point number, got float32[B,10]",
                                                       "return the loss of the micro-batch"])
        compile(MLP[0], "--ranks", 2, *PLAN, saying=["expected example inputs, got none"])
        compile(MLP[0], "--ranks", 2, "--train", "--dry-run", saying=["--train: expected example inputs, got none"])
        compile(*MLP, *PLAN, saying=["--train: expected --ranks, --stages or --cluster, got none"])
        compile(*MLP, "--ranks", 2, *PLAN, "--infer", saying=["--train: expected it without --infer"])
        compile(*MLP, "--ranks", 2, *PLAN, "--schedule", "forward-only", saying=["expected auto, a schedule of a training or a CSV file, got forward-only"])
        compile(*BERT, "--ranks", 2, *PLAN, "--tied", "a.b=transmit", saying=["--tied: expected a weight of the model, got a.b"])
        compile(*MLP, *PLAN, "--at", "layers.4,layers.8,head", "--ranks", 3, saying=["--ranks: expected a divisor of 4, the number of stages that the given cuts make, got 3"])
        four = ["--cluster", e2e.SOURCE / "docs/clusters/four-gpus.json"]
        compile(*MLP, *PLAN, "--at", "layers.2,layers.4,layers.6,layers.8,head", *four,
                saying=["--cluster: expected a number of devices that divides 6, the number of stages that the given cuts make, got 4", "--ranks 3 uses only the first 3 devices"])
        compile(*MLP, *PLAN, "--at", "layers.4", "--stages", 3, saying=["--stages 3 conflicts with 1 --at cut (2 stages)"])
        for schedule in ("auto", "1f1b", "interleaved-1f1b"):
            self.refused("pipe-compile", 4, *MLP, "--train", "--schedule", schedule, "--dry-run", "--ranks", 500, "--stages", 1000, "--cost", "analytic",
                         saying=["1000 stages requested; this model can be cut into at most", "help: request fewer stages\n"])
        compile(*MLP, *PLAN, "--at", "nosuch", saying=["--at: the model calls no module nosuch"])
        compile(*MLP, *PLAN, "--split", "markers", saying=["--split markers: the model has no pipe_split marker"])
        compile(*MLP, "--ranks", 2, *PLAN, "--recompute", "some", saying=["--recompute: expected never, always, except-last, auto or stages such as 0,2, got \"some\""])
        compile(*MLP, "--stages", 2, *PLAN, "--recompute", "0,7", saying=["--recompute: expected stages below 2, the number of stages, got 7"])
        compile(*MLP, "--ranks", 2, "--batch", 8, saying=["--batch: expected --train with it"])
        compile(*MLP, "--ranks", 2, "--recompute", "never", saying=["--recompute: expected --train with it"])
        markers = [e2e.MODELS / "mlp_markers.pt", "--inputs", e2e.MODELS / "mlp_markers.inputs.pt"]
        compile(*markers, *PLAN, "--split", "auto", saying=["--train: expected --ranks, --stages or --cluster, got none"])
        e2e.run("pipe-compile", *MLP, "--stages", 2, "--cost", "analytic", "--emit-costs", "inference.json", "--dry-run")
        compile(*MLP, "--ranks", 2, "--train", "--dry-run", "--cost", "inference.json", saying=["expected training costs"])
        schedule = lambda *arguments, saying: self.refused("pipe-schedule", 2, *arguments, saying=saying)
        schedule("auto", "--costs", "inference.json", "--ranks", 2, saying=["expected a cost table with backward costs, got one without"])
        self.table()
        schedule("auto", "--costs", "costs.json", saying=["expected ranks or stages, got neither"])
        schedule("all", "--costs", "costs.json", "--ranks", 2, saying=["expected auto or one schedule of --list with a table of operators"])
        schedule("auto", "--costs", "costs.json", "--ranks", 2, "--pairs", "fused", saying=["--pairs: expected costs of stages"])
        schedule("auto", "--costs", "costs.json", "--ranks", 3, "--stages", 4, saying=["--stages: expected a multiple of 3, the number of ranks, got 4"])
        schedule("auto", "--costs", "costs.json", "--ranks", 2, "--batch", 4, "--microbatches", 5, saying=["--microbatches: expected at most 4"])
        schedule("auto", "--costs", "costs.json", "--ranks", 64, saying=["expected a model with room for at least 63 cuts"])
        for option, value in (("--batch", 4), ("--recompute", "auto"), ("--tied", "transmit")):
            schedule("auto", "--ranks", 2, option, value, saying=[f"{option}: expected --costs with a table of operators"])

    def testBudgetOfCostsThatNobodyMeasures(self):
        for given in (["--at", "layers.4"], ["--at", "layers.4", "--emit-costs", "t.json"]):
            self.refused("pipe-compile", 2, *MLP, *given, "--cost-budget", "1s", "--dry-run",
                         saying=["--cost-budget: expected measured costs, got given cuts", "--cost measured"])
        self.refused("pipe-compile", 2, *MLP, "--stages", 2, "--cluster", e2e.SOURCE / "docs/clusters/four-gpus.json", "--cost-budget", "1s", "--dry-run",
                     saying=["--cost-budget: expected measured costs, got analytic ones"])
        self.refused("pipe-compile", 2, *MLP, "--cost-budget", "1s", "--dry-run", saying=["got no number of stages"])
        self.refused("pipe-compile", 2, *MLP, "--stages", 1, "--memory-limit", "1GB", "--dry-run", saying=["--memory-limit: expected automatic cuts, got one stage", "pass --stages with a number of at least 2"])


if __name__ == "__main__":
    e2e.main()
