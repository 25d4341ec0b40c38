// Which schedule a pipeline runs: the artifact's, one by name, or a table, and where it places the
// stages.
#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/TableCheck.h"
#include "ir/support/Try.h"
#include "runtime/PipelineImpl.h"

namespace pipec {

namespace {

/// The name of the schedule if it is generated for any number of micro-batches; else empty.
std::string generatedName(const Plan &plan, const PipelineOptions &options) {
  const std::string &name = options.scheduleName.empty() && options.scheduleCsv.empty()
                                ? plan.scheduleName
                                : options.scheduleName;
  return name == "table" ? "" : name;
}

/// A schedule that is not generated: of the options, or the artifact's.
llvm::Expected<Schedule> givenSchedule(const Artifact &artifact, const PipelineOptions &options) {
  if (!options.scheduleCsv.empty())
    return scheduleFromCsv(options.scheduleCsv);
  int64_t expected = artifact.plan.microBatches;
  if (options.microBatches && options.microBatches != expected)
    return makeError(
        ExitCode::Usage,
        fmt::format("micro-batches: expected {}, the number in the artifact's schedule, got {}",
                    expected, options.microBatches),
        options.training ? "--schedule 1f1b accepts any number"
                         : "--schedule forward-only accepts any number");
  return scheduleFromCsv(artifact.scheduleCsv);
}

} // namespace

/// A training may run under any schedule, each of which has its own place for the stages.
llvm::Error Pipeline::Impl::placeRanks(const PipelineOptions &options) {
  Plan &plan = core->artifact.plan;
  if (!options.training || (options.scheduleName.empty() && options.scheduleCsv.empty()))
    return llvm::Error::success();
  if (!options.scheduleCsv.empty()) {
    Schedule table = TRY(scheduleFromCsv(options.scheduleCsv));
    TableShape shape = TRY(checkGivenTable(table));
    if (shape.stages != plan.stages.size())
      return failf(ExitCode::Usage, "--schedule: expected a table of {} stages, got {}",
                   plan.stages.size(), shape.stages);
    plan.microBatches = shape.microBatches;
    place({{}, shape.rankOfStage, table.ranks.size()}, plan);
    return llvm::Error::success();
  }
  const size_t ranks = ranksThatFit(options.scheduleName, plan.stages.size(), plan.ranks);
  PlacedSchedule placed =
      TRY(namedSchedule(options.scheduleName, plan.stages.size(), ranks,
                        options.microBatches ? options.microBatches : plan.microBatches));
  isPlanned = options.scheduleName == plan.scheduleName && placed.ranks == plan.ranks;
  if (!isPlanned)
    place(placed, plan);
  return llvm::Error::success();
}

/// A given schedule is for one number of micro-batches. A generated one is made when the batch is
/// known, so a number that is too large costs nothing.
llvm::Error Pipeline::Impl::prepareProgram(const PipelineOptions &options) {
  const Plan &plan = core->artifact.plan;
  if (!options.training && !options.scheduleName.empty() && options.scheduleName != "forward-only")
    return makeError(ExitCode::Usage,
                     "schedule " + options.scheduleName + ": expected forward-only or a CSV file");
  scheduleName = generatedName(plan, options);
  anyNumber = !scheduleName.empty();
  wanted = options.microBatches * replicas();
  microBatches = wanted ? wanted : std::max<int64_t>(plan.microBatches, 1) * replicas();
  if (anyNumber)
    return llvm::Error::success();
  Schedule schedule = TRY(givenSchedule(core->artifact, options));
  llvm::Error error = core->prepare(schedule, microBatches / replicas());
  return error && !options.scheduleCsv.empty() ? withContext(std::move(error), "--schedule")
                                               : std::move(error);
}

llvm::Expected<Schedule> Pipeline::Impl::generatedSchedule(int64_t number) const {
  const Plan &plan = core->artifact.plan;
  if (core->training) {
    // The schedule that was planned for this number, with the costs of this model.
    if (scheduleName == plan.scheduleName && number == plan.microBatches && isPlanned)
      return scheduleFromCsv(core->artifact.scheduleCsv);
    PlacedSchedule placed =
        TRY(namedSchedule(scheduleName, plan.stages.size(), plan.ranks, number));
    return std::move(placed.schedule);
  }
  return forwardOnly(plan, number);
}

llvm::Error Pipeline::Impl::prepareFor(int64_t number) {
  if (number % replicas() != 0)
    return failf(ExitCode::Usage,
                 "micro-batches: expected a multiple of {}, so that each replica has as many, got "
                 "{}",
                 replicas(), number);
  const int64_t ofReplica = number / replicas();
  if (!core->program || core->program->microBatches != ofReplica) {
    Schedule schedule = TRY(generatedSchedule(ofReplica));
    TRY(core->prepare(schedule, ofReplica));
  }
  microBatches = number;
  return llvm::Error::success();
}

} // namespace pipec
