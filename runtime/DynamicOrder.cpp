#include "runtime/DynamicOrder.h"

#include "ir/support/Check.h"
#include "llvm/ADT/SmallSet.h"

#include <algorithm>
#include <functional>
#include <map>

namespace pipec {

namespace {

using Turn = DynamicOrder::Turn;

Turn turnOf(const Step &step) {
  switch (step.kind) {
  case OpKind::Post:
  case OpKind::Send:
  case OpKind::Take:
    return Turn::Transfers;
  case OpKind::Recompute:
  case OpKind::Backward:
  case OpKind::InputGrad:
    return Turn::Backwards;
  case OpKind::Forward:
    return Turn::Forwards;
  case OpKind::WeightGrad:
    return Turn::WeightGradients;
  case OpKind::Reduce:
  case OpKind::TieReduce:
  case OpKind::Norm:
  case OpKind::Optimize:
    break;
  }
  return Turn::Collectives;
}

bool isOfMicroBatch(const Step &step) {
  return step.payload == Payload::Activation || step.payload == Payload::Gradient;
}

/// The slots that a step reads or writes.
std::vector<size_t> slotsOf(const Step &step) {
  std::vector<size_t> slots;
  if (step.kind == OpKind::Send || step.kind == OpKind::Take) {
    if (isOfMicroBatch(step))
      slots.push_back(step.slot);
    return slots;
  }
  for (const InputSource &input : step.inputs)
    if (!input.userInput && input.index != kNoSlot)
      slots.push_back(input.index);
  for (const OutputTarget &output : step.outputs)
    slots.insert(slots.end(), output.slots.begin(), output.slots.end());
  return slots;
}

} // namespace

DynamicOrder::DynamicOrder(const RankProgram &program, int64_t inFlight)
    : program_(program), inFlight_(static_cast<size_t>(inFlight)), after_(program.steps.size()),
      before_(program.steps.size()), isLast_(program.steps.size(), false) {
  PIPEC_ASSERT(inFlight >= 1, "a stage must be able to start");
  const size_t stages = program.stages.empty() ? 0 : program.stages.back() + 1;
  isTraining_.assign(stages, false);
  untaken_.resize(stages);
  open_.resize(stages);
  orderSlots();
  orderStages();
  orderTail();
}

void DynamicOrder::require(size_t later, size_t earlier) {
  after_[earlier].push_back(later);
  before_[later].push_back(earlier);
}

/// Steps that use one slot keep the program's order.
void DynamicOrder::orderSlots() {
  std::vector<size_t> user(program_.slots, kNoSlot);
  for (size_t i = 0; i < program_.steps.size(); ++i)
    for (size_t slot : slotsOf(program_.steps[i])) {
      if (user[slot] != kNoSlot && user[slot] != i)
        require(i, user[slot]);
      user[slot] = i;
    }
}

/// The steps of one micro-batch in one stage keep their order. An R waits for what its B waits for.
/// The forwards of a stage run in the order of micro-batches, whatever the program's: a forward may
/// change state, and if two stages began with different micro-batches, each could reach its limit
/// and wait for the other.
void DynamicOrder::orderStages() {
  std::map<std::pair<size_t, int64_t>, size_t> before, forwards; // by stage and micro-batch
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step &step = program_.steps[i];
    if (!isCompute(step.kind))
      continue;
    if (step.kind == OpKind::Forward)
      forwards[{step.stage, step.microBatch}] = i;
    else
      isTraining_[step.stage] = true;
    const auto [previous, isFirst] = before.insert({{step.stage, step.microBatch}, i});
    if (isFirst)
      continue;
    if (program_.steps[previous->second].kind == OpKind::Recompute)
      for (size_t earlier : std::vector<size_t>(before_[i]))
        require(previous->second, earlier);
    require(i, previous->second);
    previous->second = i;
  }
  for (const auto &[key, step] : before)
    isLast_[step] = true;
  for (auto next = forwards.begin(); next != forwards.end();) {
    const auto previous = next++;
    if (next != forwards.end() && next->first.first == previous->first.first)
      require(next->second, previous->second);
  }
}

/// Weights arrive before the first forward. Their gradients leave after all backwards, and then
/// comes what concerns all ranks: every rank gets there, because nothing before it waits for it.
void DynamicOrder::orderTail() {
  std::vector<size_t> computes, weights, gradients, tail;
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step &step = program_.steps[i];
    if (isCompute(step.kind))
      computes.push_back(i);
    else if (step.kind == OpKind::Take && step.payload == Payload::Weight)
      weights.push_back(i);
    else if (step.kind == OpKind::Send && step.payload == Payload::WeightGradient)
      gradients.push_back(i);
    else if (turnOf(step) == Turn::Collectives)
      tail.push_back(i);
  }
  for (size_t compute : computes) {
    for (size_t weight : weights)
      require(compute, weight);
    for (size_t gradient : gradients)
      require(gradient, compute);
  }
  if (tail.empty())
    return;
  for (size_t i = 0; i < program_.steps.size(); ++i)
    if (turnOf(program_.steps[i]) != Turn::Collectives)
      require(tail.front(), i);
  for (size_t t = 1; t < tail.size(); ++t)
    require(tail[t], tail[t - 1]);
}

void DynamicOrder::begin() {
  missing_.clear();
  for (const std::vector<size_t> &earlier : before_)
    missing_.push_back(earlier.size());
  ready_.clear();
  left_ = program_.steps.size();
  for (std::vector<size_t> &lanes : untaken_)
    lanes.clear();
  open_.assign(open_.size(), 0);
  for (size_t i = 0; i < missing_.size(); ++i)
    if (missing_[i] == 0)
      ready_.push_back(rankOf(i));
  llvm::sort(ready_, std::greater<>());
}

void DynamicOrder::makeReady(size_t step) {
  const Rank rank = rankOf(step);
  ready_.insert(llvm::lower_bound(ready_, rank, std::greater<>()), rank);
}

DynamicOrder::Rank DynamicOrder::rankOf(size_t step) const {
  const Step &of = program_.steps[step];
  const Turn turn = turnOf(of);
  if (turn == Turn::Forwards)
    return {turn, -static_cast<int64_t>(of.stage), of.microBatch, step};
  return {turn, isCompute(of.kind) ? of.microBatch : 0, 0, step};
}

bool DynamicOrder::mayStart(size_t step, llvm::function_ref<bool(size_t lane)> holds) {
  const Step &of = program_.steps[step];
  if (of.kind == OpKind::Take)
    return holds(of.lane);
  if (of.kind != OpKind::Forward)
    return true;
  if (isTraining_[of.stage])
    return open_[of.stage] < inFlight_;
  std::vector<size_t> &untaken = untaken_[of.stage];
  llvm::erase_if(untaken, [&](size_t s) { return !holds(program_.steps[s].lane); });
  llvm::SmallSet<int64_t, 16> microBatches;
  for (size_t s : untaken)
    microBatches.insert(program_.steps[s].microBatch);
  return microBatches.size() < inFlight_;
}

std::optional<size_t> DynamicOrder::next(llvm::function_ref<bool(size_t lane)> holds) {
  for (size_t i = ready_.size(); i-- > 0;) {
    const size_t step = ready_[i].step;
    if (!mayStart(step, holds))
      continue;
    ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(i));
    if (program_.steps[step].kind == OpKind::Forward)
      ++open_[program_.steps[step].stage];
    return step;
  }
  return std::nullopt;
}

void DynamicOrder::done(size_t step) {
  const Step &of = program_.steps[step];
  --left_;
  if (isLast_[step] && of.kind != OpKind::Forward)
    --open_[of.stage];
  if (of.kind == OpKind::Send && of.payload == Payload::Activation)
    untaken_[of.stage].push_back(step);
  for (size_t later : after_[step])
    if (--missing_[later] == 0)
      makeReady(later);
}

} // namespace pipec
