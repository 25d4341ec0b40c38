#include "runtime/RankProgram.h"

#include "ir/schedule/ProgramText.h"

#include <algorithm>

namespace pipec {

namespace {

constexpr size_t kNone = ~size_t(0);

/// Walks a rank's ops twice: forwards to assign slots, backwards to find the last reader of each.
class Resolver {
public:
  Resolver(const std::vector<Op> &ops, const Plan &plan, int64_t microBatches)
      : ops_(ops), plan_(plan), slotOf_(plan.channels.size() * microBatches, kNone),
        readerOf_(plan.channels.size() * microBatches, kNone),
        wanted_(plan.channels.size() * microBatches, false), microBatches_(microBatches) {}

  llvm::Expected<RankProgram> run() {
    for (const Op &op : ops_)
      noteReads(op);
    for (const Op &op : ops_)
      if (llvm::Error error = step(op))
        return error;
    markLastReads();
    std::sort(result_.stages.begin(), result_.stages.end());
    result_.stages.erase(std::unique(result_.stages.begin(), result_.stages.end()),
                         result_.stages.end());
    return std::move(result_);
  }

private:
  size_t key(size_t channel, int64_t microBatch) const {
    return channel * microBatches_ + microBatch;
  }

  /// A value that no later op of this rank reads gets no slot.
  void noteReads(const Op &op) {
    if (op.kind == OpKind::Send)
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

  /// What this runtime can execute: forwards and the transfers of their values.
  static bool isOfInference(const Op &op) {
    const bool message =
        op.kind == OpKind::Post || op.kind == OpKind::Send || op.kind == OpKind::Take;
    return op.kind == OpKind::Forward || (message && op.payload == Payload::Activation);
  }

  llvm::Error step(const Op &op) {
    if (!isOfInference(op))
      return failf(ExitCode::Internal, "program: {}: this runtime runs inferences only",
                   toString(op));
    Step step;
    step.kind = op.kind;
    step.stage = op.stage;
    step.microBatch = op.microBatch;
    step.lane = op.lane;
    step.channel = op.channel;
    switch (op.kind) {
    case OpKind::Forward:
      if (llvm::Error error = forward(op, step))
        return error;
      break;
    case OpKind::Post:
      break;
    case OpKind::Send:
      step.stage = plan_.channels[op.channel].from.stage;
      step.slot = slotOf_[key(op.channel, op.microBatch)];
      if (step.slot == kNone)
        return missing(op, op.channel);
      break;
    case OpKind::Take:
      step.stage = firstReader(op);
      step.slot = newSlot(op.channel, op.microBatch);
      break;
    default:
      llvm_unreachable("isOfInference() let it through");
    }
    result_.steps.push_back(std::move(step));
    return llvm::Error::success();
  }

  llvm::Error forward(const Op &op, Step &step) {
    const StagePlan &stage = plan_.stages[op.stage];
    result_.stages.push_back(op.stage);
    for (const StageInput &input : stage.inputs) {
      bool user = input.kind == StageInput::Kind::UserInput;
      size_t index = user ? input.index : slotOf_[key(input.index, op.microBatch)];
      if (index == kNone)
        return missing(op, input.index);
      step.inputs.push_back({user, index, false});
    }
    for (const StageOutput &output : stage.outputs) {
      OutputTarget target{output.leaves, {}};
      for (size_t channel : output.channels)
        if (wanted_[key(channel, op.microBatch)])
          target.slots.push_back(newSlot(channel, op.microBatch));
      step.outputs.push_back(std::move(target));
    }
    return llvm::Error::success();
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
      if (step.kind == OpKind::Send) {
        step.last = !readLater[step.slot];
        readLater[step.slot] = true;
      }
      for (size_t k = step.inputs.size(); k-- > 0;) {
        InputSource &input = step.inputs[k];
        if (input.userInput)
          continue;
        input.last = !readLater[input.index];
        readLater[input.index] = true;
      }
    }
  }

  const std::vector<Op> &ops_;
  const Plan &plan_;
  RankProgram result_;
  std::vector<size_t> slotOf_;
  std::vector<size_t> readerOf_; // the first stage of this rank that reads the value
  std::vector<bool> wanted_;
  int64_t microBatches_;
};

} // namespace

llvm::Expected<RankProgram> resolve(const Program &program, size_t rank, const Plan &plan,
                                    int64_t microBatches) {
  return Resolver(program.ranks.at(rank), plan, microBatches).run();
}

} // namespace pipec
