#include "ir/artifact/StageMethods.h"

#include "ir/artifact/LineDifference.h"
#include "ir/plan/Plan.h"
#include "ir/text/CanonicalText.h"
#include "ir/text/ContentText.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

/// "result 2 = %7" or "state calls = %9".
std::string resultLine(const StagePlan &stage, size_t output, const std::string &value) {
  if (stage.outputs[output].state)
    return "state " + stage.attributes[*stage.outputs[output].state].name + " = " + value;
  return fmt::format("result {} = {}", output, value);
}

/// A call of pipec_forward: its arguments.
std::string argumentLine(const std::string &value) { return "argument = " + value; }
std::string outputName(size_t output) { return "output " + std::to_string(output); }

bool callsPipecForward(const torch::jit::Node *node) {
  return node->kind() == c10::prim::CallMethod && node->s(c10::attr::name) == "pipec_forward";
}

/// Walks `forward`: attribute reads name values, attribute writes are collected.
class ForwardReader {
public:
  ForwardReader(torch::jit::Graph &graph, const Plan &plan, size_t stage)
      : graph_(graph), plan_(plan), stage_(plan.stages[stage]) {}

  llvm::Expected<std::vector<std::string>> lines(const std::vector<std::string> &inputNames) {
    size_t weightPorts = 0;
    for (const StageAttribute &entry : stage_.attributes)
      weightPorts += entry.channel.has_value();
    size_t expected = 1 + inputNames.size() + weightPorts;
    if (graph_.inputs().size() != expected)
      return failf(ExitCode::BadArtifact, "expected {} arguments, got {}", expected - 1,
                   graph_.inputs().size() - 1);
    nameInputs(inputNames);
    size_t outputs = 0;
    for (const StageOutput &output : stage_.outputs)
      outputs += !output.state;
    size_t results = outputs + stage_.weightChannelsOut.size();
    for (torch::jit::Node *node : graph_.nodes())
      visit(node, results);
    std::vector<torch::jit::Value *> values;
    if (results == 1)
      values = {graph_.outputs()[0]};
    else if (results > 1 && graph_.outputs()[0]->node()->kind() == c10::prim::TupleConstruct)
      values = graph_.outputs()[0]->node()->inputs().vec();
    if (values.size() != results)
      return failf(ExitCode::BadArtifact, "expected {} results, got {}", results, values.size());
    writeResults(values);
    return writer_.lines();
  }

private:
  void nameInputs(const std::vector<std::string> &inputNames) {
    paths_[graph_.inputs()[0]] = "";
    size_t next = 1;
    for (const std::string &name : inputNames)
      writer_.name(graph_.inputs()[next++], name);
    for (const StageAttribute &entry : stage_.attributes)
      if (entry.channel)
        writer_.name(graph_.inputs()[next++], "attribute " + entry.name);
  }

  void visit(torch::jit::Node *node, size_t results) {
    if (node->kind() == c10::prim::GetAttr) {
      std::string path = pathOf(node);
      paths_[node->output()] = path;
      writer_.name(node->output(), "attribute " + path);
    } else if (node->kind() == c10::prim::SetAttr) {
      states_[pathOf(node)] = writer_.nameOf(node->input(1));
    } else if (isCallOfPipecForward(node)) {
      for (torch::jit::Value *argument : node->inputs().slice(1))
        writer_.line(argumentLine(writer_.nameOf(argument)));
      nameOutputs(node->output());
    } else if (node->kind() == c10::prim::TupleUnpack && node->input() == called_) {
      for (size_t i = 0; i < node->outputs().size(); ++i)
        writer_.name(node->output(i), outputName(i));
    } else if (!(results > 1 && node->kind() == c10::prim::TupleConstruct &&
                 node->output() == graph_.outputs()[0])) {
      writer_.write(node);
    }
  }

  bool isCallOfPipecForward(torch::jit::Node *node) const {
    return callsPipecForward(node) && node->input(0) == graph_.inputs()[0];
  }

  void nameOutputs(torch::jit::Value *result) {
    if (stage_.outputs.size() == 1)
      writer_.name(result, outputName(0));
    called_ = result;
  }

  std::string pathOf(torch::jit::Node *node) {
    const auto known = paths_.find(node->input(0));
    const std::string base =
        known == paths_.end() ? equalToNothing("object that is no module") : known->second;
    return base.empty() ? node->s(c10::attr::name) : base + "." + node->s(c10::attr::name);
  }

  void writeResults(const std::vector<torch::jit::Value *> &values) {
    size_t next = 0;
    for (size_t i = 0; i < stage_.outputs.size(); ++i) {
      const StageOutput &output = stage_.outputs[i];
      writer_.line(resultLine(stage_, i,
                              output.state ? states_[stage_.attributes[*output.state].name]
                                           : writer_.nameOf(values[next++])));
    }
    for (size_t channel : stage_.weightChannelsOut)
      writer_.line("weight " + plan_.channels[channel].name + " = " +
                   writer_.nameOf(values[next++]));
  }

  torch::jit::Graph &graph_;
  const Plan &plan_;
  const StagePlan &stage_;
  CanonicalWriter writer_;
  torch::jit::Value *called_ = nullptr; // what pipec_forward returned
  std::map<torch::jit::Value *, std::string> paths_;
  std::map<std::string, std::string> states_;
};

class StageMethods {
public:
  StageMethods(const Plan &plan, size_t stage, torch::jit::Graph &pipecForward)
      : plan_(plan), stage_(stage), graph_(pipecForward) {}

  llvm::Error compare(torch::jit::Graph &forward) const {
    const StagePlan &stage = plan_.stages[stage_];
    const std::string name = "stage " + std::to_string(stage_);
    std::vector<std::string> inputNames;
    for (size_t i = 0; i < stage.inputs.size(); ++i)
      inputNames.push_back("input " + std::to_string(i));
    llvm::Expected<std::vector<std::string>> own =
        ForwardReader(forward, plan_, stage_).lines(inputNames);
    if (!own)
      return withContext(own.takeError(), name + ": forward");
    const bool called = llvm::any_of(forward.nodes(), callsPipecForward);
    std::string difference =
        firstDifference(called ? linesOfCall(inputNames) : linesOfCopy(inputNames), *own);
    if (!difference.empty())
      return makeError(ExitCode::BadArtifact,
                       name + ": forward is not pipec_forward: " + difference);
    return llvm::Error::success();
  }

private:
  /// For a forward that calls pipec_forward.
  std::vector<std::string> linesOfCall(const std::vector<std::string> &inputNames) const {
    CanonicalWriter writer;
    for (const std::string &name : argumentNames(inputNames))
      writer.line(argumentLine(name));
    std::vector<std::string> outputs;
    for (size_t i = 0; i < plan_.stages[stage_].outputs.size(); ++i)
      outputs.push_back(outputName(i));
    writeResults(writer, outputs);
    return writer.lines();
  }

  /// For a forward that has all operators itself.
  std::vector<std::string> linesOfCopy(const std::vector<std::string> &inputNames) const {
    const size_t outputs = plan_.stages[stage_].outputs.size();
    CanonicalWriter writer;
    size_t next = 1; // 0 is self
    for (const std::string &name : argumentNames(inputNames))
      writer.name(graph_.inputs()[next++], name);
    for (torch::jit::Node *node : graph_.nodes())
      if (!isPacking(node, outputs))
        writer.write(node);
    std::vector<std::string> results;
    for (torch::jit::Value *value : resultsOf(graph_.outputs()[0], outputs))
      results.push_back(writer.nameOf(value));
    writeResults(writer, results);
    return writer.lines();
  }

  std::vector<std::string> argumentNames(std::vector<std::string> names) const {
    for (const StageAttribute &entry : plan_.stages[stage_].attributes)
      names.insert(names.end(), entry.uses, "attribute " + entry.name);
    return names;
  }

  void writeResults(CanonicalWriter &writer, const std::vector<std::string> &values) const {
    const StagePlan &stage = plan_.stages[stage_];
    for (size_t i = 0; i < values.size(); ++i)
      writer.line(resultLine(stage, i, values[i]));
    for (size_t channel : stage.weightChannelsOut)
      writer.line("weight " + plan_.channels[channel].name + " = attribute " +
                  stage.attributes[plan_.channels[channel].from.port].name);
  }

  /// The tuple that carries several results.
  bool isPacking(torch::jit::Node *node, size_t results) const {
    return results > 1 && node->kind() == c10::prim::TupleConstruct &&
           node->output() == graph_.outputs()[0];
  }

  const Plan &plan_;
  const size_t stage_;
  torch::jit::Graph &graph_;
};

} // namespace

std::vector<torch::jit::Value *> resultsOf(torch::jit::Value *result, size_t expected) {
  if (expected == 0)
    return {};
  if (expected == 1)
    return {result};
  if (result->node()->kind() != c10::prim::TupleConstruct)
    return {};
  return result->node()->inputs().vec();
}

llvm::Error compareMethods(const Plan &plan, size_t stage, torch::jit::Graph &pipecForward,
                           torch::jit::Graph &forward) {
  return StageMethods(plan, stage, pipecForward).compare(forward);
}

} // namespace pipec
