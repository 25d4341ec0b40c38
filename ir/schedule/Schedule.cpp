#include "ir/schedule/Schedule.h"

#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {
namespace {

struct KindName {
  ActionKind kind;
  llvm::StringLiteral name;
};
// Longer names first: a name may be the beginning of another.
constexpr KindName kKinds[] = {
    {ActionKind::SendForward, "SEND_F"},     {ActionKind::ReceiveForward, "RECV_F"},
    {ActionKind::SendBackward, "SEND_B"},    {ActionKind::ReceiveBackward, "RECV_B"},
    {ActionKind::ReduceGrad, "REDUCE_GRAD"}, {ActionKind::Unshard, "UNSHARD"},
    {ActionKind::Reshard, "RESHARD"},        {ActionKind::Forward, "F"},
    {ActionKind::FullBackward, "B"},         {ActionKind::InputGrad, "I"},
    {ActionKind::WeightGrad, "W"},           {ActionKind::Recompute, "R"},
};
constexpr llvm::StringLiteral kPair = ")OVERLAP_F_B";
// Actions of PyTorch releases after 2.11, which concern sends, receives and reductions.
constexpr llvm::StringLiteral kNewer[] = {"WAIT_SEND", "WAIT_RECV", "BATCH_P2P", "ALL_REDUCE"};

llvm::StringRef nameOf(ActionKind kind) {
  for (const KindName &row : kKinds)
    if (row.kind == kind)
      return row.name;
  llvm_unreachable("every kind has a name");
}

bool hasMicroBatch(ActionKind kind) {
  return kind != ActionKind::Unshard && kind != ActionKind::Reshard &&
         kind != ActionKind::ReduceGrad;
}

/// Digits only, no leading zeros: one text for one number. Those that are too large are one number.
bool parseNumber(llvm::StringRef text, int64_t &number) {
  if (text.empty() || !llvm::all_of(text, llvm::isDigit) || (text.size() > 1 && text[0] == '0'))
    return false;
  if (text.getAsInteger(10, number))
    number = INT64_MAX;
  return true;
}

} // namespace

bool isCompute(ActionKind kind) {
  return kind == ActionKind::Forward || kind == ActionKind::FullBackward ||
         kind == ActionKind::InputGrad || kind == ActionKind::WeightGrad ||
         kind == ActionKind::Recompute;
}

std::string toString(const Action &action) {
  std::string text = fmt::format("{}{}", action.stage, nameOf(action.kind).str());
  return hasMicroBatch(action.kind) ? text + std::to_string(action.microBatch) : text;
}

llvm::Expected<Action> parseAction(llvm::StringRef text) {
  size_t at = text.find_first_not_of("0123456789");
  int64_t stage = 0, microBatch = -1;
  if (at != llvm::StringRef::npos && parseNumber(text.take_front(at), stage))
    for (const KindName &row : kKinds) {
      llvm::StringRef rest = text.drop_front(at);
      if (!rest.consume_front(row.name) ||
          !(hasMicroBatch(row.kind) ? parseNumber(rest, microBatch) : rest.empty()))
        continue;
      if (std::max(stage, microBatch) >= kMostInTable)
        return failf(ExitCode::BadArtifact,
                     "action \"{}\": expected a stage and a micro-batch below {}",
                     text.take_front(40).str(), kMostInTable);
      return Action{row.kind, static_cast<size_t>(stage), microBatch};
    }
  const std::string shown = text.take_front(40).str();
  for (llvm::StringRef newer : kNewer)
    if (text.contains(newer))
      return makeError(ExitCode::BadArtifact,
                       fmt::format("action \"{}\": {} is an action of a newer PyTorch, which this "
                                   "version does not know",
                                   shown, newer.str()),
                       "write the table of compute actions; pipec adds sends and receives itself");
  return failf(ExitCode::BadArtifact,
               "action \"{}\": expected stage, one of F B I W R, micro-batch, as in 2F0", shown);
}

std::string toCsv(const Schedule &schedule) {
  std::string csv;
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::vector<Action> &actions = schedule.ranks[r];
    // If the actions changed after reading, their number no longer fits the idle cells.
    const bool hasIdle = r < schedule.idle.size() && schedule.idle[r].size() == actions.size() + 1;
    llvm::SmallVector<std::string, 0> cells;
    bool second = false; // of a pair
    for (size_t i = 0; i < actions.size(); ++i) {
      if (hasIdle)
        cells.resize(cells.size() + schedule.idle[r][i]);
      const bool first = actions[i].withNext && !second;
      if (second)
        cells.back() += ";" + toString(actions[i]) + kPair.str();
      else
        cells.push_back((first ? "(" : "") + toString(actions[i]));
      second = first;
    }
    if (hasIdle)
      cells.resize(cells.size() + schedule.idle[r].back());
    csv += llvm::join(cells, ",") + '\n';
  }
  return csv;
}

namespace {

/// One cell: nothing, an action, or a pair.
llvm::Error readCell(llvm::StringRef cell, std::vector<Action> &actions) {
  cell = cell.trim(" \t");
  if (cell.empty())
    return llvm::Error::success();
  llvm::StringRef inside = cell;
  if (inside.consume_front("(") && inside.consume_back(kPair)) {
    auto [first, second] = inside.split(';');
    llvm::Expected<Action> a = parseAction(first), b = parseAction(second);
    if (!a || !b)
      return llvm::joinErrors(a.takeError(), b.takeError());
    if (a->kind != ActionKind::Forward || b->kind != ActionKind::FullBackward)
      return failf(ExitCode::BadArtifact, "{}: a pair is a forward and a full backward",
                   cell.take_front(80).str());
    a->withNext = true;
    actions.push_back(*a);
    actions.push_back(*b);
    return llvm::Error::success();
  }
  Action action = TRY(parseAction(cell));
  actions.push_back(action);
  return llvm::Error::success();
}

} // namespace

llvm::Expected<Schedule> scheduleFromCsv(llvm::StringRef text) {
  Schedule schedule;
  bool anyIdle = false;
  while (!text.empty()) {
    auto [row, rest] = text.split('\n');
    text = rest;
    row.consume_back("\r"); // the line ends of Python's csv module
    if (schedule.ranks.size() == static_cast<size_t>(kMostInTable))
      return failf(ExitCode::BadArtifact, "schedule: expected at most {} ranks, got more lines",
                   kMostInTable);
    std::vector<Action> &actions = schedule.ranks.emplace_back();
    std::vector<uint32_t> &idle = schedule.idle.emplace_back();
    llvm::SmallVector<llvm::StringRef, 64> cells;
    row.split(cells, ',');
    for (size_t column = 0; column < cells.size(); ++column) {
      if (llvm::Error error = readCell(cells[column], actions))
        return withContext(std::move(error), fmt::format("schedule: line {}, column {}",
                                                         schedule.ranks.size(), column + 1));
      idle.resize(actions.size() + 1);
      idle.back() += cells[column].trim(" \t").empty() && !row.empty();
    }
    anyIdle |= llvm::any_of(idle, [](uint32_t count) { return count > 0; });
  }
  if (!anyIdle)
    schedule.idle.clear();
  if (schedule.ranks.empty())
    return failf(ExitCode::BadArtifact, "schedule: expected one line per rank, got an empty file");
  return schedule;
}

} // namespace pipec
