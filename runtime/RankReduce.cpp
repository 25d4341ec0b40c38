#include "runtime/RankReduce.h"

#include "ir/schedule/PlanGradients.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/training/GradientMessage.h"
#include "runtime/training/LossCount.h"

namespace pipec {

void noteValue(MicroBatchValues &values, int64_t microBatch, const c10::IValue &value) {
  const auto at = llvm::lower_bound(
      values, microBatch, [](const auto &each, int64_t number) { return each.first < number; });
  if (at == values.end() || at->first != microBatch)
    values.emplace(at, microBatch, value);
}

bool hasLeaf(const StagePlan &stage, size_t leaf) {
  return llvm::any_of(stage.outputs, [&](const StageOutput &output) {
    return llvm::is_contained(output.leaves, leaf);
  });
}

size_t stageOfLeaf(const Plan &plan, size_t leaf) {
  return llvm::find_if(plan.stages, [&](const StagePlan &stage) { return hasLeaf(stage, leaf); }) -
         plan.stages.begin();
}

std::vector<size_t> keptAttributes(const Plan &plan, size_t stage) {
  std::vector<size_t> kept;
  for (const TrainedParameter &parameter : plan.training->parameters)
    for (const PortRef &use : parameter.uses)
      if (use.stage == stage && !plan.stages[stage].attributes[use.port].channel)
        kept.push_back(use.port);
  return kept;
}

bool ownsSentWeight(const Plan &plan, size_t stage) {
  return llvm::any_of(plan.channels, [&](const Channel &channel) {
    return channel.kind == Channel::Kind::Weight && channel.from.stage == stage &&
           carriesGradient(plan, channel);
  });
}

/// A part of the message: leaf, micro-batch, value.
static c10::IValue leafPart(size_t leaf, int64_t microBatch, const c10::IValue &value) {
  return tupleOf({static_cast<int64_t>(leaf), microBatch,
                  value.isTensor() ? c10::IValue(value.toTensor().detach()) : value});
}

void addReplica(StageTraining &stage, llvm::ArrayRef<size_t> attributes, const LeafValues &leaves,
                Device &device, std::vector<c10::IValue> &message) {
  std::vector<c10::IValue> gradients, ofLeaves;
  device.waitFor(stage.ready());
  for (size_t attribute : attributes)
    gradients.push_back(device.bring(orNone(stage.gradient(attribute)), device));
  for (const auto &[leaf, values] : leaves)
    for (const auto &[microBatch, value] : values)
      ofLeaves.push_back(leafPart(leaf, microBatch, device.bring(value, device)));
  message.push_back(tupleOf(std::move(gradients)));
  message.push_back(tupleOf(std::move(ofLeaves)));
}

void takeReplicas(const GatheredValues &messages, llvm::ArrayRef<size_t> attributes,
                  const Fence &ready, StageTraining &stage, LeafValues &known) {
  for (size_t k = 0; k < attributes.size(); ++k) {
    std::vector<ReadyTensor> parts; // in the order of replicas
    for (const std::vector<c10::IValue> &message : messages)
      if (const c10::IValue &part = message[0].toTupleRef().elements()[k]; part.isTensor())
        parts.push_back({part.toTensor(), ready});
    stage.replace(attributes[k], parts);
  }
  for (const std::vector<c10::IValue> &message : messages)
    for (const c10::IValue &part : message[1].toTupleRef().elements()) {
      const auto &fields = part.toTupleRef().elements();
      noteValue(known[static_cast<size_t>(fields[0].toInt())], fields[1].toInt(), fields[2]);
    }
}

llvm::Error addCounts(const MicroBatchValues &values, std::vector<c10::IValue> &message) {
  for (const auto &[microBatch, value] : values) {
    double count = TRY(lossCount(value, static_cast<size_t>(microBatch)));
    message.push_back(count);
  }
  return llvm::Error::success();
}

double sumOfCounts(const GatheredValues &messages) {
  double total = 0;
  for (const std::vector<c10::IValue> &message : messages)
    for (const c10::IValue &count : message)
      total += count.toDouble();
  return total;
}

} // namespace pipec
