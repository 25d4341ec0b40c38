// Compute schedules as data: for every rank its ordered actions. The text form is the CSV that
// PyTorch reads and writes.
#pragma once

#include "ir/plan/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec {

enum class ActionKind { Forward, FullBackward, InputGrad, WeightGrad, Recompute };

/// One step of a compute schedule; prints as 2F0 (stage 2, forward, micro-batch 0).
struct Action {
  ActionKind kind = ActionKind::Forward;
  size_t stage = 0;
  int64_t microBatch = 0;
  bool operator==(const Action &) const = default;
};
std::string toString(const Action &action);
llvm::Expected<Action> parseAction(llvm::StringRef text);

/// ranks[r]: the actions of rank r in order.
struct Schedule {
  std::vector<std::vector<Action>> ranks;
  bool operator==(const Schedule &) const = default;
};

/// One line per rank, cells separated by commas; idle cells are empty.
std::string toCsv(const Schedule &schedule);
/// Errors: BadArtifact with line and column of the first bad cell.
llvm::Expected<Schedule> scheduleFromCsv(llvm::StringRef text);

/// What a generator needs to know.
struct ScheduleShape {
  size_t stages = 1;
  int64_t microBatches = 1;
  std::vector<size_t> rankOfStage; // one per stage
  size_t ranks = 1;
};

/// Every stage runs every micro-batch forward, in order; a rank with several stages takes them
/// depth first (lowest micro-batch, then lowest stage).
Schedule forwardOnly(const ScheduleShape &shape);

} // namespace pipec
