#include "ir/artifact/Relink.h"

#include "ir/CanonicalText.h"
#include "ir/GraphText.h"
#include "ir/TensorBytes.h"
#include "ir/TensorKey.h"
#include "ir/TorchArchive.h"
#include "ir/TorchError.h"
#include "ir/TorchFile.h"
#include "ir/artifact/SourceOrder.h"
#include "llvm/ADT/StringMap.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// "result 2 = %7" or "state calls = %9".
std::string resultLine(const StagePlan &stage, size_t output, const std::string &value) {
  if (stage.outputs[output].state)
    return "state " + stage.attributes[*stage.outputs[output].state].name + " = " + value;
  return fmt::format("result {} = {}", output, value);
}

/// Walks `forward`: attribute reads name values, attribute writes are collected.
class ForwardReader {
public:
  ForwardReader(Graph &graph, const Plan &plan, size_t stage)
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
    for (Node *node : graph_.nodes())
      visit(node, results);
    std::vector<Value *> values;
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

  void visit(Node *node, size_t results) {
    if (node->kind() == c10::prim::GetAttr) {
      std::string path = pathOf(node);
      paths_[node->output()] = path;
      writer_.name(node->output(), "attribute " + path);
    } else if (node->kind() == c10::prim::SetAttr) {
      states_[pathOf(node)] = writer_.nameOf(node->input(1));
    } else if (!(results > 1 && node->kind() == c10::prim::TupleConstruct &&
                 node->output() == graph_.outputs()[0])) {
      writer_.write(node);
    }
  }

  std::string pathOf(Node *node) {
    const std::string &base = paths_[node->input(0)];
    return base.empty() ? node->s(c10::attr::name) : base + "." + node->s(c10::attr::name);
  }

  void writeResults(const std::vector<Value *> &values) {
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

  Graph &graph_;
  const Plan &plan_;
  const StagePlan &stage_;
  CanonicalWriter writer_;
  std::map<Value *, std::string> paths_;
  std::map<std::string, std::string> states_;
};

/// Errors: BadArtifact naming the path.
llvm::Expected<c10::IValue> weightAt(const torch::jit::Module &module, const std::string &path) {
  if (std::optional<c10::IValue> value = attributeAt(module, path))
    return *value;
  return makeError(ExitCode::BadArtifact, "attribute " + path + ": not in the stage's module");
}

/// Canonical lines of `forward`, with reads and writes of the module's attributes as the values
/// they stand for. inputNames: of the inputs.
llvm::Expected<std::vector<std::string>> forwardLines(Graph &forward, const Plan &plan,
                                                      size_t stage,
                                                      const std::vector<std::string> &inputNames) {
  return ForwardReader(forward, plan, stage).lines(inputNames);
}

/// Results of a method as the emitter packs them: none, one bare, several in a tuple.
std::vector<Value *> resultsOf(Value *result, size_t expected) {
  if (expected == 0)
    return {};
  if (expected == 1)
    return {result};
  if (result->node()->kind() != c10::prim::TupleConstruct)
    return {};
  return result->node()->inputs().vec();
}

/// The module's own: it is only read.
std::shared_ptr<Graph> graphOf(const torch::jit::Module &module, const std::string &method) {
  return torch::jit::toGraphFunction(module.get_method(method).function()).graph();
}

class Linker {
public:
  Linker(const std::string &directory, const Plan &plan, const KnownWeights &known,
         const StableBytes *stable)
      : directory_(directory), plan_(plan), known_(known), stable_(stable) {}

  llvm::Expected<Relinked> link() {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      llvm::Expected<torch::jit::Module> module =
          loadMapped(directory_ + "/" + plan_.stages[s].file,
                     /*fewReads=*/stable_ && stable_->anyWritten());
      if (!module)
        return withContext(module.takeError(), stageName(s));
      if (llvm::Error error = guardTorchError(ExitCode::BadArtifact, stageName(s),
                                              [&] { return readStage(s, *module); }))
        return std::move(error);
      modules_.push_back(std::move(*module));
    }
    makeInputs();
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      if (llvm::Error error =
              guardTorchError(ExitCode::BadArtifact, stageName(s), [&] { return linkStage(s); }))
        return std::move(error);
    if (llvm::Error error = guardTorchError(ExitCode::BadArtifact, "ordering the operators",
                                            [&] { return restoreOrder(); }))
      return std::move(error);
    return guardTorch(ExitCode::BadArtifact, "linking the stages", [&] { return finish(); });
  }

private:
  static std::string stageName(size_t stage) { return "stage " + std::to_string(stage); }

  /// What attribute `i` of stage `s` holds when the stage runs: its own value, or what the owner
  /// sends.
  llvm::Expected<c10::IValue> valueOf(size_t s, size_t i, const torch::jit::Module &module) const {
    const StageAttribute &entry = plan_.stages[s].attributes[i];
    if (!entry.channel)
      return weightAt(module, entry.name);
    const PortRef &from = plan_.channels[*entry.channel].from;
    if (from.stage >= values_.size() || from.port >= values_[from.stage].size())
      return makeError(ExitCode::BadArtifact,
                       "weight " + entry.name + ": no earlier stage sends it");
    return values_[from.stage][from.port];
  }

  /// What the file shows, its weights, and the graph that is linked later.
  llvm::Error readStage(size_t s, const torch::jit::Module &module) {
    llvm::Expected<StageFacts> facts = stageFacts(module, plan_.stages[s]);
    if (!facts)
      return withContext(facts.takeError(), stageName(s));
    if (llvm::Error error = checkStage(plan_.stages[s], *facts))
      return withContext(std::move(error), stageName(s));
    facts_.push_back(std::move(*facts));
    if (llvm::Error error = noteWeights(s, module))
      return error;
    std::shared_ptr<Graph> graph = graphOf(module, "pipec_forward");
    if (graph->inputs()[0]->hasUses())
      return makeError(ExitCode::BadArtifact,
                       stageName(s) + ": pipec_forward reads the module itself");
    graphs_.push_back(std::move(graph));
    return compareForward(s, module);
  }

  llvm::Error noteWeights(size_t s, const torch::jit::Module &module) {
    const std::vector<StageAttribute> &entries = plan_.stages[s].attributes;
    std::vector<c10::IValue> values;
    for (size_t i = 0; i < entries.size(); ++i) {
      llvm::Expected<c10::IValue> value = valueOf(s, i, module);
      if (!value)
        return withContext(value.takeError(), stageName(s));
      values.push_back(*value);
      if (llvm::Error error = checkOtherNames(s, entries[i], *value, module))
        return error;
      std::string line =
          attributeLine(entries[i].name, entries[i].kind, contentOf(entries[i].name, *value));
      auto [known, inserted] = weights_.try_emplace(entries[i].name, line);
      if (!inserted && known->second != line)
        return makeError(ExitCode::BadArtifact,
                         stageName(s) + ": weight " + entries[i].name +
                             " differs from its copy in an earlier stage: expected " +
                             known->second + ", got " + line);
    }
    values_.push_back(std::move(values));
    return llvm::Error::success();
  }

  std::string contentOf(const std::string &name, const c10::IValue &value) const {
    auto known = known_.find(name);
    if (known != known_.end() && known->second.value.isTensor() && value.isTensor() &&
        isKnown(known->second.value.toTensor(), value.toTensor()))
      return known->second.content;
    return contentText(value);
  }

  bool isKnown(const at::Tensor &known, const at::Tensor &read) const {
    const std::optional<llvm::StringRef> bytes = digestedInPlace(known);
    const std::optional<FilePlace> place = placeInFile(read);
    const bool copy =
        stable_ && bytes && place && stable_->wereWritten(place->file, place->offset, *bytes);
    if (!copy)
      expectReadOf(read);
    return haveSameBits(known, read, copy);
  }

  /// The other names of a weight must be the very same tensor.
  static llvm::Error checkOtherNames(size_t s, const StageAttribute &entry,
                                     const c10::IValue &value, const torch::jit::Module &module) {
    for (const std::string &name : entry.otherNames) {
      if (entry.channel)
        continue; // its owner has them
      llvm::Expected<c10::IValue> other = weightAt(module, name);
      if (!other)
        return withContext(other.takeError(), stageName(s));
      if (value.isTensor() &&
          (!other->isTensor() || keyOf(value.toTensor()) != keyOf(other->toTensor())))
        return makeError(ExitCode::BadArtifact,
                         stageName(s) + ": weight " + name + " is not the tensor " + entry.name);
    }
    return llvm::Error::success();
  }

  /// The arguments of the method, then one input per attribute: as the normalised source has them.
  void makeInputs() {
    model_.graph = std::make_shared<Graph>();
    model_.signature = plan_.signature;
    model_.mode = plan_.mode;
    model_.obligations = plan_.obligations;
    for (size_t i = 0; i < plan_.signature.inputs.size(); ++i)
      arguments_.push_back(model_.graph->addInput()->setType(argumentType(i)));
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      for (size_t i = 0; i < plan_.stages[s].attributes.size(); ++i)
        addAttribute(s, i);
  }

  /// As the stages that take the argument declare it; one that no stage reads, by the plan's text.
  c10::TypePtr argumentType(size_t index) const {
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      for (size_t i = 0; i < plan_.stages[s].inputs.size(); ++i) {
        const StageInput &input = plan_.stages[s].inputs[i];
        if (input.kind == StageInput::Kind::UserInput && input.index == index)
          return graphs_[s]->inputs()[1 + i]->type();
      }
    llvm::Expected<c10::TypePtr> type = typeFromText(plan_.signature.inputs[index].type);
    if (type)
      return *type;
    llvm::consumeError(type.takeError()); // of a class that no stage file defines
    return c10::AnyType::get();
  }

  void addAttribute(size_t s, size_t i) {
    const StageAttribute &entry = plan_.stages[s].attributes[i];
    auto [known, inserted] = attributeOf_.try_emplace(entry.name, model_.attributes.size());
    if (inserted) {
      Attribute attribute;
      attribute.name = entry.name;
      attribute.kind = entry.kind;
      attribute.value = values_[s][i];
      attribute.requiresGrad = entry.requiresGrad;
      model_.attributes.push_back(std::move(attribute));
      c10::TypePtr type = entry.channel ? nullptr : typeAt(modules_[s], entry.name);
      model_.graph->addInput()->setType(type ? type : c10::TensorType::get());
      sharers_.push_back(sharersOf(s, i));
    }
    Attribute &attribute = model_.attributes[known->second];
    // Of several copies one that shares memory as the source's does, if there is one.
    if (const size_t sharers = sharersOf(s, i); !inserted && sharers >= sharers_[known->second]) {
      attribute.value = values_[s][i];
      sharers_[known->second] = sharers;
    }
    attribute.written |= entry.written;
    for (const std::string &name : entry.otherNames)
      if (!llvm::is_contained(attribute.otherNames, name))
        attribute.otherNames.push_back(name);
  }

  /// Other attributes of the stage that share memory with this one.
  size_t sharersOf(size_t s, size_t i) const {
    if (memories_.size() <= s)
      memories_.resize(s + 1);
    std::vector<int64_t> &memory = memories_[s];
    if (memory.empty()) {
      std::vector<at::Tensor> tensors;
      for (const c10::IValue &value : values_[s])
        tensors.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
      memory = storageIds(tensors);
    }
    return memory[i] < 0 ? 0 : static_cast<size_t>(llvm::count(memory, memory[i])) - 1;
  }

  Value *attributeInput(const std::string &name) {
    return model_.graph->inputs()[arguments_.size() + attributeOf_.at(name)];
  }

  llvm::Error linkStage(size_t s) {
    const StagePlan &stage = plan_.stages[s];
    std::vector<Value *> inputs{nullptr}; // the module: nobody reads it
    for (const StageInput &input : stage.inputs)
      inputs.push_back(input.kind == StageInput::Kind::UserInput ? arguments_[input.index]
                                                                 : sent_[input.index]);
    for (const StageAttribute &entry : stage.attributes)
      inputs.insert(inputs.end(), entry.uses, attributeInput(entry.name));
    Value *packed = torch::jit::insertGraph(*model_.graph, *graphs_[s], inputs)[0];
    std::vector<Value *> results = resultsOf(packed, stage.outputs.size());
    if (results.size() != stage.outputs.size())
      return failf(ExitCode::BadArtifact, "{}: pipec_forward: expected {} results, got {}",
                   stageName(s), stage.outputs.size(), results.size());
    if (results.size() != 1 && !packed->hasUses() && packed->node()->kind() != c10::prim::Param)
      packed->node()->destroy(); // what only held the results together
    for (size_t i = 0; i < results.size(); ++i) {
      for (size_t channel : stage.outputs[i].channels)
        sent_[channel] = results[i];
      for (size_t leaf : stage.outputs[i].leaves)
        leaves_[leaf] = results[i];
      if (stage.outputs[i].state)
        states_[stage.attributes[*stage.outputs[i].state].name] = results[i];
    }
    return llvm::Error::success();
  }

  /// Stages whose operators were moved to make them: back to the source's order.
  llvm::Error restoreOrder() {
    const std::optional<std::vector<size_t>> order = orderOf(plan_.obligations);
    if (!order)
      return llvm::Error::success();
    SourceOrder source(*model_.graph);
    if (order->size() != source.size())
      return failf(ExitCode::BadArtifact,
                   "obligation \"{}\": expected {} operators, as the stages have, got {}",
                   toString(Obligation::reorder(*order)), source.size(), order->size());
    return source.restore(*order);
  }

  Relinked finish() {
    TORCH_CHECK(leaves_.size() == plan_.signature.leaves.size(), "expected ",
                plan_.signature.leaves.size(), " outputs, got ", leaves_.size());
    for (const auto &[leaf, value] : leaves_)
      model_.graph->registerOutput(value);
    for (const auto &[name, value] : states_) {
      model_.stateOutputs.push_back(attributeOf_.at(name));
      model_.graph->registerOutput(value);
    }
    std::vector<at::Tensor> tensors;
    for (const Attribute &attribute : model_.attributes)
      tensors.push_back(attribute.value.isTensor() ? attribute.value.toTensor() : at::Tensor());
    std::vector<int64_t> storages = storageIds(tensors);
    for (size_t i = 0; i < storages.size(); ++i)
      model_.attributes[i].storage = storages[i];
    Relinked result;
    result.lines = canonicalLines(model_);
    std::vector<std::string> weights;
    for (const auto &[name, line] : weights_)
      weights.push_back(line);
    result.digest = contentDigest(result.lines, std::move(weights));
    result.weights = std::move(weights_);
    result.stages = std::move(facts_);
    result.sent.resize(plan_.channels.size(), nullptr);
    for (const auto &[channel, value] : sent_)
      result.sent[channel] = value;
    model_.sourceDigest = result.digest;
    result.model = std::move(model_);
    return result;
  }

  /// `forward` on the stage's own weights must be the same lines.
  llvm::Error compareForward(size_t s, const torch::jit::Module &module) {
    const StagePlan &stage = plan_.stages[s];
    std::vector<std::string> inputNames;
    for (size_t i = 0; i < stage.inputs.size(); ++i)
      inputNames.push_back("input " + std::to_string(i));
    llvm::Expected<std::vector<std::string>> own =
        forwardLines(*graphOf(module, "forward"), plan_, s, inputNames);
    if (!own)
      return withContext(own.takeError(), stageName(s) + ": forward");
    Graph &graph = *graphs_[s];
    CanonicalWriter writer;
    nameInputs(writer, graph, stage, inputNames);
    for (Node *node : graph.nodes())
      if (!isPacking(graph, node, stage.outputs.size()))
        writer.write(node);
    std::vector<Value *> results = resultsOf(graph.outputs()[0], stage.outputs.size());
    for (size_t i = 0; i < results.size(); ++i)
      writer.line(resultLine(stage, i, writer.nameOf(results[i])));
    for (size_t channel : stage.weightChannelsOut)
      writer.line("weight " + plan_.channels[channel].name + " = attribute " +
                  stage.attributes[plan_.channels[channel].from.port].name);
    std::string difference = firstDifference(writer.lines(), *own);
    if (!difference.empty())
      return makeError(ExitCode::BadArtifact,
                       stageName(s) + ": forward is not pipec_forward: " + difference);
    return llvm::Error::success();
  }

  static void nameInputs(CanonicalWriter &writer, Graph &graph, const StagePlan &stage,
                         const std::vector<std::string> &inputNames) {
    size_t next = 1; // 0 is self
    for (const std::string &name : inputNames)
      writer.name(graph.inputs()[next++], name);
    for (const StageAttribute &entry : stage.attributes)
      for (size_t use = 0; use < entry.uses; ++use)
        writer.name(graph.inputs()[next++], "attribute " + entry.name);
  }

  /// The tuple that carries several results.
  static bool isPacking(Graph &graph, Node *node, size_t results) {
    return results > 1 && node->kind() == c10::prim::TupleConstruct &&
           node->output() == graph.outputs()[0];
  }

  const std::string &directory_;
  const Plan &plan_;
  const KnownWeights &known_;
  const StableBytes *stable_;
  std::map<std::string, std::string> weights_;
  std::vector<std::vector<c10::IValue>> values_;       // by stage and attribute
  mutable std::vector<std::vector<int64_t>> memories_; // of these, once asked for
  std::vector<size_t> sharers_;                        // of each attribute's value, in its stage
  std::vector<StageFacts> facts_;
  std::vector<torch::jit::Module> modules_;
  std::vector<std::shared_ptr<Graph>> graphs_; // pipec_forward of each
  Model model_;
  std::vector<Value *> arguments_;
  std::map<std::string, size_t> attributeOf_;
  std::map<size_t, Value *> sent_, leaves_; // by channel, by leaf
  std::map<std::string, Value *> states_;   // by attribute
};

} // namespace

llvm::Expected<Relinked> relink(const std::string &directory, const Plan &plan,
                                const KnownWeights &known, const StableBytes *stable) {
  return Linker(directory, plan, known, stable).link();
}

std::optional<size_t> firstDifferentLine(const std::vector<std::string> &expected,
                                         const std::vector<std::string> &actual) {
  for (size_t i = 0; i < std::max(expected.size(), actual.size()); ++i)
    if (i >= expected.size() || i >= actual.size() || expected[i] != actual[i])
      return i;
  return std::nullopt;
}

std::string firstDifference(const std::vector<std::string> &expected,
                            const std::vector<std::string> &actual) {
  std::optional<size_t> line = firstDifferentLine(expected, actual);
  if (!line)
    return "";
  auto at = [&](const std::vector<std::string> &lines) {
    return *line < lines.size() ? lines[*line] : "nothing";
  };
  return fmt::format("operator {}: expected `{}`, got `{}`", *line, at(expected), at(actual));
}

} // namespace pipec
