#include "tools/report/Timeline.h"

#include "ir/support/Error.h"
#include "ir/support/Try.h"

#include <map>

namespace pipec {

/// The step in which each action starts; [rank][i] belongs to schedule.ranks[rank][i].
static llvm::Expected<std::vector<std::vector<size_t>>> startSteps(const Schedule &schedule,
                                                                   const Plan &plan) {
  for (const std::vector<Action> &actions : schedule.ranks)
    for (const Action &action : actions)
      if (action.kind != ActionKind::Forward || action.stage >= plan.stages.size())
        return failf(ExitCode::BadArtifact, "schedule: {}: expected a forward of one of {} stages",
                     toString(action), plan.stages.size());
  std::map<std::pair<size_t, int64_t>, size_t>
      done; // (stage, micro-batch) of a forward to the step after it
  std::vector<std::vector<size_t>> starts(schedule.ranks.size());
  // A forward can start when its rank is free and its inputs are there; sweep until nothing moves.
  auto tryNext = [&](size_t rank) {
    const Action &action = schedule.ranks[rank][starts[rank].size()];
    size_t start = starts[rank].empty() ? 0 : starts[rank].back() + 1;
    for (const StageInput &input : plan.stages[action.stage].inputs) {
      if (input.kind != StageInput::Kind::Channel)
        continue;
      auto producer = done.find({plan.channels[input.index].from.stage, action.microBatch});
      if (producer == done.end())
        return false;
      start = std::max(start, producer->second);
    }
    starts[rank].push_back(start);
    done[{action.stage, action.microBatch}] = start + 1;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < schedule.ranks.size(); ++r)
      while (starts[r].size() < schedule.ranks[r].size() && tryNext(r))
        moved = true;
  }
  for (size_t r = 0; r < schedule.ranks.size(); ++r)
    if (starts[r].size() < schedule.ranks[r].size())
      return failf(ExitCode::BadArtifact, "schedule: rank {}: {} can never start", r,
                   toString(schedule.ranks[r][starts[r].size()]));
  return starts;
}

llvm::Expected<std::string> drawTimeline(const Schedule &schedule, const Plan &plan, size_t width) {
  std::vector<std::vector<size_t>> starts = TRY(startSteps(schedule, plan));
  size_t steps = 0, cell = 1;
  std::vector<std::map<size_t, std::string>> rows(schedule.ranks.size());
  for (size_t r = 0; r < schedule.ranks.size(); ++r)
    for (size_t i = 0; i < schedule.ranks[r].size(); ++i) {
      std::string text = toString(schedule.ranks[r][i]);
      cell = std::max(cell, text.size());
      steps = std::max(steps, starts[r][i] + 1);
      rows[r][starts[r][i]] = std::move(text);
    }
  size_t label = fmt::format("rank {}", schedule.ranks.size() - 1).size();
  size_t perBlock = std::max<size_t>(1, (width - std::min(width, label + 2)) / (cell + 2));
  std::string text;
  for (size_t first = 0; first < steps; first += perBlock) {
    size_t last = std::min(steps, first + perBlock);
    if (steps > perBlock)
      text += fmt::format("{}steps {} to {}\n", first ? "\n" : "", first, last - 1);
    for (size_t r = 0; r < rows.size(); ++r) {
      std::string line = fmt::format("  {:<{}}", fmt::format("rank {}", r), label);
      for (size_t step = first; step < last; ++step) {
        auto found = rows[r].find(step);
        line += fmt::format("  {:>{}}", found == rows[r].end() ? "." : found->second, cell);
      }
      text += line + "\n";
    }
  }
  return text;
}

} // namespace pipec
