#include "tools/schedule/ScheduleTrial.h"

#include "ir/support/Llvm.h"
#include "ir/support/TextFile.h"
#include "ir/support/Try.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "tools/report/Table.h"

#include <algorithm>

namespace pipec {
namespace {

constexpr size_t kUsualRanks = 4;
constexpr int64_t kUsualMicroBatchesPerRank = 2;

/// Ranks and stages per rank: those of the command line, else those of the costs, else defaults.
llvm::Expected<ScheduleRequest> shapeFor(const Generator &generator, const TrialRequest &asked) {
  const size_t stages = TRY(requestedStages(asked));
  ScheduleRequest request;
  request.ranks = ranksFor(asked, stages, generator.leastChunks);
  if (stages % request.ranks != 0)
    return failf(ExitCode::Usage,
                 "--stages: expected a multiple of {}, the number of ranks, got {}", request.ranks,
                 stages);
  request.chunks = stages ? stages / request.ranks : generator.leastChunks;
  request.microBatches = microBatchesFor(asked, request.ranks);
  request.costs = asked.costs.of(request.ranks, request.chunks);
  request.memoryLimit = asked.memoryLimit;
  request.memoryText =
      asked.costs.inBytes ? formatBytes : [](int64_t memory) { return memoryText(memory, false); };
  return request;
}

/// Compares a file's table with the options.
llvm::Error checkRequest(const Trial &trial, const TrialRequest &asked) {
  auto differs = [](const char *option, size_t expected, size_t got) {
    return failf(ExitCode::BadArtifact, "schedule: {}: expected {}, got {}", option, expected, got);
  };
  if (asked.ranks && trial.ranks() != asked.ranks)
    return differs("ranks (lines)", asked.ranks, trial.ranks());
  if (asked.stages && trial.shape->stages != asked.stages)
    return differs("stages", asked.stages, trial.shape->stages);
  if (asked.microBatches && trial.shape->microBatches != asked.microBatches)
    return differs("micro-batches", static_cast<size_t>(asked.microBatches),
                   static_cast<size_t>(trial.shape->microBatches));
  return llvm::Error::success();
}

/// The costs of a rank in equal shares for its stages, for any placement.
ScheduleCosts costsForTable(const CostsText &costs, const TableShape &shape, size_t ranks) {
  if (costs.exact)
    return *costs.exact;
  std::vector<size_t> held(ranks, 0);
  for (size_t rank : shape.rankOfStage)
    ++held[rank];
  ScheduleCosts result;
  result.latency = costs.latency;
  std::vector<size_t> seen(ranks, 0);
  for (size_t rank : shape.rankOfStage) {
    const ScheduleCosts parts = equalCosts(costs.whole, costs.latency, 1, held[rank]);
    result.stages.push_back(parts.stages[seen[rank]++]);
  }
  return result;
}

/// As --program writes it; comments may stand before it.
bool isProgramText(llvm::StringRef text) {
  for (llvm::StringRef line : llvm::split(text, '\n'))
    if (line = line.split('#').first.trim(); !line.empty())
      return startsWith(line, "program ");
  return false;
}

llvm::Expected<Schedule> scheduleFromText(llvm::StringRef text, Trial &trial) {
  if (!isProgramText(text))
    return scheduleFromCsv(text);
  trial.written = TRY(programFromText(text));
  return actionsOf(*trial.written);
}

llvm::Error readFile(const std::string &file, Trial &trial) {
  if (llvm::sys::fs::is_directory(file))
    return makeError(ExitCode::Usage,
                     file + ": expected a table, a program or an artifact, got a directory without "
                            "plan.json");
  TextFormat format;
  format.what = "a table or a program";
  format.code = ExitCode::Unreadable;
  format.mayBeStdin = true;
  const std::string text = TRY(readTextFile(file, format));
  llvm::Expected<Schedule> schedule = scheduleFromText(text, trial);
  if (schedule) {
    trial.schedule = std::move(*schedule);
    return llvm::Error::success();
  }
  trial.why = describe(schedule.takeError());
  trial.why.code = ExitCode::Unreadable;
  return llvm::Error::success();
}

/// No schedule on these ranks ends earlier. Where pairs share their time, forwards may cost
/// nothing.
int64_t lowerBoundOf(const Trial &trial, PairRule pairs) {
  auto bound = [&](const ScheduleCosts &costs, int64_t microBatches) {
    return makespanLowerBound(costs, trial.shape->rankOfStage, trial.ranks(), microBatches,
                              !trial.shape->backward);
  };
  if (pairs != PairRule::Concurrent)
    return bound(trial.costs, trial.shape->microBatches);
  ScheduleCosts hidden = trial.costs;
  for (StageCosts &stage : hidden.stages)
    stage.forward = 0;
  return std::max(bound(hidden, trial.shape->microBatches), bound(trial.costs, 1));
}

/// Data that tables do not have: bytes, links, optimizer.
llvm::Error timeAsProgram(Trial &trial, const TrialRequest &asked) {
  const TransferCosts transfers = asked.costs.transfers(trial.shape->rankOfStage);
  const bool isTimed = transfers.any() || asked.timeAsProgram || trial.written;
  if (!isTimed && !asked.program)
    return llvm::Error::success();
  trial.program =
      TRY(asProgram(*trial.schedule, *trial.shape, trial.costs, transfers, trial.written));
  if (!isTimed)
    return llvm::Error::success();
  if (asked.pairs != PairRule::Split)
    return makeError(ExitCode::Usage,
                     "--pairs: expected split with costs of values, the optimizer or a cluster",
                     "in a program a forward and a backward run one after the other");
  std::tie(trial.timing, trial.lowerBound) =
      TRY(timeProgram(*trial.schedule, *trial.program, trial.costs, transfers));
  return llvm::Error::success();
}

/// The checks that are no matter of where the schedule came from.
llvm::Error judge(Trial &trial, const TrialRequest &asked) {
  trial.shape = TRY(checkTable(*trial.schedule, &trial.warnings));
  TRY(checkRequest(trial, asked));
  if (!trial.generated)
    trial.costs = costsForTable(asked.costs, *trial.shape, trial.ranks());
  if (!trial.shape->backward) // without a backward nothing is kept
    for (StageCosts &stage : trial.costs.stages)
      stage.heldByForward = stage.freedByInputGrad = 0;
  trial.timing = TRY(timeSchedule(*trial.schedule, trial.costs, asked.pairs));
  trial.lowerBound = lowerBoundOf(trial, asked.pairs);
  TRY(timeAsProgram(trial, asked));
  const std::vector<int64_t> &peaks = trial.timing->peakBytes;
  const auto most = std::max_element(peaks.begin(), peaks.end());
  if (*most > asked.memoryLimit)
    return failf(ExitCode::NoPlan, "schedule: rank {} holds {} of activations, the limit is {}",
                 most - peaks.begin(), memoryText(*most, asked.costs.inBytes),
                 memoryText(asked.memoryLimit, asked.costs.inBytes));
  return llvm::Error::success();
}

llvm::Error generate(const Generator &generator, const TrialRequest &asked, Trial &trial) {
  ScheduleRequest request = TRY(shapeFor(generator, asked));
  trial.costs = request.costs;
  trial.generated = true;
  llvm::Expected<Schedule> schedule = makeSchedule(generator, request);
  if (schedule) {
    trial.schedule = std::move(*schedule);
    return llvm::Error::success();
  }
  ErrorText text = describe(schedule.takeError());
  if (text.code != ExitCode::NoPlan)
    return makeError(text.code, text.message, text.help);
  trial.why = std::move(text);
  return llvm::Error::success();
}

llvm::Expected<Trial> judged(Trial trial, const TrialRequest &request) {
  if (llvm::Error error = judge(trial, request)) {
    trial.why = describe(std::move(error));
    if (trial.why.code == ExitCode::Usage)
      return makeError(trial.why.code, trial.why.message, trial.why.help);
  }
  return trial;
}

} // namespace

llvm::Expected<size_t> requestedStages(const TrialRequest &asked) {
  if (!asked.costs.exact)
    return asked.stages;
  const size_t known = asked.costs.exact->stages.size();
  if (asked.stages && asked.stages != known)
    return failf(ExitCode::Usage, "--stages: expected {}, the number of stages in --costs, got {}",
                 known, asked.stages);
  return known;
}

size_t ranksFor(const TrialRequest &asked, size_t stages, size_t chunks) {
  if (asked.ranks)
    return asked.ranks;
  return stages ? std::max<size_t>(1, stages / chunks) : kUsualRanks;
}

int64_t microBatchesFor(const TrialRequest &asked, size_t ranks) {
  return asked.microBatches ? asked.microBatches
                            : kUsualMicroBatchesPerRank * static_cast<int64_t>(ranks);
}

llvm::Expected<Trial> trySchedule(const std::string &name, const TrialRequest &request) {
  Trial trial;
  trial.name = name == "-" ? "stdin" : name;
  std::string nearest;
  const Generator *generator = findGenerator(name, &nearest);
  const bool file = name == "-" || llvm::sys::fs::exists(name) || endsWith(name, ".csv");
  if (!generator && !file)
    return makeError(ExitCode::Usage, fmt::format("there is no schedule {}", name),
                     nearest.empty() ? "pipe-schedule --list names them"
                                     : "did you mean " + nearest + "?");
  TRY(generator ? generate(*generator, request, trial) : readFile(name, trial));
  if (!trial.schedule)
    return trial;
  return judged(std::move(trial), request);
}

llvm::Expected<Trial> tryMade(const std::string &generator, Schedule schedule,
                              const TrialRequest &request) {
  Trial trial;
  trial.name = generator;
  trial.generated = true;
  ScheduleRequest shape = TRY(shapeFor(*findGenerator(generator), request));
  trial.costs = shape.costs;
  trial.schedule = std::move(schedule);
  return judged(std::move(trial), request);
}

std::string memoryText(int64_t memory, bool inBytes) {
  if (inBytes)
    return formatBytes(memory);
  const double number = static_cast<double>(memory) / static_cast<double>(kMicroBatchUnits);
  return fmt::format("{:.4g} micro-batch{}", number, number == 1 ? "" : "es");
}

} // namespace pipec
