#include "ir/schedule/FitCheck.h"

#include "ir/support/Error.h"
#include "ir/support/Try.h"

namespace pipec {
namespace {

template <typename... Args> llvm::Error misfit(fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::Usage, "schedule: {}", fmt::format(format, std::forward<Args>(args)...));
}

constexpr uint8_t bitOf(ActionKind kind) {
  return static_cast<uint8_t>(1U << static_cast<unsigned>(kind));
}
constexpr uint8_t kForwardBit = bitOf(ActionKind::Forward),
                  kWholeBit = bitOf(ActionKind::FullBackward),
                  kInputBit = bitOf(ActionKind::InputGrad),
                  kWeightBit = bitOf(ActionKind::WeightGrad);

/// Every action once, on the rank where the plan has its stage.
class FitCheck {
public:
  FitCheck(const Schedule &schedule, const Plan &plan, const RunShape &shape)
      : schedule_(schedule), plan_(plan), shape_(shape) {}

  llvm::Error run() {
    if (schedule_.ranks.size() != plan_.ranks)
      return misfit("expected {} ranks as the plan has, got {}", plan_.ranks,
                    schedule_.ranks.size());
    if (shape_.microBatches < 1 || shape_.microBatches > INT32_MAX || shape_.replicas < 1)
      return misfit("expected at least one micro-batch and one replica, got {} and {}",
                    shape_.microBatches, shape_.replicas);
    nextForward_.assign(plan_.stages.size(), 0);
    seen_.assign(plan_.stages.size() * static_cast<size_t>(shape_.microBatches), 0);
    for (size_t r = 0; r < schedule_.ranks.size(); ++r)
      for (const Action &action : schedule_.ranks[r])
        TRY(read(r, action));
    return complete();
  }

private:
  llvm::Error read(size_t rank, const Action &action) {
    if (action.kind != ActionKind::Forward) {
      if (!shape_.train)
        return misfit("rank {}: {}: only forward actions can be run in an inference", rank,
                      toString(action));
      if (!isCompute(action.kind))
        return llvm::Error::success();
    }
    auto here = [&] { return fmt::format("rank {}: {}", rank, toString(action)); };
    if (action.stage >= plan_.stages.size())
      return misfit("{}: the plan has {} stages", here(), plan_.stages.size());
    if (action.microBatch >= shape_.microBatches)
      return misfit("{}: there are {} micro-batches", here(), shape_.microBatches);
    if (plan_.stages[action.stage].rank != rank)
      return misfit("{}: the plan has stage {} on rank {}", here(), action.stage,
                    plan_.stages[action.stage].rank);
    if (action.kind == ActionKind::Recompute && !shape_.recomputes(action.stage, action.microBatch))
      return misfit("{}: stage {} is not recomputed", here(), action.stage);
    uint8_t &seen = seen_[cell(action.stage, action.microBatch)];
    if (seen & bitOf(action.kind))
      return misfit("{} appears twice", here());
    seen |= bitOf(action.kind);
    if (action.kind == ActionKind::Forward)
      TRY(readForward(action, here()));
    if ((seen & kWholeBit) && (seen & (kInputBit | kWeightBit)))
      return misfit("{}: the backward is whole (B) or in two pieces (I, W), got both", here());
    return llvm::Error::success();
  }

  /// Checks that a stage which writes state runs its forwards in the order of micro-batches.
  llvm::Error readForward(const Action &action, const std::string &here) {
    const std::vector<std::string> &state = plan_.stages[action.stage].effects.stateWrites;
    if (!state.empty() && action.microBatch != nextForward_[action.stage])
      return misfit("{}: stage {} writes state ({}), so its forwards come in the order of "
                    "micro-batches: expected micro-batch {}, got {}",
                    here, action.stage, state.front(), nextForward_[action.stage],
                    action.microBatch);
    ++nextForward_[action.stage];
    return llvm::Error::success();
  }

  llvm::Error complete() const {
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      for (int64_t m = 0; m < shape_.microBatches; ++m) {
        const uint8_t seen = seen_[cell(s, m)];
        auto missing = [&](ActionKind kind) {
          return misfit("{} is missing", toString(Action{kind, s, m}));
        };
        if (!(seen & kForwardBit))
          return missing(ActionKind::Forward);
        if (!shape_.train || (seen & kWholeBit))
          continue;
        if (!(seen & kInputBit))
          return missing(seen & kWeightBit ? ActionKind::InputGrad : ActionKind::FullBackward);
        if (!(seen & kWeightBit))
          return missing(ActionKind::WeightGrad);
      }
    return llvm::Error::success();
  }

  size_t cell(size_t stage, int64_t microBatch) const {
    return stage * static_cast<size_t>(shape_.microBatches) + static_cast<size_t>(microBatch);
  }

  const Schedule &schedule_;
  const Plan &plan_;
  const RunShape &shape_;
  std::vector<uint8_t> seen_;        // per stage and micro-batch: bits
  std::vector<int64_t> nextForward_; // per stage: the micro-batch
};

} // namespace

llvm::Error checkFit(const Schedule &schedule, const Plan &plan, const RunShape &shape) {
  return FitCheck(schedule, plan, shape).run();
}

} // namespace pipec
