#include "tools/report/MeasuredRun.h"

#include "ir/support/Json.h"
#include "ir/support/JsonReader.h"
#include "ir/support/Try.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace pipec {

namespace {

using llvm::json::Object;

// LLVM's optionals differ between releases; these helpers use no member of them.
std::optional<int64_t> integerOf(const Object *object, llvm::StringRef key) {
  if (object)
    if (const auto value = object->getInteger(key))
      return *value;
  return std::nullopt;
}

std::optional<double> numberOf(const Object &object, llvm::StringRef key) {
  if (const auto value = object.getNumber(key))
    return *value;
  return std::nullopt;
}

std::string textOf(const Object &object, llvm::StringRef key) {
  const auto value = object.getString(key);
  return value ? value->str() : "";
}

bool isMeasured(const Object &about) {
  const auto simulated = about.getBoolean("simulated");
  return simulated && !*simulated && about.getString("schedule") &&
         about.getInteger("micro_batches");
}

struct TracedAction {
  Action action;
  Timing::Interval time;
};

class Reader {
public:
  Reader(const std::string &name, const Plan &plan) : name_(name), plan_(plan) {}

  llvm::Expected<MeasuredRun> read(llvm::StringRef text) {
    llvm::json::Value document = TRY(parseJson(text, {name_, ExitCode::Unreadable, kMostBytes}));
    const Object *top = document.getAsObject();
    const Object *about = top ? top->getObject("otherData") : nullptr;
    const llvm::json::Array *events = top ? top->getArray("traceEvents") : nullptr;
    if (!about || !events || !isMeasured(*about))
      return makeError(ExitCode::Unreadable, name_ + ": expected a trace that pipe-run wrote",
                       "pipe-run MODEL.pipe --trace FILE.json writes one");
    const int64_t ranks = integerOf(about, "ranks").value_or(0);
    const int64_t replicas = integerOf(about, "replicas").value_or(1); // earlier versions: none
    if (ranks < 1 || replicas < 1 || ranks % replicas != 0)
      return failf(ExitCode::Unreadable, "{}: expected ranks of {} replicas, got {}", name_,
                   replicas, ranks);
    if (static_cast<size_t>(ranks / replicas) > plan_.stages.size())
      return failf(ExitCode::Usage, "{}: expected a trace of at most {} ranks{}, got {}", name_,
                   plan_.stages.size(), replicas > 1 ? " per replica" : "", ranks / replicas);
    if (ranks > kMostRanks)
      return failf(ExitCode::Usage, "{}: expected a trace of at most {} ranks, got {}", name_,
                   kMostRanks, ranks);
    rows_.resize(2 * static_cast<size_t>(ranks));
    for (const llvm::json::Value &event : *events)
      if (const Object *object = event.getAsObject())
        TRY(readEvent(*object));
    return finish(*about, static_cast<size_t>(ranks));
  }

private:
  static constexpr size_t kMostBytes = size_t(1) << 30;
  static constexpr int64_t kMostRanks = 4096; // as many as pipe-run has

  llvm::Error readEvent(const Object &event) {
    const Object *arguments = event.getObject("args");
    const std::optional<int64_t> stage = integerOf(arguments, "stage");
    if (textOf(event, "ph") != "X" || !stage)
      return llvm::Error::success();
    const int64_t row = integerOf(&event, "pid").value_or(-1);
    const int64_t microBatch = integerOf(arguments, "micro_batch").value_or(-1);
    const std::optional<double> start = numberOf(event, "ts"), length = numberOf(event, "dur");
    if (row < 0 || static_cast<size_t>(row) >= rows_.size() || microBatch < 0 || !isTime(start) ||
        !isTime(length))
      return failf(ExitCode::Unreadable, "{}: a span of stage {} has no rank, micro-batch or time",
                   name_, *stage);
    if (*stage < 0 || static_cast<size_t>(*stage) >= plan_.stages.size())
      return failf(ExitCode::Usage, "{}: expected a trace of {} stages, got stage {}", name_,
                   plan_.stages.size(), *stage);
    llvm::Expected<Action> action =
        parseAction(fmt::format("{}{}{}", *stage, textOf(event, "cat"), microBatch));
    if (!action)
      return withContext(action.takeError(), name_);
    const int64_t from = std::llround(*start * 1000);
    rows_[row].push_back({*action, {from, from + std::llround(*length * 1000)}});
    return llvm::Error::success();
  }

  /// Every stage ran, and backwards did only in a training. Errors: Usage for the trace of another
  /// artifact.
  llvm::Error checkIsOfPlan() const {
    std::set<size_t> stages;
    bool hasBackward = false;
    for (const std::vector<TracedAction> &row : rows_)
      for (const TracedAction &each : row) {
        stages.insert(each.action.stage);
        hasBackward = hasBackward || each.action.kind != ActionKind::Forward;
      }
    if (stages.size() != plan_.stages.size())
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected a trace of {} stages, got one of {}", name_,
                                   plan_.stages.size(), stages.size()),
                       "pass a trace that pipe-run wrote for this artifact");
    if (hasBackward == plan_.training.has_value())
      return llvm::Error::success();
    return makeError(ExitCode::Usage,
                     fmt::format("{}: expected a trace {} backwards, got one {}", name_,
                                 hasBackward ? "without" : "with",
                                 hasBackward ? "with them" : "without"),
                     "pass a trace that pipe-run wrote for this artifact");
  }

  static bool isTime(const std::optional<double> &us) {
    constexpr double kMostUs = 1e12; // eleven days
    return us && *us >= 0 && *us <= kMostUs;
  }

  llvm::Expected<MeasuredRun> finish(const Object &about, size_t ranks) {
    MeasuredRun run;
    run.schedule = textOf(about, "schedule");
    run.microBatches = *about.getInteger("micro_batches");
    run.batches = integerOf(&about, "batches").value_or(1); // earlier versions: none
    run.replicas = integerOf(&about, "replicas").value_or(1);
    TRY(checkIsOfPlan());
    for (size_t r = 0; r < ranks; ++r) {
      const std::vector<TracedAction> &measured = rows_[r], &predicted = rows_[ranks + r];
      const bool same = std::equal(
          measured.begin(), measured.end(), predicted.begin(), predicted.end(),
          [](const TracedAction &a, const TracedAction &b) { return a.action == b.action; });
      if (!same)
        return failf(ExitCode::Unreadable,
                     "{}: rank {}: expected the same actions measured and predicted", name_, r);
      std::vector<Action> &actions = run.actions.ranks.emplace_back();
      for (const TracedAction &each : measured)
        actions.push_back(each.action);
      add(measured, run.measured);
      add(predicted, run.predicted);
    }
    return run;
  }

  static void add(const std::vector<TracedAction> &row, Timing &timing) {
    std::vector<Timing::Interval> &times = timing.ranks.emplace_back();
    int64_t busy = 0;
    for (const TracedAction &each : row) {
      times.push_back(each.time);
      busy += each.time.end - each.time.start;
      timing.makespan = std::max(timing.makespan, each.time.end);
    }
    timing.busy.push_back(busy);
  }

  const std::string &name_;
  const Plan &plan_;
  std::vector<std::vector<TracedAction>> rows_; // ranks measured, then the same predicted
};

} // namespace

llvm::Expected<MeasuredRun> measuredRunFrom(llvm::StringRef text, const std::string &name,
                                            const Plan &plan) {
  return Reader(name, plan).read(text);
}

} // namespace pipec
