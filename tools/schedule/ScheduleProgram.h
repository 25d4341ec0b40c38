// A compute schedule as a program: with the bytes of transfers between ranks, their links, and the
// optimizer.
#pragma once

#include "ir/costs/Cluster.h"
#include "ir/schedule/Simulate.h"
#include "ir/schedule/TableCheck.h"

#include <optional>

namespace pipec {

/// Data that a table does not have. Lists are empty or have an entry per stage.
struct TransferCosts {
  std::vector<int64_t> valueBytes; // of a stage's output for the next stage, and of its gradient
  std::vector<int64_t> optimizeNs;
  int64_t bytesPerSecond = 0; // between two ranks; 0: no time
  std::optional<Cluster> cluster;

  bool any() const { return !valueBytes.empty() || !optimizeNs.empty() || cluster; }
};

struct ScheduleProgram {
  Plan plan; // stages in a chain, and the skips of the costs
  RunShape shape;
  Program program;
};

/// The actions of a program: its ops that run a stage, rank by rank.
Schedule actionsOf(const Program &program);

/// Lowered like the plan of a model, or `written` for the same plan; checked. Errors: BadArtifact
/// if no lanes allow it to run, or naming the first wrong op of `written`; Usage for a table that
/// recomputes a stage for some micro-batches only.
llvm::Expected<ScheduleProgram> asProgram(const Schedule &schedule, const TableShape &table,
                                          const ScheduleCosts &costs,
                                          const TransferCosts &transfers,
                                          const std::optional<Program> &written);

/// The simulator's costs for stages in a chain; `plan` may also be a sketch of one.
ProgramCosts programCosts(const Plan &plan, const ScheduleCosts &costs,
                          const TransferCosts &transfers);

/// Its simulated run; intervals are those of the schedule's actions. Errors: those of simulate().
llvm::Expected<std::pair<Timing, int64_t /*lower bound*/>>
timeProgram(const Schedule &schedule, const ScheduleProgram &of, const ScheduleCosts &costs,
            const TransferCosts &transfers);

} // namespace pipec
