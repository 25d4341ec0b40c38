#include "ir/artifact/Relink.h"

#include "ir/TensorBytes.h"
#include "ir/TensorKey.h"
#include "ir/TorchError.h"
#include "ir/artifact/SourceOrder.h"
#include "ir/artifact/StageCheck.h"
#include "ir/artifact/StageMethods.h"
#include "ir/support/Try.h"
#include "ir/text/CanonicalText.h"
#include "ir/text/GraphText.h"
#include "ir/torchfile/TorchArchive.h"
#include "ir/torchfile/TorchFile.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

using torch::jit::Graph;
using torch::jit::Value;

/// Errors: BadArtifact naming the path.
llvm::Expected<c10::IValue> weightAt(const torch::jit::Module &module, const std::string &path) {
  if (std::optional<c10::IValue> value = attributeAt(module, path))
    return *value;
  return makeError(ExitCode::BadArtifact, "attribute " + path + ": not in the stage's module");
}

/// The module's own graph, not a copy: it is only read.
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
      TRY(guardTorchError(ExitCode::BadArtifact, stageName(s),
                          [&] { return readStage(s, *module); }));
      modules_.push_back(std::move(*module));
    }
    makeInputs();
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      TRY(guardTorchError(ExitCode::BadArtifact, stageName(s), [&] { return linkStage(s); }));
    TRY(guardTorchError(ExitCode::BadArtifact, "ordering the operators",
                        [&] { return restoreOrder(); }));
    if (leaves_.size() != plan_.signature.leaves.size())
      return failf(ExitCode::BadArtifact, "linking the stages: expected {} outputs, got {}",
                   plan_.signature.leaves.size(), leaves_.size());
    return guardTorch(ExitCode::BadArtifact, "linking the stages", [&] { return finish(); });
  }

private:
  static std::string stageName(size_t stage) { return "stage " + std::to_string(stage); }

  /// The value of attribute `i` of stage `s` at run time: its own, or the one that the owner sends.
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

  /// Reads the file's facts, its weights, and the graph to be linked.
  llvm::Error readStage(size_t s, const torch::jit::Module &module) {
    llvm::Expected<StageFacts> facts = stageFacts(module, plan_.stages[s]);
    if (!facts)
      return withContext(facts.takeError(), stageName(s));
    if (llvm::Error error = checkStage(plan_.stages[s], *facts))
      return withContext(std::move(error), stageName(s));
    if (llvm::Error error = checkTrained(plan_, s, *facts))
      return withContext(std::move(error), stageName(s));
    facts_.push_back(std::move(*facts));
    TRY(noteWeights(s, module));
    std::shared_ptr<Graph> graph = graphOf(module, "pipec_forward");
    if (graph->inputs()[0]->hasUses())
      return makeError(ExitCode::BadArtifact,
                       stageName(s) + ": pipec_forward reads the module itself");
    graphs_.push_back(std::move(graph));
    return compareMethods(plan_, s, *graphs_[s], *graphOf(module, "forward"));
  }

  llvm::Error noteWeights(size_t s, const torch::jit::Module &module) {
    const std::vector<StageAttribute> &entries = plan_.stages[s].attributes;
    std::vector<c10::IValue> values;
    for (size_t i = 0; i < entries.size(); ++i) {
      llvm::Expected<c10::IValue> value = valueOf(s, i, module);
      if (!value)
        return withContext(value.takeError(), stageName(s));
      values.push_back(*value);
      TRY(checkOtherNames(s, entries[i], *value, module));
      const std::string content = contentOf(entries[i].name, *value);
      TRY(noteTrained(s, i, content));
      std::string line = attributeLine(entries[i].name, entries[i].kind, content);
      auto [known, inserted] = weights_.try_emplace(entries[i].name, line);
      if (!inserted && known->second != line)
        return differentCopy(s, entries[i].name, known->second, line);
      TRY(noteObjects(s, entries[i].name, *value));
    }
    values_.push_back(std::move(values));
    return llvm::Error::success();
  }

  /// The copies of a parameter have other names in other stages, but one value.
  llvm::Error noteTrained(size_t s, size_t i, const std::string &content) {
    const PortRef use{s, i};
    for (size_t p = 0; plan_.training && p < plan_.training->parameters.size(); ++p)
      if (llvm::is_contained(plan_.training->parameters[p].uses, use)) {
        auto [known, inserted] = trained_.try_emplace(p, content);
        if (!inserted && known->second != content)
          return differentCopy(s, plan_.stages[s].attributes[i].name, known->second, content);
      }
    return llvm::Error::success();
  }

  static llvm::Error differentCopy(size_t s, const std::string &name, const std::string &expected,
                                   const std::string &got) {
    return failf(ExitCode::BadArtifact,
                 "{}: weight {} differs from its copy in an earlier stage: expected {}, got {}",
                 stageName(s), name, expected, got);
  }

  llvm::Error noteObjects(size_t s, const std::string &name, const c10::IValue &value) {
    if (!hasExactText(value))
      return llvm::Error::success();
    const std::string text = contentText(value, Detail::Exact);
    auto [known, inserted] = objects_.try_emplace(name, text);
    return inserted || known->second == text ? llvm::Error::success()
                                             : differentCopy(s, name, known->second, text);
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

  /// The arguments of the method, then one input per attribute, as in the normalised source.
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

  /// The type that the stages with this argument declare. If no stage reads it: the type in the
  /// plan's text.
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
    // Among several copies, prefer one that shares memory as the source's tensor does.
    if (const size_t sharers = sharersOf(s, i); !inserted && sharers >= sharers_[known->second]) {
      attribute.value = values_[s][i];
      sharers_[known->second] = sharers;
    }
    attribute.written |= entry.written;
    for (const std::string &name : entry.otherNames)
      if (!llvm::is_contained(attribute.otherNames, name))
        attribute.otherNames.push_back(name);
    const size_t holder = entry.channel ? plan_.channels[*entry.channel].from.stage : s;
    for (const std::string &name : entry.allNames())
      if (!llvm::is_contained(attribute.plainNames, name) && isPlainTensor(modules_[holder], name))
        attribute.plainNames.push_back(name);
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
    std::vector<Value *> inputs{nullptr}; // the module, which nothing reads
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
      packed->node()->destroy(); // it only packed the results
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

  /// If operators moved to other stages, restores the source's order.
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
    result.objects = std::move(objects_);
    result.stages = std::move(facts_);
    result.sent.resize(plan_.channels.size(), nullptr);
    for (const auto &[channel, value] : sent_)
      result.sent[channel] = value;
    model_.sourceDigest = result.digest;
    result.model = std::move(model_);
    return result;
  }

  const std::string &directory_;
  const Plan &plan_;
  const KnownWeights &known_;
  const StableBytes *stable_;
  std::map<std::string, std::string> weights_, objects_;
  std::map<size_t, std::string> trained_;        // the content of trained parameters, by number
  std::vector<std::vector<c10::IValue>> values_; // by stage and attribute
  mutable std::vector<std::vector<int64_t>> memories_; // their memory, once requested
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

} // namespace pipec
