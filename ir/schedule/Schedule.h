// Compute schedules as data: for every rank its ordered actions. The text form is the CSV that
// PyTorch reads and writes.
#pragma once

#include "ir/support/Failure.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec {

enum class ActionKind : uint8_t {
  Forward,
  FullBackward,
  InputGrad,
  WeightGrad,
  Recompute,
  // Kinds that PyTorch's lowered tables add. They take no time of their own. The stage of a receive
  // is the receiver's.
  SendForward,
  ReceiveForward,
  SendBackward,
  ReceiveBackward,
  Unshard,
  Reshard,
  ReduceGrad,
};
/// The most stages, micro-batches and ranks of a table, so that sums and products do not overflow.
constexpr int64_t kMostInTable = int64_t(1) << 20;

/// True for the actions that occupy a rank: forward, backward in one or two pieces, recompute.
bool isCompute(ActionKind kind);

/// One step of a compute schedule; prints as 2F0 (stage 2, forward, micro-batch 0).
struct Action {
  size_t stage = 0;
  int64_t microBatch = 0; // -1 for Unshard, Reshard, ReduceGrad, which have none
  ActionKind kind = ActionKind::Forward;
  bool withNext = false; // issued together with the next action: PyTorch's (4F5;3B1)OVERLAP_F_B

  Action(ActionKind kindOf = ActionKind::Forward, size_t of = 0, int64_t micro = 0,
         bool pair = false)
      : stage(of), microBatch(micro), kind(kindOf), withNext(pair) {}
  bool operator==(const Action &) const = default;
};
static_assert(sizeof(Action) <= 24, "a table of a thousand ranks has tens of millions of them");
/// The action alone; toCsv writes pairs.
std::string toString(const Action &action);
/// Errors: BadArtifact, also for a number that is not below kMostInTable.
llvm::Expected<Action> parseAction(llvm::StringRef text);

/// ranks[r]: the actions of rank r in order.
struct Schedule {
  std::vector<std::vector<Action>> ranks;
  /// Idle cells of a table that was read, kept for writing it again; they have no meaning.
  /// idle[r][i] is the number of idle cells before action i of rank r. A rank has one entry more
  /// than actions, for the cells at the end. Empty: no idle cells.
  std::vector<std::vector<uint32_t>> idle;
  bool operator==(const Schedule &) const = default;
};

/// One line per rank, cells separated by commas.
std::string toCsv(const Schedule &schedule);
/// Idle cells, Windows line ends and trailing empty lines are accepted. Errors: BadArtifact with
/// line and column of the first bad cell.
llvm::Expected<Schedule> scheduleFromCsv(llvm::StringRef text);

} // namespace pipec
