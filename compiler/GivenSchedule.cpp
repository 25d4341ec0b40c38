#include "compiler/GivenSchedule.h"

#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/TableCheck.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

namespace pipec {

namespace {

llvm::Expected<TableShape> shapeOfTable(const Schedule &schedule, Mode mode) {
  TableShape shape = TRY(checkGivenTable(schedule));
  if (shape.backward && mode == Mode::Infer)
    return makeError(
        ExitCode::Usage,
        "--schedule: expected a table of forward actions, got one with backward actions",
        "pass --train to compile for training; pipe-schedule forward-only --csv FILE writes a "
        "table of forward actions");
  if (!shape.backward && mode == Mode::Train)
    return makeError(ExitCode::Usage,
                     "--schedule: expected a table with backward actions for --train, got one of "
                     "forward actions",
                     "pipe-schedule 1f1b --csv FILE writes such a table");
  return shape;
}

template <typename Number>
llvm::Error agree(Number &said, Number inTable, const char *option, const char *what) {
  if (said && said != inTable)
    return makeError(ExitCode::Usage,
                     fmt::format("--schedule: expected a table of {}, as {} requests, got {}",
                                 counted(static_cast<size_t>(said), what), option, inTable),
                     fmt::format("leave out {}", option));
  said = inTable;
  return llvm::Error::success();
}

/// Of a stage that it recomputes, a table says for which micro-batches. The option has the other
/// stages, and those of a table without recomputes.
llvm::Error agreeOnRecomputes(const RecomputeWish &wish, const Schedule &schedule,
                              const TableShape &shape) {
  if (wish.isAuto())
    return llvm::Error::success();
  for (const auto &[stage, microBatches] : recomputesOf(schedule))
    for (int64_t k = 0; k < shape.microBatches; ++k) {
      const bool isIn = microBatches.count(k) > 0;
      bool isAsked = wish.names(stage);
      if (wish.choice == RecomputeChoice::ExceptLast)
        isAsked = k + 1 < shape.microBatches;
      else if (wish.choice == RecomputeChoice::Stages && isAsked)
        isAsked = isIn; // a list says nothing of micro-batches
      if (isIn != isAsked)
        return makeError(ExitCode::Usage,
                         fmt::format("--schedule: expected a table with{0} {2}R{3}, as --recompute "
                                     "requests, got one with{1} it",
                                     isAsked ? "" : "out", isIn ? "" : "out", stage, k),
                         "leave out --recompute");
    }
  return llvm::Error::success();
}

} // namespace

const ScheduleTable *givenTable(const CompileOptions &options) {
  return options.schedule ? std::get_if<ScheduleTable>(&*options.schedule) : nullptr;
}

llvm::Expected<CompileOptions> withScheduleTable(CompileOptions options) {
  const ScheduleTable *table = givenTable(options);
  if (!table)
    return std::move(options);
  llvm::Expected<Schedule> schedule = scheduleFromCsv(table->csv);
  if (!schedule) {
    const ErrorText text = describe(schedule.takeError());
    return makeError(ExitCode::Unreadable, "--schedule: " + text.message, text.help);
  }
  TableShape shape = TRY(shapeOfTable(*schedule, options.mode));
  TRY(agree(options.ranks, schedule->ranks.size(), "--ranks", "rank"));
  TRY(agree(options.microBatches, shape.microBatches, "--microbatches", "micro-batch"));
  if (options.cuts.empty() || options.stages) // the number of stages of named cuts is known later
    TRY(agree(options.stages, shape.stages, "--stages", "stage"));
  if (options.mode == Mode::Train)
    TRY(agreeOnRecomputes(options.recompute, *schedule, shape));
  return std::move(options);
}

std::vector<size_t> ranksOfTable(const CompileOptions &options) {
  const ScheduleTable *table = givenTable(options);
  if (!table)
    return {};
  return llvm::cantFail(checkTable(llvm::cantFail(scheduleFromCsv(table->csv)), nullptr))
      .rankOfStage;
}

Schedule defaultSchedule(const CompileOptions &options, const Plan &plan) {
  if (const ScheduleTable *table = givenTable(options))
    return llvm::cantFail(scheduleFromCsv(table->csv));
  return forwardOnly(plan, plan.microBatches);
}

} // namespace pipec
