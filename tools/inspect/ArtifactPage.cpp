#include "tools/inspect/ArtifactPage.h"

#include "ir/costs/CostTable.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/TorchComms.h"
#include "ir/support/CannotRead.h"
#include "ir/support/Quantities.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "tools/report/PlanPage.h"
#include "tools/report/PlanTiming.h"
#include "tools/report/Table.h"
#include "tools/report/TimeChart.h"
#include "tools/report/Timeline.h"

namespace pipec {

namespace {

/// If operators were measured or read from a table, the artifact has their costs.
llvm::Expected<std::optional<CostTable>> costsIn(const std::string &directory) {
  constexpr llvm::StringLiteral kName = "costs.json";
  auto buffer = llvm::MemoryBuffer::getFile(directory + "/" + kName);
  if (!buffer)
    return std::nullopt;
  llvm::Expected<CostTable> table = costTableFromJson((*buffer)->getBuffer(), kName.str());
  if (!table)
    return makeError(ExitCode::BadArtifact, describe(table.takeError()).message);
  return std::move(*table);
}

} // namespace

llvm::Expected<PlanTiming> timeArtifact(const Artifact &artifact, const Schedule &rows) {
  PlanTiming timed = TRY(timePlan(artifact.plan, rows, artifact.plan.microBatches));
  std::optional<CostTable> costs = TRY(costsIn(artifact.directory));
  timed.atOnce = costs ? costs->atOnce : 0;
  return timed;
}

llvm::Expected<std::string> drawSchedule(const Artifact &artifact, const Schedule &rows,
                                         const PlanTiming &timed) {
  if (!timed.known)
    return drawTimeline(rows, artifact.plan);
  const Timing &timing = timed.timing;
  return fmt::format(
      "{}\n  step {}, bubble {:.1f} %, lower bound {}: predicted from {}\n",
      drawTimeChart(rows, timing, {100, usesColour(toStdout()), "--html FILE draws every name"}),
      formatDuration(timing.makespan), 100 * timing.bubbleMakespan(),
      formatDuration(timed.lowerBound), sourceOfTimes(artifact.plan, timed));
}

llvm::Expected<std::string> pageOf(const Artifact &artifact, const Schedule &rows,
                                   const ArtifactCheck &check, const MeasuredRun *measured) {
  std::optional<CostTable> costs = TRY(costsIn(artifact.directory));
  constexpr int64_t kMostActions = 20'000; // with more, browsers get slow
  const auto stages = static_cast<int64_t>(artifact.plan.stages.size());
  PlanTiming timing =
      TRY(timePlan(artifact.plan, rows, std::max<int64_t>(1, kMostActions / stages)));
  timing.atOnce = costs ? costs->atOnce : 0;
  const WholeModule modules = wholeTree(artifact.plan, costs);
  const llvm::StringRef name = llvm::StringRef(artifact.directory).rtrim('/');
  return htmlPage(
      {llvm::sys::path::filename(name).str(), artifact, rows, check, timing, modules, measured});
}

llvm::Expected<MeasuredRun> readTrace(const std::string &path, const Plan &plan) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return withContext(cannotRead(path, buffer.getError()), "--trace");
  llvm::Expected<MeasuredRun> run = measuredRunFrom((*buffer)->getBuffer(), path, plan);
  if (!run)
    return withContext(run.takeError(), "--trace");
  return run;
}

llvm::Expected<std::string> torchCommsOf(const Plan &plan, const Schedule &rows) {
  RunShape shape;
  shape.microBatches = plan.microBatches;
  llvm::Expected<Program> program = lower(rows, plan, shape);
  if (!program)
    return makeError(ExitCode::BadArtifact, describe(program.takeError()).message);
  llvm::Expected<Schedule> table = toTorchComms(*program, plan);
  if (!table)
    return withContext(table.takeError(), "--comms");
  return toCsv(*table);
}

} // namespace pipec
