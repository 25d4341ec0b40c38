// insert-transfers: the model becomes stages; every value used in a later stage than the one that
// makes it becomes one channel.
#include "ir/NodeInfo.h"
#include "ir/TensorBytes.h"
#include "llvm/ADT/MapVector.h"
#include "passes/Passes.h"
#include "passes/StageInputs.h"
#include "passes/analysis/TopLevel.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// Without shapes: a port accepts every size that the model accepts.
c10::TypePtr portType(Value *value) {
  return value->type()->kind() == c10::TypeKind::TensorType ? c10::TypePtr(c10::TensorType::get())
                                                            : value->type();
}

/// One stage while it is built.
struct Draft {
  std::vector<Node *> operators;
  int64_t flops = 0;
  std::set<size_t> userInputs;   // of the signature
  std::set<size_t> attributes;   // of the model
  std::vector<Value *> incoming; // in order of definition
  std::vector<Value *>
      outputs; // in order of definition, then outputs that no operator of the stage makes
};

class InsertTransfers : public SplitPass {
public:
  llvm::Expected<StagedModel> run(Model model) override {
    model_ = &model;
    assignStages();
    collectUses();
    collectOutputs();
    placeUnreadAttributes();
    makeChannels();
    StagedModel staged;
    for (size_t stage = 0; stage < drafts_.size(); ++stage)
      staged.stages.push_back(build(stage));
    countUses(staged);
    staged.channels = std::move(channels_);
    staged.attributes = std::move(model.attributes);
    staged.signature = std::move(model.signature);
    staged.obligations = std::move(model.obligations);
    staged.notes = std::move(model.notes);
    staged.sourceDigest = model.sourceDigest;
    staged.mode = model.mode;
    return staged;
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
      if (model_->nodeCosts.size() == top.operators.size())
        drafts_.back().flops += model_->nodeCosts[i].flops;
      for (Value *output : top.operators[i]->outputs())
        definedIn_[output] = {drafts_.size() - 1, order_++};
    }
    for (size_t i = 0; i < model_->graph->inputs().size(); ++i)
      inputIndex_[model_->graph->inputs()[i]] = i;
  }

  void collectUses() {
    for (size_t stage = 0; stage < drafts_.size(); ++stage) {
      std::map<size_t, Value *> incoming;
      for (Node *node : drafts_[stage].operators)
        forEachOuterUse(node, [&](Value *value) { noteUse(stage, value, incoming); });
      for (auto &[order, value] : incoming) {
        drafts_[stage].incoming.push_back(value);
        consumers_[value].push_back(stage);
      }
    }
  }

  void noteUse(size_t stage, Value *value, std::map<size_t, Value *> &incoming) {
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
    std::vector<std::map<size_t, Value *>> made(drafts_.size());
    for (auto &[value, stages] : consumers_)
      made[definedIn_[value].stage][definedIn_[value].order] = value;
    std::vector<Value *> unmade;
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
      std::map<size_t, Value *> none;
      noteUse(stage, outputs[i], none);
      if (!llvm::is_contained(drafts_[stage].outputs, outputs[i]))
        drafts_[stage].outputs.push_back(outputs[i]);
    }
    for (size_t stage = 0; stage < drafts_.size(); ++stage) {
      std::vector<Value *> ordered;
      for (auto &[order, value] : made[stage])
        ordered.push_back(value);
      drafts_[stage].outputs.insert(drafts_[stage].outputs.begin(), ordered.begin(), ordered.end());
    }
  }

  /// What no operator makes leaves from a stage that has it already: state from the stage that
  /// reads the old value, an input or a weight from the first that reads it (the writer of a
  /// written one, which all its readers stay with). A constant leaves from the last.
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
    std::map<size_t, Value *> ordered;
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

  static size_t indexIn(const std::vector<Value *> &values, Value *value) {
    return llvm::find(values, value) - values.begin();
  }

  Stage build(size_t index) {
    const Draft &draft = drafts_[index];
    Stage stage;
    stage.graph = std::make_shared<Graph>();
    stage.plan.file = "stage-" + std::to_string(index) + ".pt";
    stage.plan.rank = index;
    stage.plan.nodes = draft.operators.size();
    stage.plan.costFlops = draft.flops;
    std::map<Value *, Value *> map;
    addInputs(draft, stage, map);
    addAttributes(draft, stage, map);
    for (Node *node : draft.operators) {
      cloneConstants(node, *stage.graph, map);
      Node *clone = stage.graph->insertNode(
          stage.graph->createClone(node, [&](Value *value) { return map.at(value); }));
      for (size_t i = 0; i < node->outputs().size(); ++i)
        map[node->output(i)] = clone->output(i);
      describe(node, stage.plan);
    }
    addOutputs(index, draft, stage, map);
    return stage;
  }

  void addInputs(const Draft &draft, Stage &stage, std::map<Value *, Value *> &map) {
    for (size_t input : draft.userInputs) {
      Value *value = model_->graph->inputs()[input];
      const InputSpec &spec = model_->signature.inputs[input];
      stage.plan.inputs.push_back({spec.name, spec.type, StageInput::Kind::UserInput, input});
      map[value] = addInput(*stage.graph, value);
    }
    for (Value *value : draft.incoming) {
      size_t channel = channelOf_[value];
      stage.plan.inputs.push_back(
          {channels_[channel].name, channels_[channel].type, StageInput::Kind::Channel, channel});
      map[value] = addInput(*stage.graph, value);
    }
  }

  /// Constants last: the plan leaves them out, and indices of the others stay.
  void addAttributes(const Draft &draft, Stage &stage, std::map<Value *, Value *> &map) {
    for (bool constants : {false, true})
      for (size_t index : draft.attributes) {
        const Attribute &attribute = model_->attributes[index];
        if ((attribute.kind == AttributeKind::Constant) != constants)
          continue;
        StageAttribute entry = stageAttribute(attribute);
        if (attribute.kind == AttributeKind::Parameter)
          stage.plan.parameterBytes += entry.bytes;
        if (attribute.written)
          stage.plan.effects.stateWrites.push_back(attribute.name);
        stage.plan.attributes.push_back(std::move(entry));
        Value *value = model_->graph->inputs()[model_->argumentCount() + index];
        map[value] = addInput(*stage.graph, value);
      }
  }

  static Value *addInput(Graph &graph, Value *value) {
    Value *input = graph.addInput();
    input->setType(portType(value));
    return input;
  }

  static void cloneConstants(Node *node, Graph &graph, std::map<Value *, Value *> &map) {
    forEachOuterUse(node, [&](Value *value) { cloneConstant(value, graph, map); });
  }

  static void cloneConstant(Value *value, Graph &graph, std::map<Value *, Value *> &map) {
    if (map.count(value) || value->node()->kind() != c10::prim::Constant ||
        value->node()->owningBlock() != value->owningGraph()->block())
      return; // constants of inner blocks are cloned with their block
    map[value] =
        graph.insertNode(graph.createClone(value->node(), [](Value *v) { return v; }))->output();
  }

  void addOutputs(size_t index, const Draft &draft, Stage &stage, std::map<Value *, Value *> &map) {
    auto outputs = model_->graph->outputs();
    size_t leaves = model_->signature.leaves.size();
    for (Value *value : draft.outputs) {
      StageOutput output;
      output.type = portType(value)->annotation_str();
      if (auto channel = channelOf_.find(value); channel != channelOf_.end())
        output.channels.push_back(channel->second);
      for (size_t i = 0; i < leaves; ++i)
        if (outputs[i] == value && leafStage_[i] == index)
          output.leaves.push_back(i);
      output.name = !output.channels.empty() ? channels_[output.channels[0]].name
                    : !output.leaves.empty() ? "output" + std::to_string(output.leaves[0])
                                             : "";
      cloneConstant(value, *stage.graph, map);
      if (!output.channels.empty() || !output.leaves.empty()) {
        stage.plan.outputs.push_back(output);
        stage.graph->registerOutput(map.at(value));
      }
    }
    // State last, one port per attribute: a value may also be an output.
    for (size_t i = 0; i < model_->stateOutputs.size(); ++i) {
      if (stateStage_[i] != index)
        continue;
      const std::string &name = model_->attributes[model_->stateOutputs[i]].name;
      StageOutput output;
      output.name = name;
      output.type = outputs[leaves + i]->type()->annotation_str();
      output.state = llvm::find_if(stage.plan.attributes,
                                   [&](const StageAttribute &a) { return a.name == name; }) -
                     stage.plan.attributes.begin();
      stage.plan.outputs.push_back(output);
      stage.graph->registerOutput(map.at(outputs[leaves + i]));
    }
  }

  /// Module names, random ordinals and effects, in program order.
  void describe(Node *node, StagePlan &plan) {
    std::string path = modulePathOf(node);
    // Sizes and lists of ints may stand far from the module that they were written in.
    bool makesTensor = llvm::any_of(node->outputs(), [](Value *value) {
      return value->type()->kind() == c10::TypeKind::TensorType;
    });
    if (!path.empty() && makesTensor) {
      if (plan.firstModule.empty())
        plan.firstModule = path;
      plan.lastModule = path;
    }
    noteEffects(node, plan.effects);
  }

  void noteEffects(Node *node, StageEffects &effects) {
    if (drawsOf(node) != Draws::Never)
      effects.randomOps.push_back(randomOrdinal_++);
    effects.prints |= node->kind() == c10::prim::Print;
    effects.raises |= node->kind() == c10::prim::RaiseException;
    for (Block *block : node->blocks())
      for (Node *inner : block->nodes())
        noteEffects(inner, effects);
  }

  void countUses(StagedModel &staged) {
    for (size_t i = 0; i < staged.stages.size(); ++i)
      for (StageAttribute &attribute : staged.stages[i].plan.attributes) {
        size_t at = staged.stages[i].plan.inputs.size() +
                    (&attribute - staged.stages[i].plan.attributes.data());
        attribute.uses = usesOf(attribute, *staged.stages[i].graph->inputs()[at]);
      }
  }

  /// One argument per use of a trainable weight (each use gets its own gradient); one for
  /// everything else that is used.
  static size_t usesOf(const StageAttribute &attribute, Value &value) {
    if (attribute.kind == AttributeKind::Parameter && attribute.requiresGrad)
      return value.uses().size();
    return value.uses().empty() ? 0 : 1;
  }

  struct Place {
    size_t stage;
    size_t order;
  };
  Model *model_ = nullptr;
  std::vector<Draft> drafts_;
  std::map<Value *, Place> definedIn_;
  std::map<Value *, size_t> inputIndex_, channelOf_;
  // Keyed by pointer and walked only to fill maps ordered by definition.
  std::map<Value *, std::vector<size_t>> consumers_;
  std::vector<size_t> leafStage_, stateStage_;
  std::vector<Channel> channels_;
  size_t order_ = 0;
  int64_t randomOrdinal_ = 0;
};

} // namespace

StageAttribute stageAttribute(const Attribute &attribute) {
  StageAttribute entry;
  entry.name = attribute.name;
  entry.otherNames = attribute.otherNames;
  entry.kind = attribute.kind;
  entry.requiresGrad = attribute.requiresGrad;
  entry.written = attribute.written;
  entry.bytes = attribute.value.isTensor() ? byteCount(attribute.value.toTensor()) : 0;
  return entry;
}

size_t insertAttribute(Stage &stage, const StageAttribute &entry) {
  std::vector<StageAttribute> &entries = stage.plan.attributes;
  auto place = llvm::find_if(
      entries, [](const StageAttribute &a) { return a.kind == AttributeKind::Constant; });
  size_t index = place - entries.begin();
  entries.insert(place, entry);
  stage.graph->insertInput(stage.plan.inputs.size() + index)->setType(c10::TensorType::get());
  return index;
}

PassInfo insertTransfers() {
  return {.name = "insert-transfers",
          .description = "cuts the model into stages and makes one channel per value that is used "
                         "in a later stage",
          .requires_ = "boundaries are legal",
          .guarantees = "no value is used outside its stage; a channel has one producer and goes "
                        "straight to each consumer",
          .example = R"(
    %h : Tensor = aten::relu(%x)
    pipec::cut()
    %y : Tensor = aten::neg(%h)
    =>
    channel c0 0:0 -> 1:0 : Tensor)",
          .options = "",
          .make = withoutOptions<InsertTransfers>()};
}

} // namespace pipec
