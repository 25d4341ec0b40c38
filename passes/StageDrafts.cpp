#include "passes/StageDrafts.h"

#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/SameTensors.h"
#include "passes/analysis/TopLevel.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

class StageDrafter {
public:
  StageDrafter(const Model &model, const std::vector<NodeCost> &costs)
      : model_(&model), costs_(costs) {}

  StageDrafts draft() {
    assignStages();
    collectUses();
    collectOutputs();
    placeUnreadAttributes();
    makeChannels();
    return {std::move(drafts_), std::move(channels_), std::move(channelOf_), std::move(leafStage_),
            std::move(stateStage_)};
  }

private:
  void assignStages() {
    TopLevel top = topLevelOf(*model_);
    drafts_.assign(1, {});
    size_t boundary = 0;
    for (size_t i = 0; i < top.operators.size(); ++i) {
      while (boundary < top.boundaries.size() && top.boundaries[boundary] == i) {
        drafts_.emplace_back();
        ++boundary;
      }
      drafts_.back().operators.push_back(top.operators[i]);
      if (costs_.size() == top.operators.size())
        drafts_.back().flops += costs_[i].flops;
      for (torch::jit::Value *output : top.operators[i]->outputs())
        definedIn_[output] = {drafts_.size() - 1, order_++};
    }
    for (size_t i = 0; i < model_->graph->inputs().size(); ++i)
      inputIndex_[model_->graph->inputs()[i]] = i;
  }

  void collectUses() {
    std::vector<std::map<size_t, torch::jit::Value *>> incoming(drafts_.size());
    for (size_t stage = 0; stage < drafts_.size(); ++stage)
      for (torch::jit::Node *node : drafts_[stage].operators)
        forEachOuterUse(node,
                        [&](torch::jit::Value *value) { noteUse(stage, value, incoming[stage]); });
    if (model_->mode == Mode::Train)
      joinSameTensors(incoming);
    for (size_t stage = 0; stage < drafts_.size(); ++stage)
      for (auto &[order, value] : incoming[stage]) {
        drafts_[stage].incoming.push_back(value);
        consumers_[value].push_back(stage);
      }
  }

  /// Gradients of a value go from reader to reader, and each adds its own in autograd's order.
  ///
  ///     k = h.contiguous()   # stage 0      h: 0 -> 1, 2
  ///     z = f(h)             # stage 1      k: 0 -> 2
  ///     y = g(z, k)          # stage 2
  ///
  /// If k is h, its gradient belongs into the sum of h, before that of stage 1. So a stage that
  /// reads k gets h as well: its tape finds the gradient of a tensor at the tensor's first port.
  void joinSameTensors(std::vector<std::map<size_t, torch::jit::Value *>> &incoming) const {
    const SameTensors same(*model_->graph->block());
    const std::vector<std::map<size_t, torch::jit::Value *>> read = incoming;
    std::map<size_t, torch::jit::Value *> sent;
    for (const auto &values : read)
      sent.insert(values.begin(), values.end());
    for (size_t stage = 0; stage < read.size(); ++stage)
      for (const auto &[order, value] : read[stage])
        for (auto earlier = sent.begin(); earlier->first < order; ++earlier)
          if (same.maybe(earlier->second, value))
            incoming[stage].insert(*earlier);
  }

  void noteUse(size_t stage, torch::jit::Value *value,
               std::map<size_t, torch::jit::Value *> &incoming) {
    if (auto input = inputIndex_.find(value); input != inputIndex_.end()) {
      if (input->second < model_->argumentCount())
        drafts_[stage].userInputs.insert(input->second);
      else
        drafts_[stage].attributes.insert(input->second - model_->argumentCount());
      return;
    }
    auto defined = definedIn_.find(value);
    if (defined != definedIn_.end() && defined->second.stage != stage)
      incoming[defined->second.order] = value;
  }

  /// An output leaves from the stage that makes it.
  void collectOutputs() {
    std::vector<std::map<size_t, torch::jit::Value *>> made(drafts_.size());
    for (auto &[value, stages] : consumers_)
      made[definedIn_[value].stage][definedIn_[value].order] = value;
    std::vector<torch::jit::Value *> unmade;
    auto outputs = model_->graph->outputs();
    size_t leaves = model_->signature.leaves.size();
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto defined = definedIn_.find(outputs[i]);
      size_t stage = defined != definedIn_.end() ? defined->second.stage : stageOfUnmade(i);
      if (i < leaves)
        leafStage_.push_back(stage);
      else
        stateStage_.push_back(stage);
      if (i >= leaves)
        drafts_[stage].attributes.insert(model_->stateOutputs[i - leaves]);
      if (defined != definedIn_.end()) {
        if (i < leaves) // new state gets ports of its own, after all others
          made[stage][defined->second.order] = outputs[i];
        continue;
      }
      std::map<size_t, torch::jit::Value *> none;
      noteUse(stage, outputs[i], none);
      if (!llvm::is_contained(drafts_[stage].outputs, outputs[i]))
        drafts_[stage].outputs.push_back(outputs[i]);
    }
    for (size_t stage = 0; stage < drafts_.size(); ++stage) {
      std::vector<torch::jit::Value *> ordered;
      for (auto &[order, value] : made[stage])
        ordered.push_back(value);
      drafts_[stage].outputs.insert(drafts_[stage].outputs.begin(), ordered.begin(), ordered.end());
    }
  }

  /// The stage that returns an output that no operator makes. Such an output is an argument, a
  /// weight or a constant. It leaves from a stage that has the value anyway:
  /// - the new state of an attribute: from the stage that reads its old value;
  /// - an argument or a weight: from the first stage that reads it (if the model writes it, all its
  ///   readers are in the stage that writes);
  /// - a constant, or anything that no stage reads: from the last stage.
  size_t stageOfUnmade(size_t output) const {
    size_t leaves = model_->signature.leaves.size();
    if (output >= leaves)
      if (auto stage = stageHolding(model_->stateOutputs[output - leaves]))
        return *stage;
    auto input = inputIndex_.find(model_->graph->outputs()[output]);
    if (input == inputIndex_.end())
      return drafts_.size() - 1;
    if (input->second >= model_->argumentCount())
      return stageHolding(input->second - model_->argumentCount()).value_or(drafts_.size() - 1);
    for (size_t stage = 0; stage < drafts_.size(); ++stage)
      if (drafts_[stage].userInputs.count(input->second))
        return stage;
    return drafts_.size() - 1;
  }

  /// The first stage that reads the attribute or, failing that, another name of its memory.
  std::optional<size_t> stageHolding(size_t attribute) const {
    std::optional<size_t> sharing;
    const int64_t storage = model_->attributes[attribute].storage;
    for (size_t stage = 0; stage < drafts_.size(); ++stage) {
      if (drafts_[stage].attributes.count(attribute))
        return stage;
      if (!sharing && storage >= 0 && llvm::any_of(drafts_[stage].attributes, [&](size_t other) {
            return model_->attributes[other].storage == storage;
          }))
        sharing = stage;
    }
    return sharing;
  }

  /// Weights that the method never reads go where their neighbours by name are, so that no weight
  /// is lost.
  void placeUnreadAttributes() {
    std::vector<std::optional<size_t>> stageOf(model_->attributes.size());
    for (size_t stage = drafts_.size(); stage-- > 0;)
      for (size_t attribute : drafts_[stage].attributes)
        stageOf[attribute] = stage;
    std::vector<std::pair<size_t, size_t>> placed;
    for (size_t i = 0; i < model_->attributes.size(); ++i)
      if (!stageOf[i])
        placed.emplace_back(i, nearestStage(i, stageOf));
    for (auto [attribute, stage] : placed)
      drafts_[stage].attributes.insert(attribute);
  }

  size_t nearestStage(size_t unread, const std::vector<std::optional<size_t>> &stageOf) const {
    const Attribute &attribute = model_->attributes[unread];
    size_t best = 0, bestLength = 0;
    for (size_t i = 0; i < stageOf.size(); ++i) {
      if (!stageOf[i])
        continue;
      if (attribute.storage >= 0 && model_->attributes[i].storage == attribute.storage)
        return *stageOf[i];
      size_t length = commonComponents(attribute.name, model_->attributes[i].name);
      if (length > bestLength) {
        bestLength = length;
        best = *stageOf[i];
      }
    }
    return best;
  }

  static size_t commonComponents(llvm::StringRef a, llvm::StringRef b) {
    size_t count = 0;
    while (!a.empty() && !b.empty()) {
      auto [headA, tailA] = a.split('.');
      auto [headB, tailB] = b.split('.');
      if (headA != headB)
        break;
      ++count;
      a = tailA;
      b = tailB;
    }
    return count;
  }

  void makeChannels() {
    std::map<size_t, torch::jit::Value *> ordered;
    for (auto &[value, stages] : consumers_)
      ordered[definedIn_[value].order] = value;
    for (auto &[order, value] : ordered) {
      Channel channel;
      channel.name = "c" + std::to_string(channels_.size());
      size_t from = definedIn_[value].stage;
      channel.from = {from, indexIn(drafts_[from].outputs, value)};
      channel.type = portType(value)->annotation_str();
      for (size_t stage : consumers_[value]) {
        channel.to.push_back(
            {stage, drafts_[stage].userInputs.size() + indexIn(drafts_[stage].incoming, value)});
        channel.skip |= stage != from + 1;
      }
      channelOf_[value] = channels_.size();
      channels_.push_back(std::move(channel));
    }
  }

  static size_t indexIn(const std::vector<torch::jit::Value *> &values, torch::jit::Value *value) {
    return llvm::find(values, value) - values.begin();
  }

  struct Place {
    size_t stage;
    size_t order;
  };
  const Model *model_;
  const std::vector<NodeCost> &costs_;
  std::vector<StageDraft> drafts_;
  std::map<torch::jit::Value *, Place> definedIn_;
  std::map<torch::jit::Value *, size_t> inputIndex_, channelOf_;
  // Keyed by pointer and walked only to fill maps ordered by definition.
  std::map<torch::jit::Value *, std::vector<size_t>> consumers_;
  std::vector<size_t> leafStage_, stateStage_;
  std::vector<Channel> channels_;
  size_t order_ = 0;
};

} // namespace

c10::TypePtr portType(torch::jit::Value *value) {
  return value->type()->kind() == c10::TypeKind::TensorType ? c10::TypePtr(c10::TensorType::get())
                                                            : value->type();
}

StageDrafts draftStages(const Model &model, const std::vector<NodeCost> &costs) {
  return StageDrafter(model, costs).draft();
}

} // namespace pipec
