#include "runtime/RankTraining.h"

#include "ir/TorchError.h"
#include "ir/schedule/PlanGradients.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/training/GradientMessage.h"
#include "runtime/training/LossCount.h"
#include "runtime/training/RootScale.h"

#include <c10/core/GradMode.h>

#include <utility>

namespace pipec {

namespace {

/// The gradient of a stage's attribute as a part of a message, ready on the current stream.
c10::IValue partOf(StageTraining &stage, size_t number, size_t attribute) {
  ReadyValue gradient{orNone(stage.gradient(attribute)), stage.ready()};
  stage.executor().receive(gradient);
  return tupleOf({static_cast<int64_t>(number), std::move(gradient.value)});
}

} // namespace

RankTraining::RankTraining(size_t rank, const Plan &plan,
                           const std::vector<std::unique_ptr<StageTraining>> &stages,
                           Collectives &collectives)
    : rank_(rank), planRank_(rank % plan.ranks), plan_(plan), stages_(stages),
      collectives_(collectives) {
  for (const StagePlan &stage : plan.stages) {
    std::vector<size_t> &ports = trainedPort_.emplace_back(stage.attributes.size());
    for (size_t a = 0; a < ports.size(); ++a)
      ports[a] = a;
  }
  for (const TrainedParameter &parameter : plan.training->parameters)
    for (const PortRef &use : parameter.uses)
      for (size_t a = 0; a < trainedPort_[use.stage].size(); ++a)
        if (const std::string &name = plan.stages[use.stage].attributes[a].name;
            name == parameter.name || llvm::is_contained(parameter.otherNames, name))
          trainedPort_[use.stage][a] = use.port;
  while (mainStage_ + 1 < plan.stages.size() && !isMine(mainStage_))
    ++mainStage_;
}

void RankTraining::begin() {
  arrived_.clear();
  mine_.clear();
  forgetLeaves();
  isSummed_ = false;
  forgetNumbers();
  total_ = isFinite_ = at::Tensor();
  isDecided_ = true;
  normed_ = Fence();
  skips_ = updated_ = false;
  for (size_t s = 0; s < plan_.stages.size(); ++s)
    if (isMine(s))
      stages_[s]->begin();
}

void RankTraining::beginRun(llvm::ArrayRef<MicroBatchRange> runs) {
  mine_.assign(runs.begin(), runs.end());
  for (size_t s = 0; s < plan_.stages.size(); ++s)
    if (isMine(s))
      stages_[s]->foldFrom(mine_.back().first);
}

llvm::Error RankTraining::backward(const Step &step, int64_t microBatch,
                                   const std::vector<c10::IValue> &leaves, const TrainingData &data,
                                   std::vector<ReadyValue> &slots, std::pair<Fence, Fence> &busy) {
  StageTraining &stage = *stages_[step.stage];
  const auto ended = atScopeEnd([&] {
    ofOutputs_.clear();
    ofInputs_.clear();
  });
  ofOutputs_.resize(step.outputs.size());
  ofInputs_.resize(step.inputs.size());
  auto takeSlot = [&](size_t slot, ValueGradients &sum) {
    stage.executor().receive(slots[slot]);
    addMessage(slots[slot].value, sum);
    slots[slot] = ReadyValue();
  };
  TRY(stage.executor().onStream(microBatch, "adding gradients", [&]() -> llvm::Error {
    c10::AutoGradMode noGrad(false);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const OutputTarget &output = step.outputs[i];
      for (size_t slot : output.slots)
        takeSlot(slot, ofOutputs_[i]);
      if (!llvm::is_contained(output.leaves, plan_.training->loss))
        continue;
      const c10::IValue &leaf = leaves[plan_.training->loss];
      if (llvm::Error error = checkLoss(leaf))
        return error;
      addMessage(rootGradient(leaf.toTensor(), data.scales[microBatch], !device().hasStreams()),
                 ofOutputs_[i]);
    }
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.inputs[i].index != kNoSlot)
        takeSlot(step.inputs[i].index, ofInputs_[i]);
    return llvm::Error::success();
  }));
  ofInputs_ = TRY(stage.backward(microBatch, step.kind == OpKind::InputGrad, std::move(ofOutputs_),
                                 std::move(ofInputs_), busy));
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (step.inputs[i].index != kNoSlot)
      slots[step.inputs[i].index] = {asMessage(ofInputs_[i]), busy.second};
  return llvm::Error::success();
}

c10::IValue RankTraining::weight(size_t lane, size_t channel) {
  const PortRef &from = plan_.channels[channel].from;
  const StageAttribute &about = plan_.stages[from.stage].attributes[from.port];
  const c10::IValue &value = stages_[from.stage]->executor().module().attribute(from.port);
  return sent_.isNews(lane, channel, about, value, updates_) ? value : c10::IValue();
}

void RankTraining::takeWeight(size_t channel, const c10::IValue &value, const Fence &ready) {
  if (value.isNone())
    return;
  for (const PortRef &to : plan_.channels[channel].to)
    if (isMine(to.stage)) {
      StageExecutor &reader = stages_[to.stage]->executor();
      std::unique_ptr<Device::Scope> stream = device().enter(reader.stream());
      ReadyValue weight{value, ready};
      reader.receive(weight);
      reader.module().setAttribute(to.port, weight.value);
    }
}

c10::IValue RankTraining::weightGradients(size_t channel) const {
  std::vector<c10::IValue> parts;
  for (const PortRef &to : plan_.channels[channel].to)
    if (isMine(to.stage))
      parts.push_back(partOf(*stages_[to.stage], to.stage, trainedPort(to)));
  return tupleOf(std::move(parts));
}

void RankTraining::addParts(const c10::IValue &message, const Fence &ready, Parts &parts) const {
  for (const c10::IValue &part : message.toTupleRef().elements()) {
    const auto &elements = part.toTupleRef().elements();
    if (elements[1].isTensor())
      parts[static_cast<size_t>(elements[0].toInt())] = {elements[1].toTensor(), ready};
  }
}

void RankTraining::takeWeightGradients(size_t channel, const c10::IValue &message,
                                       const Fence &ready) {
  addParts(message, ready, arrived_[channel]);
}

/// Of weights that have one owner: its own gradient, those of readers on this rank, and those that
/// arrived. Once in a step.
void RankTraining::sumTransmitted() {
  if (std::exchange(isSummed_, true))
    return;
  // A stage that reads a weight by several names has a channel for each, with the same gradient.
  std::map<std::pair<size_t, size_t>, Parts> all; // by owner stage and attribute
  for (size_t c = 0; c < plan_.channels.size(); ++c) {
    const Channel &channel = plan_.channels[c];
    if (channel.kind != Channel::Kind::Weight || !isMine(channel.from.stage) ||
        !carriesGradient(plan_, channel))
      continue;
    Parts &parts = all[{channel.from.stage, trainedPort(channel.from)}];
    for (auto &[stage, part] : arrived_[c])
      parts[stage] = part;
    const c10::IValue ofOthers = weightGradients(c);
    addParts(ofOthers, device().mark(), parts);
  }
  for (auto &[owner, parts] : all) {
    const auto [stage, port] = owner;
    if (stages_[stage]->gradient(port).defined())
      parts[stage] = {stages_[stage]->gradient(port), {}};
    stages_[stage]->share(port, parts);
  }
}

void RankTraining::noteNumber(int64_t number, const at::Tensor &value) {
  if (spareNumbers_.empty() || numbers_.count(number)) {
    numbers_[number] = value;
    return;
  }
  StepNumbers::node_type node = spareNumbers_.extract(spareNumbers_.begin());
  node.key() = number;
  node.mapped() = value;
  numbers_.insert(std::move(node));
}

/// Most steps have the same numbers, so their nodes serve the next step.
void RankTraining::forgetNumbers() {
  for (auto &[number, value] : numbers_)
    value.reset();
  spareNumbers_.merge(numbers_);
  numbers_.clear();
}

void RankTraining::forgetLeaves() {
  for (auto &[leaf, values] : known_)
    values.clear();
}

void RankTraining::copyLosses(std::vector<std::vector<c10::IValue>> &leaves) const {
  const size_t loss = plan_.training->loss;
  for (size_t s = 0; s < plan_.stages.size(); ++s)
    if (makesLeaf(s, loss))
      for (const MicroBatchRange &range : mine_)
        for (int64_t k = range.first; k < range.first + range.number; ++k)
          leaves[k][loss] = leaves[k][loss].toTensor().detach().clone();
}

void RankTraining::noteLeaves(size_t stage, const std::vector<std::vector<c10::IValue>> &leaves) {
  auto note = [&](size_t leaf) {
    if (!makesLeaf(stage, leaf))
      return;
    for (const MicroBatchRange &range : mine_)
      for (int64_t k = range.first; k < range.first + range.number; ++k)
        noteValue(known_[leaf], k, leaves[k][leaf]);
  };
  note(plan_.training->loss);
  if (plan_.training->count)
    note(*plan_.training->count);
}

llvm::Error RankTraining::reduce(const Step &step,
                                 const std::vector<std::vector<c10::IValue>> &leaves) {
  const c10::AutoGradMode noGrad(false);
  StageTraining &stage = *stages_[step.stage];
  const std::vector<size_t> kept = keptAttributes(plan_, step.stage);
  const std::unique_ptr<Device::Scope> stream = device().enter(main().stream());
  c10::IValue mine;
  TRY(guardTorchVoid(ExitCode::Other, "the gradients of replicas", [&] {
    if (ownsSentWeight(plan_, step.stage))
      sumTransmitted();
    noteLeaves(step.stage, leaves);
    LeafValues made;
    for (const auto &[leaf, values] : known_)
      if (makesLeaf(step.stage, leaf))
        made.emplace(leaf, values);
    mine = replicaMessage(stage, kept, made, device());
  }));
  const std::vector<c10::IValue> all = TRY(collectives_.gather(step.group, rank_, std::move(mine)));
  return guardTorchVoid(ExitCode::Other, "the gradients of replicas",
                        [&] { takeReplicas(all, kept, device().mark(), stage, known_); });
}

llvm::Error RankTraining::reduceTie(const Step &step) {
  const Tie &tie = plan_.ties[step.tie];
  std::unique_ptr<Device::Scope> stream = device().enter(main().stream());
  for (const TrainedParameter &parameter : plan_.training->parameters) {
    if (parameter.uses.size() < 2 || !llvm::is_contained(tie.names, parameter.name))
      continue;
    std::vector<c10::IValue> mine;
    for (const PortRef &use : parameter.uses)
      if (isMine(use.stage))
        mine.push_back(partOf(*stages_[use.stage], use.stage, use.port));
    std::vector<c10::IValue> all =
        TRY(collectives_.gather(step.group, rank_, tupleOf(std::move(mine))));
    Parts parts;
    const Fence ready = device().mark();
    for (const c10::IValue &message : all)
      addParts(message, ready, parts);
    for (const PortRef &use : parameter.uses)
      if (isMine(use.stage))
        stages_[use.stage]->share(use.port, parts);
  }
  return llvm::Error::success();
}

llvm::Error RankTraining::optimize(const Step &step, TrainingData &data) {
  TRY(end(data));
  if (skips_)
    return llvm::Error::success();
  updated_ = true;
  ++updates_;
  return stages_[step.stage]->optimize(data.rateFactor, normed_);
}

} // namespace pipec
