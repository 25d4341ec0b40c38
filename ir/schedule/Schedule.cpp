#include "ir/schedule/Schedule.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

namespace pipec {
namespace {

char letterOf(ActionKind kind) {
  switch (kind) {
  case ActionKind::Forward:
    return 'F';
  case ActionKind::FullBackward:
    return 'B';
  case ActionKind::InputGrad:
    return 'I';
  case ActionKind::WeightGrad:
    return 'W';
  case ActionKind::Recompute:
    return 'R';
  }
  llvm_unreachable("every kind has a letter");
}

/// Digits only, no leading zeros: one text for one number.
bool parseNumber(llvm::StringRef text, int64_t &number) {
  return !text.empty() && llvm::all_of(text, llvm::isDigit) &&
         (text.size() == 1 || text[0] != '0') && !text.getAsInteger(10, number);
}

} // namespace

std::string toString(const Action &action) {
  return fmt::format("{}{}{}", action.stage, letterOf(action.kind), action.microBatch);
}

llvm::Expected<Action> parseAction(llvm::StringRef text) {
  size_t at = text.find_first_not_of("0123456789");
  int64_t stage = 0, microBatch = 0;
  bool form = at != llvm::StringRef::npos && parseNumber(text.take_front(at), stage) &&
              parseNumber(text.drop_front(at + 1), microBatch);
  if (form)
    for (ActionKind kind : {ActionKind::Forward, ActionKind::FullBackward, ActionKind::InputGrad,
                            ActionKind::WeightGrad, ActionKind::Recompute})
      if (text[at] == letterOf(kind))
        return Action{kind, static_cast<size_t>(stage), microBatch};
  return failf(ExitCode::BadArtifact,
               "action \"{}\": expected stage, one of F B I W R, micro-batch, as in 2F0",
               text.take_front(40).str());
}

std::string toCsv(const Schedule &schedule) {
  std::string csv;
  for (const std::vector<Action> &actions : schedule.ranks) {
    for (size_t i = 0; i < actions.size(); ++i)
      csv += (i ? "," : "") + toString(actions[i]);
    csv += '\n';
  }
  return csv;
}

llvm::Expected<Schedule> scheduleFromCsv(llvm::StringRef text) {
  Schedule schedule;
  while (!text.empty()) {
    auto [row, rest] = text.split('\n');
    text = rest;
    row.consume_back("\r"); // Python's csv module ends lines so
    std::vector<Action> &actions = schedule.ranks.emplace_back();
    llvm::SmallVector<llvm::StringRef, 64> cells;
    row.split(cells, ',');
    for (size_t column = 0; column < cells.size(); ++column) {
      llvm::StringRef cell = cells[column].trim(" \t");
      if (cell.empty())
        continue;
      llvm::Expected<Action> action = parseAction(cell);
      if (!action)
        return withContext(action.takeError(), fmt::format("schedule: line {}, column {}",
                                                           schedule.ranks.size(), column + 1));
      actions.push_back(*action);
    }
  }
  if (schedule.ranks.empty())
    return failf(ExitCode::BadArtifact, "schedule: expected one line per rank, got an empty file");
  return schedule;
}

} // namespace pipec
