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

/// The gradient of a stage's attribute, or None, ready on the current stream.
c10::IValue partOf(StageTraining &stage, size_t attribute) {
  ReadyValue gradient{orNone(stage.gradient(attribute)), stage.ready()};
  stage.executor().receive(gradient);
  return std::move(gradient.value);
}

/// Adds the gradient of a stage's attribute to a message: two values, the number of the stage and
/// the gradient.
void addPart(StageTraining &stage, size_t number, size_t attribute,
             std::vector<c10::IValue> &message) {
  message.emplace_back(static_cast<int64_t>(number));
  message.push_back(partOf(stage, attribute));
}

/// A stage has one part: a later one of the same stage replaces it.
void setPart(std::vector<ReadyTensor> &parts, ReadyTensor part) {
  const auto at =
      llvm::find_if(parts, [&](const ReadyTensor &each) { return each.stage <= part.stage; });
  if (at != parts.end() && at->stage == part.stage)
    *at = std::move(part);
  else
    parts.insert(at, std::move(part));
}

void setParts(at::ArrayRef<c10::IValue> message, const Fence &ready,
              std::vector<ReadyTensor> &parts) {
  for (size_t i = 0; i + 1 < message.size(); i += 2)
    if (message[i + 1].isTensor())
      setPart(parts, {message[i + 1].toTensor(), ready, static_cast<size_t>(message[i].toInt())});
}

} // namespace

RankTraining::RankTraining(size_t rank, const Plan &plan,
                           const std::vector<std::unique_ptr<StageTraining>> &stages,
                           Collectives &collectives)
    : rank_(rank), planRank_(rank % plan.ranks), plan_(plan), stages_(stages),
      collectives_(collectives), arrived_(plan.channels.size()) {
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
  for (size_t c = 0; c < plan.channels.size(); ++c) {
    const Channel &channel = plan.channels[c];
    if (channel.kind != Channel::Kind::Weight || !isMine(channel.from.stage) ||
        !carriesGradient(plan, channel))
      continue;
    const PortRef owner{channel.from.stage, trainedPort(channel.from)};
    auto known = llvm::find_if(sentWeights_,
                               [&](const SentWeight &weight) { return weight.owner == owner; });
    if (known == sentWeights_.end())
      known = sentWeights_.insert(known, SentWeight{owner, {}});
    known->channels.push_back(c);
  }
  while (mainStage_ + 1 < plan.stages.size() && !isMine(mainStage_))
    ++mainStage_;
}

void RankTraining::begin() {
  for (Parts &parts : arrived_)
    parts.clear();
  mine_.clear();
  forgetLeaves();
  isSummed_ = false;
  numbers_.clear();
  total_ = isFinite_ = at::Tensor();
  isDecided_ = true;
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
      if (llvm::Error error = checkLoss(leaf, data.anyTrained))
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

void RankTraining::addWeightGradients(size_t channel, std::vector<c10::IValue> &message) const {
  for (const PortRef &to : plan_.channels[channel].to)
    if (isMine(to.stage))
      addPart(*stages_[to.stage], to.stage, trainedPort(to), message);
}

const PortRef *RankTraining::onlyReader(size_t channel, size_t rank) const {
  const PortRef *only = nullptr;
  for (const PortRef &to : plan_.channels[channel].to)
    if (plan_.stages[to.stage].rank == rank) {
      if (only)
        return nullptr;
      only = &to;
    }
  return only;
}

c10::IValue RankTraining::weightGradients(size_t channel) const {
  if (const PortRef *only = onlyReader(channel, planRank_))
    return partOf(*stages_[only->stage], trainedPort(*only));
  std::vector<c10::IValue> message;
  message.reserve(2 * plan_.channels[channel].to.size());
  addWeightGradients(channel, message);
  return tupleOf(std::move(message));
}

void RankTraining::takeWeightGradients(const Step &take, const c10::IValue &message,
                                       const Fence &ready) {
  std::vector<ReadyTensor> &parts = arrived_[take.channel];
  if (const PortRef *only = onlyReader(take.channel, take.from % plan_.ranks)) {
    if (message.isTensor())
      setPart(parts, {message.toTensor(), ready, only->stage});
    return;
  }
  setParts(message.toTupleRef().elements().asArrayRef(), ready, parts);
}

/// Of weights that have one owner: its own gradient, those of readers on this rank, and those that
/// arrived. Once in a step. The sums are ready on the current stream.
void RankTraining::sumTransmitted() {
  if (std::exchange(isSummed_, true))
    return;
  for (const SentWeight &weight : sentWeights_) {
    const auto summed = atScopeEnd([&] {
      parts_.clear();
      forgetMessages();
    });
    for (size_t c : weight.channels) {
      for (const ReadyTensor &part : arrived_[c])
        setPart(parts_, part);
      addWeightGradients(c, message_);
    }
    setParts(message_, device().mark(), parts_);
    const auto [stage, port] = weight.owner;
    if (stages_[stage]->gradient(port).defined())
      setPart(parts_, {stages_[stage]->gradient(port), {}, stage});
    stages_[stage]->replace(port, parts_);
    device().waitFor(stages_[stage]->ready());
  }
}

void RankTraining::forgetMessages() {
  message_.clear();
  for (std::vector<c10::IValue> &each : messages_)
    each.clear();
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
  const auto ended = atScopeEnd([&] { forgetMessages(); });
  TRY(guardTorchVoid(ExitCode::Other, "the gradients of replicas", [&] {
    if (ownsSentWeight(plan_, step.stage))
      sumTransmitted();
    noteLeaves(step.stage, leaves);
    LeafValues made;
    for (const auto &[leaf, values] : known_)
      if (makesLeaf(step.stage, leaf))
        made.emplace(leaf, values);
    addReplica(stage, kept, made, device(), message_);
  }));
  TRY(gather(step));
  return guardTorchVoid(ExitCode::Other, "the gradients of replicas",
                        [&] { takeReplicas(messages_, kept, device().mark(), stage, known_); });
}

llvm::Error RankTraining::reduceTie(const Step &step) {
  const Tie &tie = plan_.ties[step.tie];
  std::unique_ptr<Device::Scope> stream = device().enter(main().stream());
  for (const TrainedParameter &parameter : plan_.training->parameters) {
    if (parameter.uses.size() < 2 || !llvm::is_contained(tie.names, parameter.name))
      continue;
    const auto ended = atScopeEnd([&] {
      parts_.clear();
      forgetMessages();
    });
    for (const PortRef &use : parameter.uses)
      if (isMine(use.stage))
        addPart(*stages_[use.stage], use.stage, use.port, message_);
    TRY(gather(step));
    const Fence ready = device().mark();
    for (const std::vector<c10::IValue> &message : messages_)
      setParts(message, ready, parts_);
    for (const PortRef &use : parameter.uses)
      if (isMine(use.stage))
        stages_[use.stage]->replace(use.port, parts_);
  }
  return llvm::Error::success();
}

llvm::Error RankTraining::optimize(const Step &step, TrainingData &data) {
  TRY(end(data)); // the host has waited for the norm and the clipping
  if (skips_)
    return llvm::Error::success();
  updated_ = true;
  ++updates_;
  return stages_[step.stage]->optimize(data.rateFactor);
}

} // namespace pipec
