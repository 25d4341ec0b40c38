#include "runtime/RankProgram.h"

#include "ir/schedule/PlanGradients.h"
#include "ir/schedule/Program.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"

#include <algorithm>
#include <set>

namespace pipec {

namespace {

constexpr size_t kNone = kNoSlot;

/// Walks a rank's ops twice: forwards to assign slots, backwards to find the last reader of each.
class Resolver {
public:
  Resolver(const Program &program, size_t rank, const Plan &plan, int64_t microBatches)
      : ops_(program.ranks.at(rank)), lanes_(program.lanes), plan_(plan),
        slotOf_(plan.channels.size() * microBatches, kNone),
        readerOf_(plan.channels.size() * microBatches, kNone),
        gradientOf_(plan.channels.size() * microBatches, kNone),
        wanted_(plan.channels.size() * microBatches, false), microBatches_(microBatches) {}

  llvm::Expected<RankProgram> run() {
    for (const Op &op : ops_)
      if (op.kind == OpKind::Forward)
        result_.stages.push_back(op.stage);
    std::sort(result_.stages.begin(), result_.stages.end());
    result_.stages.erase(std::unique(result_.stages.begin(), result_.stages.end()),
                         result_.stages.end());
    for (const Op &op : ops_)
      noteReads(op);
    for (const Op &op : ops_)
      TRY(step(op));
    markLastReads();
    return std::move(result_);
  }

private:
  size_t key(size_t channel, int64_t microBatch) const {
    return channel * microBatches_ + microBatch;
  }

  /// A value that no later op of this rank reads gets no slot.
  void noteReads(const Op &op) {
    if (op.kind == OpKind::Recompute)
      recomputed_.insert({op.stage, op.microBatch});
    if (op.kind == OpKind::Send && op.payload == Payload::Activation)
      wanted_[key(op.channel, op.microBatch)] = true;
    if (op.kind != OpKind::Forward)
      return;
    for (const StageInput &input : plan_.stages[op.stage].inputs)
      if (input.kind == StageInput::Kind::Channel) {
        wanted_[key(input.index, op.microBatch)] = true;
        size_t &reader = readerOf_[key(input.index, op.microBatch)];
        reader = reader == kNone ? op.stage : reader;
      }
  }

  llvm::Error missing(const Op &op, size_t channel) {
    return failf(ExitCode::Internal,
                 "program: stage {} reads channel {} of micro-batch {} before it is there",
                 op.kind == OpKind::Forward ? op.stage : plan_.channels[channel].from.stage,
                 channel, op.microBatch);
  }

  llvm::Error step(const Op &op) {
    Step step;
    step.kind = op.kind;
    step.payload = op.payload;
    step.stage = op.stage;
    step.microBatch = op.microBatch;
    step.lane = op.lane;
    step.channel = op.channel;
    switch (op.kind) {
    case OpKind::Forward:
      TRY(forward(op, step));
      break;
    case OpKind::Backward:
    case OpKind::InputGrad:
      backward(op, step);
      break;
    case OpKind::WeightGrad:
    case OpKind::Recompute:
    case OpKind::Optimize:
      break;
    case OpKind::Post:
    case OpKind::Send:
    case OpKind::Take:
      TRY(transfer(op, step));
      break;
    case OpKind::TieReduce:
      step.tie = op.tie();
      step.group = op.group();
      break;
    case OpKind::Norm:
    case OpKind::Reduce:
      step.group = op.group();
      break;
    }
    result_.steps.push_back(std::move(step));
    return llvm::Error::success();
  }

  llvm::Error transfer(const Op &op, Step &step) {
    const bool isGradient = op.payload == Payload::Gradient;
    step.message = isGradient ? op.channel * plan_.stages.size() + op.stage : op.channel;
    if (op.kind == OpKind::Post)
      return llvm::Error::success();
    step.from = lanes_.at(op.lane).from;
    const Channel &channel = plan_.channels[op.channel];
    if (op.payload == Payload::Weight || op.payload == Payload::WeightGradient) {
      const bool atOwner = (op.kind == OpKind::Send) == (op.payload == Payload::Weight);
      step.stage = atOwner ? channel.from.stage : lastReaderBefore(plan_.stages.size(), channel);
      return llvm::Error::success();
    }
    if (isGradient) {
      step.slot = gradientSlot(op.channel, op.microBatch);
      // It goes from the last reader to the first, and to the maker.
      step.stage = op.kind == OpKind::Send ? op.stage : lastReaderBefore(op.stage, channel);
      return llvm::Error::success();
    }
    if (op.kind == OpKind::Send) {
      step.stage = plan_.channels[op.channel].from.stage;
      step.slot = slotOf_[key(op.channel, op.microBatch)];
      return step.slot == kNone ? missing(op, op.channel) : llvm::Error::success();
    }
    step.stage = firstReader(op);
    step.slot = newSlot(op.channel, op.microBatch);
    return llvm::Error::success();
  }

  llvm::Error forward(const Op &op, Step &step) {
    const StagePlan &stage = plan_.stages[op.stage];
    step.recompute = recomputed_.count({op.stage, op.microBatch}) > 0;
    for (const StageInput &input : stage.inputs) {
      bool user = input.kind == StageInput::Kind::UserInput;
      size_t index = user ? input.index : slotOf_[key(input.index, op.microBatch)];
      if (index == kNone)
        return missing(op, input.index);
      step.inputs.push_back({user, index, false});
    }
    for (const StageOutput &output : stage.outputs) {
      OutputTarget target{output.leaves, {}, false};
      target.noGradient = !output.channels.empty();
      for (size_t channel : output.channels)
        target.noGradient &= !carriesGradient(plan_, plan_.channels[channel]);
      for (size_t channel : output.channels)
        if (wanted_[key(channel, op.microBatch)])
          target.slots.push_back(newSlot(channel, op.microBatch));
      step.outputs.push_back(std::move(target));
    }
    return llvm::Error::success();
  }

  void backward(const Op &op, Step &step) {
    const StagePlan &stage = plan_.stages[op.stage];
    std::set<size_t> seen; // a value that comes through two ports has its gradient at the first
    for (const StageInput &input : stage.inputs) {
      const bool wanted = input.kind == StageInput::Kind::Channel &&
                          carriesGradient(plan_, plan_.channels[input.index]) &&
                          seen.insert(input.index).second;
      step.inputs.push_back(
          {!wanted, wanted ? gradientSlot(input.index, op.microBatch) : kNone, false});
    }
    for (const StageOutput &output : stage.outputs) {
      OutputTarget target{output.leaves, {}, false};
      // A value that has several channels: that of the channel made last comes first.
      for (auto channel = output.channels.rbegin(); channel != output.channels.rend(); ++channel)
        if (carriesGradient(plan_, plan_.channels[*channel]))
          target.slots.push_back(gradientSlot(*channel, op.microBatch));
      step.outputs.push_back(std::move(target));
    }
  }

  /// A gradient goes from reader to reader, so one slot holds it wherever it is on this rank.
  size_t gradientSlot(size_t channel, int64_t microBatch) {
    size_t &slot = gradientOf_[key(channel, microBatch)];
    if (slot == kNone)
      slot = result_.slots++;
    return slot;
  }

  bool isOnRank(size_t stage) const {
    return std::binary_search(result_.stages.begin(), result_.stages.end(), stage);
  }
  /// Of the stages on this rank that read the channel, the last one before `stage`; if there is
  /// none, the stage that made it.
  size_t lastReaderBefore(size_t stage, const Channel &channel) const {
    std::optional<size_t> last;
    for (const PortRef &to : channel.to)
      if (to.stage < stage && isOnRank(to.stage) && (!last || to.stage > *last))
        last = to.stage;
    return last.value_or(channel.from.stage);
  }

  size_t newSlot(size_t channel, int64_t microBatch) {
    return slotOf_[key(channel, microBatch)] = result_.slots++;
  }

  /// The first stage of this rank that reads the value of `take`: the value arrives in its stream.
  size_t firstReader(const Op &take) const {
    const size_t reader = readerOf_[key(take.channel, take.microBatch)];
    return reader == kNone ? plan_.channels[take.channel].to.front().stage : reader;
  }

  void markLastReads() {
    std::vector<bool> readLater(result_.slots, false);
    for (size_t i = result_.steps.size(); i-- > 0;) {
      Step &step = result_.steps[i];
      if (step.kind == OpKind::Send && step.payload == Payload::Activation) {
        step.last = !readLater[step.slot];
        readLater[step.slot] = true;
      }
      for (size_t k = step.kind == OpKind::Forward ? step.inputs.size() : 0; k-- > 0;) {
        InputSource &input = step.inputs[k];
        if (input.userInput)
          continue;
        input.last = !readLater[input.index];
        readLater[input.index] = true;
      }
    }
  }

  const std::vector<Op> &ops_;
  const std::vector<Lane> &lanes_;
  const Plan &plan_;
  RankProgram result_;
  std::vector<size_t> slotOf_;
  std::vector<size_t> readerOf_;   // the first stage of this rank that reads the value
  std::vector<size_t> gradientOf_; // slots
  std::set<std::pair<size_t, int64_t>> recomputed_; // stage and micro-batch
  std::vector<bool> wanted_;
  int64_t microBatches_;
};

} // namespace

llvm::Expected<RankProgram> resolve(const Program &program, size_t rank, const Plan &plan,
                                    int64_t microBatches) {
  return Resolver(program, rank, plan, microBatches).run();
}

} // namespace pipec
