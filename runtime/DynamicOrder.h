// The order of a rank's steps when it is not fixed: what is ready runs.
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "runtime/RankProgram.h"

#include <optional>
#include <vector>

namespace pipec {

/// Chooses the next step of a rank from those whose values are there. The program has a lane per
/// message: see separateLanes(). Of several, this comes first:
///
///   transfers         values go on and arrive as early as they can
///   R, B, I           the earliest micro-batch first; an R waits for the gradients of its B
///   F                 the last stage first; each stage in the order of micro-batches
///   W                 if nothing else is ready
///   collectives, OPT  in the program's order, after all others
///
/// A forward also waits while its stage has `inFlight` micro-batches: in a training those between F
/// and the end of their backward, in an inference those with a value that another rank has not
/// taken. The bits of a run do not depend on the order: each value has one maker, gradients of one
/// value are added in the program's order, those of weights in the order of micro-batches.
///
/// One thread at a time.
class DynamicOrder {
public:
  /// The order of steps that are ready at once.
  enum class Turn { Transfers, Backwards, Forwards, WeightGradients, Collectives };

  /// `program` must outlive it. inFlight: at least 1.
  DynamicOrder(const RankProgram &program, int64_t inFlight);

  /// Starts again.
  void begin();
  bool isFinished() const { return left_ == 0; }
  /// The next step, which then counts as begun. Nothing: all that is left waits for other ranks.
  /// holds: whether a lane has a message that was not taken.
  std::optional<size_t> next(llvm::function_ref<bool(size_t lane)> holds);
  /// After a step that next() gave.
  void done(size_t step);

private:
  struct Rank { // of a ready step: the least comes first
    Turn turn;
    int64_t first, second;
    size_t step;
    auto operator<=>(const Rank &) const = default;
  };
  void require(size_t later, size_t earlier);
  void orderSlots();
  void orderStages();
  void orderTail();
  Rank rankOf(size_t step) const;
  void makeReady(size_t step);
  bool mayStart(size_t step, llvm::function_ref<bool(size_t lane)> holds);

  const RankProgram &program_;
  size_t inFlight_;
  std::vector<std::vector<size_t>> after_;  // by step: the steps that wait for it
  std::vector<std::vector<size_t>> before_; // by step: the steps that it waits for
  std::vector<bool> isTraining_;            // by stage of the model
  std::vector<bool> isLast_;                // by step: it ends the backward of its micro-batch

  std::vector<size_t> missing_; // by step: how many of before_ are not done
  std::vector<Rank> ready_;     // descending: the next one is at the end
  size_t left_ = 0;
  std::vector<std::vector<size_t>> untaken_; // by stage: lanes with values for other ranks
  std::vector<size_t> open_;                 // by stage: micro-batches in flight, of a training
};

} // namespace pipec
