// What the replicas of a stage tell each other at REDUCE, and the counts of all micro-batches.
#include "ir/TorchError.h"
#include "ir/schedule/PlanGradients.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/RankTraining.h"
#include "runtime/training/GradientMessage.h"
#include "runtime/training/LossCount.h"

#include <c10/core/GradMode.h>

namespace pipec {

namespace {

/// The attributes of a stage whose gradients the stage keeps: it owns the weight, or has a copy.
std::vector<size_t> keptAttributes(const Plan &plan, size_t stage) {
  std::vector<size_t> kept;
  for (const TrainedParameter &parameter : plan.training->parameters)
    for (const PortRef &use : parameter.uses)
      if (use.stage == stage && !plan.stages[stage].attributes[use.port].channel)
        kept.push_back(use.port);
  return kept;
}

/// Whether the gradients of other stages are added to a weight of this one.
bool ownsSentWeight(const Plan &plan, size_t stage) {
  return llvm::any_of(plan.channels, [&](const Channel &channel) {
    return channel.kind == Channel::Kind::Weight && channel.from.stage == stage &&
           carriesGradient(plan, channel);
  });
}

/// A part of the message: leaf, micro-batch, value.
c10::IValue leafPart(size_t leaf, int64_t microBatch, const c10::IValue &value) {
  return tupleOf({static_cast<int64_t>(leaf), microBatch,
                  value.isTensor() ? c10::IValue(value.toTensor().detach()) : value});
}

} // namespace

void RankTraining::noteLeaves(size_t stage, const std::vector<std::vector<c10::IValue>> &leaves) {
  std::vector<size_t> wanted = {plan_.training->loss};
  if (plan_.training->count)
    wanted.push_back(*plan_.training->count);
  for (size_t leaf : wanted)
    for (const MicroBatchRange &range : mine_)
      for (int64_t k = range.first; makesLeaf(stage, leaf) && k < range.first + range.number; ++k)
        known_[leaf].emplace(k, leaves[k][leaf]);
}

llvm::Error RankTraining::reduce(const Step &step,
                                 const std::vector<std::vector<c10::IValue>> &leaves) {
  const c10::AutoGradMode noGrad(false);
  StageTraining &stage = *stages_[step.stage];
  const std::vector<size_t> kept = keptAttributes(plan_, step.stage);
  const std::unique_ptr<Device::Scope> stream = device().enter(main().stream());
  std::vector<c10::IValue> gradients, ofLeaves;
  TRY(guardTorchVoid(ExitCode::Other, "the gradients of replicas", [&] {
    if (ownsSentWeight(plan_, step.stage))
      sumTransmitted();
    for (size_t attribute : kept) {
      ReadyValue gradient{orNone(stage.gradient(attribute)), stage.ready()};
      stage.executor().receive(gradient);
      gradients.push_back(std::move(gradient.value));
    }
    noteLeaves(step.stage, leaves);
    device().waitFor(stage.ready());
    for (const auto &[leaf, known] : known_)
      for (const auto &[microBatch, value] : known)
        if (makesLeaf(step.stage, leaf))
          ofLeaves.push_back(leafPart(leaf, microBatch, device().bring(value, device())));
  }));
  const std::vector<c10::IValue> all = TRY(collectives_.gather(
      step.group, rank_, tupleOf({tupleOf(std::move(gradients)), tupleOf(std::move(ofLeaves))})));
  return guardTorchVoid(ExitCode::Other, "the gradients of replicas", [&] {
    const Fence ready = device().mark();
    for (size_t k = 0; k < kept.size(); ++k) {
      std::vector<ReadyTensor> parts; // in the order of replicas
      for (const c10::IValue &message : all)
        if (const c10::IValue &part = message.toTupleRef().elements()[0].toTupleRef().elements()[k];
            part.isTensor())
          parts.push_back({part.toTensor(), ready});
      stage.replace(kept[k], parts);
    }
    for (const c10::IValue &message : all)
      for (const c10::IValue &part : message.toTupleRef().elements()[1].toTupleRef().elements()) {
        const auto &fields = part.toTupleRef().elements();
        known_[static_cast<size_t>(fields[0].toInt())].emplace(fields[1].toInt(), fields[2]);
      }
  });
}

/// Of a loss that is a pair: the counts of all micro-batches, added in their order.
llvm::Expected<double> RankTraining::totalCount(const Step &step) {
  std::vector<c10::IValue> mine;
  for (const auto &[microBatch, value] : known_[*plan_.training->count]) {
    double count = TRY(lossCount(value, static_cast<size_t>(microBatch)));
    mine.push_back(count);
  }
  std::vector<c10::IValue> all =
      TRY(collectives_.gather(step.group, rank_, tupleOf(std::move(mine))));
  double total = 0;
  for (const c10::IValue &message : all)
    for (const c10::IValue &count : message.toTupleRef().elements())
      total += count.toDouble();
  return total;
}

} // namespace pipec
