// insert-transfers: turns the model into stages. Every value that is used in a later stage than its
// maker's becomes one channel.
#include "ir/NodeInfo.h"
#include "ir/plan/ModuleExtent.h"
#include "ir/support/Check.h"
#include "passes/Passes.h"
#include "passes/StageDrafts.h"
#include "passes/analysis/TopLevel.h"
#include "passes/support/LongStages.h"
#include "passes/support/StageInputs.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

class InsertTransfers : public SplitPass {
public:
  llvm::Expected<StagedModel> run(Model model, PassContext &context) override {
    model_ = &model;
    for (std::string &warning : longStageWarnings(model, context.costs, context.cutsByCost))
      context.warnings.push_back(std::move(warning));
    drafts_ = draftStages(model, context.costs);
    PIPEC_ASSERT(drafts_.leafStage.size() == model.signature.leaves.size(),
                 "every result has a stage");
    StagedModel staged;
    for (size_t stage = 0; stage < drafts_.stages.size(); ++stage)
      staged.stages.push_back(build(stage));
    countUses(staged);
    nameStages(staged);
    staged.channels = std::move(drafts_.channels);
    staged.attributes = std::move(model.attributes);
    staged.signature = std::move(model.signature);
    staged.obligations = std::move(model.obligations);
    staged.sourceDigest = model.sourceDigest;
    staged.mode = model.mode;
    return staged;
  }

private:
  Stage build(size_t index) {
    const StageDraft &draft = drafts_.stages[index];
    Stage stage;
    modules_.emplace_back();
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

  void addInputs(const StageDraft &draft, Stage &stage, std::map<Value *, Value *> &map) {
    for (size_t input : draft.userInputs) {
      Value *value = model_->graph->inputs()[input];
      const InputSpec &spec = model_->signature.inputs[input];
      stage.plan.inputs.push_back({spec.name, spec.type, StageInput::Kind::UserInput, input});
      map[value] = addInput(*stage.graph, value);
    }
    for (Value *value : draft.incoming) {
      PIPEC_ASSERT(drafts_.channelOf.count(value), "every incoming value has a channel");
      size_t channel = drafts_.channelOf[value];
      stage.plan.inputs.push_back({drafts_.channels[channel].name, drafts_.channels[channel].type,
                                   StageInput::Kind::Channel, channel});
      map[value] = addInput(*stage.graph, value);
    }
  }

  /// Constants come last: the plan leaves them out, and the indices of the others stay.
  void addAttributes(const StageDraft &draft, Stage &stage, std::map<Value *, Value *> &map) {
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

  void addOutputs(size_t index, const StageDraft &draft, Stage &stage,
                  std::map<Value *, Value *> &map) {
    auto outputs = model_->graph->outputs();
    size_t leaves = model_->signature.leaves.size();
    for (Value *value : draft.outputs) {
      StageOutput output;
      output.type = portType(value)->annotation_str();
      if (auto channel = drafts_.channelOf.find(value); channel != drafts_.channelOf.end())
        output.channels.push_back(channel->second);
      for (size_t i = 0; i < leaves; ++i)
        if (outputs[i] == value && drafts_.leafStage[i] == index)
          output.leaves.push_back(i);
      output.name = !output.channels.empty() ? drafts_.channels[output.channels[0]].name
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
      if (drafts_.stateStage[i] != index)
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
    noteModules(node, modules_.back());
    noteEffects(node, plan.effects);
  }

  /// Control flow of the method itself belongs to no module, but the operators inside may.
  static void noteModules(Node *node, std::vector<std::string> &modules) {
    const std::string path = modulePathOf(node);
    if (path.empty()) {
      for (Block *block : node->blocks())
        for (Node *inner : block->nodes())
          noteModules(inner, modules);
      return;
    }
    // Sizes and lists of ints may be far from the module in which they were written.
    const bool makesTensor = llvm::any_of(node->outputs(), [](Value *value) {
      return value->type()->kind() == c10::TypeKind::TensorType;
    });
    if (!makesTensor || node->kind() == c10::prim::Constant)
      return;
    if (modules.empty() || modules.back() != path)
      modules.push_back(path);
  }

  void nameStages(StagedModel &staged) const {
    const std::vector<ModuleExtent> extents = moduleExtents(modules_);
    for (size_t i = 0; i < staged.stages.size(); ++i) {
      staged.stages[i].plan.firstModule = extents[i].first;
      staged.stages[i].plan.lastModule = extents[i].last;
    }
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

  /// One argument per use of a trainable weight, so that who runs the stage can ask for the
  /// gradient of each use; one for every other used attribute.
  static size_t usesOf(const StageAttribute &attribute, Value &value) {
    if (attribute.kind == AttributeKind::Parameter && attribute.requiresGrad)
      return value.uses().size();
    return value.uses().empty() ? 0 : 1;
  }

  Model *model_ = nullptr;
  StageDrafts drafts_;
  std::vector<std::vector<std::string>> modules_; // of the operators, per stage
  int64_t randomOrdinal_ = 0;
};

} // namespace

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
          .make = withoutOptions<InsertTransfers>()};
}

} // namespace pipec
