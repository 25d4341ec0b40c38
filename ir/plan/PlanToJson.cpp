// Plan to plan.json. docs/artifact.md explains every key; PlanFromJson.cpp is the other direction.
#include "ir/plan/PlanToJson.h"

#include "ir/plan/Plan.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Json.h"

#include <algorithm>

namespace pipec {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

/// One JSON value per element.
template <typename T, typename F> Array listOf(const std::vector<T> &elements, F toValue) {
  Array array;
  for (const T &element : elements)
    array.push_back(toValue(element));
  return array;
}

Array strings(const std::vector<std::string> &texts) {
  return listOf(texts, [](const std::string &text) { return Value(text); });
}

Array indices(const std::vector<size_t> &numbers) {
  return listOf(numbers, [](size_t number) { return Value(static_cast<int64_t>(number)); });
}

Value number(size_t n) { return static_cast<int64_t>(n); }

template <typename T> Value orNull(const std::optional<T> &value) {
  return value ? Value(static_cast<int64_t>(*value)) : Value(nullptr);
}

/// A plain number where the size does not depend on the batch.
Value dimValue(const Dim &dim) {
  bool fixed = !dim.dynamic && dim.perBatch == 0;
  return fixed ? Value(dim.constant) : Value(toString(dim));
}

Value tensorValue(const TensorSpec &spec) {
  if (spec == TensorSpec())
    return nullptr;
  Object object{{"dtype", spec.dtype},
                {"shape", listOf(spec.shape, dimValue)},
                {"strides", listOf(spec.strides, dimValue)},
                {"requires_grad", spec.requiresGrad},
                {"bytes", spec.bytes}};
  if (!spec.known)
    object["known"] = false;
  return object;
}

Value mergeValue(const MergeRule &merge) {
  Object object{{"rule", toString(merge.kind)}};
  if (merge.kind == MergeRule::Kind::Concat || merge.kind == MergeRule::Kind::Join)
    object["dim"] = merge.dim;
  return object;
}

/// A leaf is its number; a container is an object with one key that names its kind.
Value treeValue(const OutputTree &tree) {
  if (tree.kind == OutputTree::Kind::Leaf)
    return number(tree.leaf);
  Array children;
  for (size_t i = 0; i < tree.children.size(); ++i) {
    Value child = treeValue(tree.children[i]);
    if (tree.kind == OutputTree::Kind::Dict)
      child = Object{{"key", tree.keys[i]}, {"value", std::move(child)}};
    children.push_back(std::move(child));
  }
  Object object;
  object[toString(tree.kind)] = std::move(children);
  if (!tree.typeName.empty())
    object["type_name"] = tree.typeName;
  if (tree.kind == OutputTree::Kind::Tuple && !tree.keys.empty())
    object["fields"] = strings(tree.keys);
  return object;
}

Value inputValue(const InputSpec &input) {
  Object object{{"name", input.name},
                {"type", input.type},
                {"batch_dim", orNull(input.batchDim)},
                {"written", input.written},
                {"tensor", tensorValue(input.tensor)}};
  if (input.defaultValue)
    object["default"] = *input.defaultValue;
  if (input.givenWhole)
    object["given_whole"] = true;
  if (!input.parts.empty())
    object["parts"] = listOf(input.parts, [](const PartDim &part) -> Value {
      return Object{{"path", part.path}, {"batch_dim", orNull(part.dim)}};
    });
  return object;
}

Value leafValue(const OutputLeaf &leaf) {
  return Object{
      {"type", leaf.type}, {"merge", mergeValue(leaf.merge)}, {"tensor", tensorValue(leaf.tensor)}};
}

Value signatureValue(const Signature &signature) {
  return Object{{"method", signature.method},
                {"inputs", listOf(signature.inputs, inputValue)},
                {"outputs", treeValue(signature.outputs)},
                {"leaves", listOf(signature.leaves, leafValue)},
                {"batch_symbolic", signature.batchSymbolic},
                {"batch_size", signature.batchSize}};
}

/// {"input": 0} or {"channel": 3} says where the value comes from.
Value stageInputValue(const StageInput &input) {
  Object object{{"name", input.name}, {"type", input.type}};
  object[toString(input.kind)] = number(input.index);
  return object;
}

Value stageOutputValue(const StageOutput &output) {
  return Object{{"name", output.name},
                {"type", output.type},
                {"channels", indices(output.channels)},
                {"leaves", indices(output.leaves)},
                {"state", orNull(output.state)}};
}

Value attributeValue(const StageAttribute &attribute) {
  return Object{{"name", attribute.name},
                {"other_names", strings(attribute.otherNames)},
                {"kind", toString(attribute.kind)},
                {"uses", number(attribute.uses)},
                {"requires_grad", attribute.requiresGrad},
                {"written", attribute.written},
                {"bytes", attribute.bytes},
                {"channel", orNull(attribute.channel)}};
}

Value effectsValue(const StageEffects &effects) {
  return Object{
      {"random_ops", listOf(effects.randomOps, [](int64_t ordinal) { return Value(ordinal); })},
      {"state_writes", strings(effects.stateWrites)},
      {"prints", effects.prints},
      {"raises", effects.raises}};
}

Value stageValue(const StagePlan &stage) {
  return Object{{"file", stage.file},
                {"first_module", stage.firstModule},
                {"last_module", stage.lastModule},
                {"nodes", stage.nodes},
                {"inputs", listOf(stage.inputs, stageInputValue)},
                {"outputs", listOf(stage.outputs, stageOutputValue)},
                {"attributes", listOf(stage.attributes, attributeValue)},
                {"weight_channels_out", indices(stage.weightChannelsOut)},
                {"effects", effectsValue(stage.effects)},
                {"parameter_bytes", stage.parameterBytes},
                {"cost_flops", stage.costFlops},
                {"rank", number(stage.rank)}};
}

Value portValue(const PortRef &port) {
  return Object{{"stage", number(port.stage)}, {"port", number(port.port)}};
}

Value channelValue(const Channel &channel) {
  return Object{{"name", channel.name},
                {"kind", toString(channel.kind)},
                {"from", portValue(channel.from)},
                {"to", listOf(channel.to, portValue)},
                {"type", channel.type},
                {"tensor", tensorValue(channel.tensor)},
                {"skip", channel.skip}};
}

Value tieValue(const Tie &tie) {
  return Object{{"names", strings(tie.names)},
                {"stages", indices(tie.stages)},
                {"mode", toString(tie.mode)},
                {"owner", number(tie.owner)}};
}

Value normalisationValue(const Normalisation &normalisation) {
  return Object{{"training", trainingFlagsText(normalisation.training)},
                {"keep_eval", strings(normalisation.keepEval)},
                {"forms", strings(normalisation.typeDecisions)}};
}

Value integers(const std::vector<int64_t> &values) {
  return listOf(values, [](int64_t value) { return Value(value); });
}

Value parameterValue(const TrainedParameter &parameter) {
  return Object{{"name", parameter.name},
                {"other_names", strings(parameter.otherNames)},
                {"dtype", parameter.dtype},
                {"shape", integers(parameter.shape)},
                {"strides", integers(parameter.strides)},
                {"uses", listOf(parameter.uses, portValue)}};
}

Value expectedValue(const ExpectedCosts &costs) {
  Object object{{"forward_ns", costs.forward},
                {"input_grad_ns", costs.inputGrad},
                {"weight_grad_ns", costs.weightGrad},
                {"kept_bytes", costs.kept},
                {"freed_by_input_grad_bytes", std::max<int64_t>(0, costs.freedByInputGrad)}};
  if (costs.freedByInputGrad < 0)
    object["pending_bytes"] = costs.kept - costs.freedByInputGrad;
  if (costs.optimizer > 0)
    object["optimizer_ns"] = costs.optimizer;
  return object;
}

Value trainingValue(const TrainingPlan &training) {
  Object object{{"loss", number(training.loss)},
                {"parameters", listOf(training.parameters, parameterValue)},
                {"why_whole", strings(training.whyWhole)},
                {"recompute", indices(training.recompute)}};
  if (training.recomputeExceptLast)
    object["recompute_except_last"] = true;
  if (!training.costs.empty())
    object["costs"] = listOf(training.costs, expectedValue);
  if (training.samples > 0)
    object["samples"] = training.samples;
  if (training.count)
    object["count"] = number(*training.count);
  return object;
}

} // namespace

std::string trainingFlagsText(std::optional<bool> training) {
  if (!training)
    return "saved";
  return *training ? "true" : "false";
}

std::string toJson(const Plan &plan) {
  std::vector<std::string> obligations;
  for (const Obligation &obligation : plan.obligations)
    obligations.push_back(toString(obligation));
  Object object{{"format_version", Object{{"major", plan.major}, {"minor", plan.minor}}},
                {"required_features", strings(plan.requiredFeatures)},
                {"tool_version", plan.toolVersion},
                {"torch_version", plan.torchVersion},
                {"source_digest", plan.sourceDigest},
                {"mode", toString(plan.mode)},
                {"chain", plan.chain},
                {"signature", signatureValue(plan.signature)},
                {"stages", listOf(plan.stages, stageValue)},
                {"channels", listOf(plan.channels, channelValue)},
                {"ties", listOf(plan.ties, tieValue)},
                {"schedule", plan.scheduleName},
                {"microbatches", plan.microBatches},
                {"ranks", number(plan.ranks)},
                {"obligations", strings(obligations)}};
  if (plan.minor >= 1)
    object["normalisation"] = normalisationValue(plan.normalisation);
  if (plan.training)
    object["training"] = trainingValue(*plan.training);
  return printJson(std::move(object));
}

} // namespace pipec
