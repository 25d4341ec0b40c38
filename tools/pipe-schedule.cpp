// pipe-schedule: compute schedules made or read, checked, simulated and drawn. Starts without
// LibTorch.
#include "ir/plan/Json.h"
#include "ir/schedule/TorchComms.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/ScheduleAuto.h"
#include "tools/ScheduleReport.h"
#include "tools/ScheduleSvg.h"
#include "tools/ScheduleTrace.h"
#include "tools/ScheduleTraining.h"
#include "tools/ToolMain.h"

using namespace pipec;
namespace cl = llvm::cl;

namespace {

StringOption schedules(
    cl::Positional, cl::value_desc("NAME|FILE.csv,..."),
    cl::desc("a schedule of --list, or a table as PyTorch writes it (- reads stdin); several are "
             "compared, and so is `all` of the list; `auto` takes the best one for these costs and "
             "this memory. A table that is no schedule exits 5 with the "
             "first action that is wrong, text that is no table 3, what needs more than "
             "--memory-limit 12"));
IntegerOption ranks("ranks", cl::value_desc("R"), cl::desc("number of ranks (default: 4)"));
IntegerOption stages("stages", cl::value_desc("S"),
                     cl::desc("number of stages, a multiple of the ranks (default: as few per rank "
                              "as the schedule takes)"));
IntegerOption microBatches("microbatches", cl::value_desc("M"),
                           cl::desc("number of micro-batches (default: two per rank)"));
StringOption
    costs("costs", cl::value_desc("FILE|f=T,i=T,w=T,comm=T,mem=SIZE"),
          cl::desc("what a rank takes for one micro-batch: forward, input gradient, weight "
                   "gradient (its stages share it equally), a transfer from rank to rank, and "
                   "bytes of activations held, of which mem_i=SIZE are freed by the input "
                   "gradient; bytes=SIZE of a value between ranks, rate=SIZE that a link carries "
                   "in a second, opt=T for the optimizer; a time without a unit is milliseconds. "
                   "Or a JSON file with every "
                   "stage's own; or the operators of a model, as pipe-compile --train --emit-costs "
                   "writes them: then cuts, micro-batches, recompute and shared weights are chosen "
                   "with the schedule (default: f=1,i=1,w=1,comm=0)"));
IntegerOption batch("batch", cl::value_desc("B"),
                    cl::desc("with a table of operators: samples of a step (default: of two "
                             "micro-batches per rank like the table's)"));
StringOption recompute("recompute", cl::value_desc("never|always|auto"), cl::init("auto"),
                       cl::desc("with a table of operators: which stages run their forward again "
                                "in the backward (default: auto, those that memory demands)"));
StringOption tied("tied", cl::value_desc("transmit|replicate"),
                  cl::desc("with a table of operators: how weights that several stages read are "
                           "kept (default: what is faster)"));
StringOption memoryLimit(
    "memory-limit", cl::value_desc("SIZE"),
    cl::desc("most activations that a rank may hold: a size where the costs say mem, else a number "
             "of micro-batches; zb-auto and zb-v-auto choose an order within it, every schedule is "
             "checked against it. With a table of operators: most bytes of a device, for weights, "
             "optimizer and activations"));
StringOption cluster("cluster", cl::value_desc("FILE.json"),
                     cl::desc("devices and links, see docs/cluster.md: ranks go to the devices in "
                              "turn, and values over their links"));
StringOption pairs("pairs", cl::value_desc("split|fused|concurrent"), cl::init("split"),
                   cl::desc("how long a forward and a backward in one cell take: one after the "
                            "other, as one block, or as long as the longer one (default: split)"));
StringOption csv("csv", cl::value_desc("FILE"), cl::desc("write the table, as PyTorch reads it"));
StringOption comms("comms", cl::value_desc("FILE"),
                   cl::desc("write the table with sends and receives, as PyTorch runs it: of "
                            "pipelines whose stages send to the next one only"));
StringOption svg("svg", cl::value_desc("FILE"), cl::desc("write a picture"));
StringOption programFile("program", cl::value_desc("FILE"),
                         cl::desc("write what the ranks do in full, with sends and receives: the "
                                  "program, see docs/programs.md"));
StringOption trace("trace", cl::value_desc("FILE.json"),
                   cl::desc("write a trace for Perfetto or chrome://tracing"));
FlagOption list("list", cl::desc("list the schedules: what each needs, where it was published"));
FlagOption force("force", cl::desc("replace existing files"));
FlagOption json("json", cl::desc("print one JSON document instead of the tables"));

llvm::Expected<size_t> countOf(const IntegerOption &option) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t number = option.getValue();
  if (given(option) && (number < 1 || number > kMost))
    return failf(ExitCode::Usage, "{}: expected 1 to {}, got {}", spelledOption(option.ArgStr),
                 kMost, number);
  return static_cast<size_t>(number);
}

llvm::Expected<int64_t> limitOf(const CostsText &read) {
  if (!given(memoryLimit))
    return std::numeric_limits<int64_t>::max();
  if (read.inBytes) {
    llvm::Expected<int64_t> size = parseSize(memoryLimit);
    if (!size)
      return withContext(size.takeError(), "--memory-limit");
    return *size;
  }
  double number = 0;
  if (llvm::StringRef(memoryLimit).getAsDouble(number) || !(number > 0) || number > 1e9)
    return makeError(ExitCode::Usage,
                     fmt::format("--memory-limit: expected a number of micro-batches, got \"{}\"",
                                 memoryLimit.getValue()),
                     "for a limit in bytes say what a micro-batch holds: --costs mem=SIZE");
  return static_cast<int64_t>(number * static_cast<double>(kMicroBatchUnits));
}

/// Options that say something about operators only.
llvm::Error expectOperators(const CostsText &read) {
  for (const llvm::cl::Option *option :
       {static_cast<cl::Option *>(&batch), static_cast<cl::Option *>(&recompute),
        static_cast<cl::Option *>(&tied)})
    if (given(*option) && !read.operators)
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected --costs with a table of operators",
                                   spelledOption(option->ArgStr)),
                       "pipe-compile --train --emit-costs FILE writes one");
  return llvm::Error::success();
}

llvm::Expected<TrialRequest> readRequest() {
  llvm::Expected<CostsText> read = readCosts(costs);
  if (!read)
    return read.takeError();
  if (llvm::Error error = expectOperators(*read))
    return std::move(error);
  if (given(cluster)) {
    if (read->latency || read->bytesPerSecond || read->exactTransfers.bytesPerSecond ||
        (read->exact && read->exact->latency))
      return makeError(ExitCode::Usage,
                       "--cluster: expected costs without comm and rate, got them with it",
                       "the cluster says what links take");
    llvm::Expected<Cluster> devices = readCluster(cluster);
    if (!devices)
      return devices.takeError();
    read->cluster = std::move(*devices);
  }
  TrialRequest request;
  request.costs = std::move(*read);
  request.program = given(programFile) || given(comms);
  for (auto [option, number] : {std::pair{&ranks, &request.ranks}, {&stages, &request.stages}}) {
    llvm::Expected<size_t> count = countOf(*option);
    if (!count)
      return count.takeError();
    *number = *count;
  }
  llvm::Expected<size_t> count = countOf(microBatches);
  if (!count)
    return count.takeError();
  request.microBatches = static_cast<int64_t>(*count);
  // So many actions take minutes, and nobody looks at them; a program has ten ops for one.
  const bool isAuto = schedules == "auto";
  const bool asProgram = isAuto || request.program || request.costs.transfers({0}).any();
  const double mostCells = isAuto ? 1e6 : asProgram ? 1e7 : 1e8;
  const size_t wide = std::max(request.ranks, request.stages);
  const int64_t cut = request.microBatches ? request.microBatches // else two per rank
                                           : 2 * static_cast<int64_t>(request.ranks);
  if (double(wide) * double(cut) > mostCells)
    return failf(ExitCode::Usage, "--microbatches: expected at most {} for {} stages{}, got {}{}",
                 size_t(mostCells) / wide, wide, asProgram ? " as a program" : "", cut,
                 request.microBatches ? "" : ", two per rank");
  llvm::Expected<int64_t> limit = limitOf(request.costs);
  if (!limit)
    return limit.takeError();
  request.memoryLimit = *limit;
  llvm::Expected<size_t> rule = chooseByName("pairs", pairs, {"split", "fused", "concurrent"});
  if (!rule)
    return rule.takeError();
  request.pairs = static_cast<PairRule>(*rule);
  return request;
}

/// `all` leaves out forward-only, which is no training schedule.
std::vector<std::string> askedFor() {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  llvm::StringRef(schedules).split(parts, ',');
  std::vector<std::string> names;
  for (llvm::StringRef part : parts)
    if (part == "all") {
      for (const Generator &generator : generators())
        if (!generator.inference)
          names.push_back(generator.name.str());
    } else {
      names.push_back(part.str());
    }
  return names;
}

llvm::Error writeFiles(const Trial &trial, bool inBytes) {
  if (given(csv) && trial.schedule)
    if (llvm::Error error = writeFileFor(csv, toCsv(*trial.schedule), force))
      return error;
  if (given(programFile) && trial.program)
    if (llvm::Error error = writeFileFor(programFile, toString(trial.program->program), force))
      return error;
  if (given(comms) && trial.program) {
    llvm::Expected<Schedule> table = toTorchComms(trial.program->program, trial.program->plan);
    if (!table)
      return withContext(table.takeError(), "--comms");
    if (llvm::Error error = writeFileFor(comms, toCsv(*table), force))
      return error;
  }
  if (!trial.timing)
    return llvm::Error::success();
  if (given(svg))
    if (llvm::Error error =
            writeFileFor(svg,
                         drawSvg(*trial.schedule, *trial.timing,
                                 {titleOf(trial), subtitleOf(trial), rankNotes(trial, inBytes)}),
                         force))
      return error;
  if (given(trace))
    return writeFileFor(trace, traceOf(*trial.schedule, *trial.timing, trial.costs, trial.name),
                        force);
  return llvm::Error::success();
}

llvm::json::Object optionsJson() {
  llvm::json::Object options{{"schedule", schedules.getValue()},
                             {"costs", given(costs) ? costs.getValue() : "f=1,i=1,w=1,comm=0"},
                             {"pairs", pairs.getValue()}};
  for (const IntegerOption *option : {&ranks, &stages, &microBatches, &batch})
    if (given(*option))
      options[option->ArgStr] = static_cast<int64_t>(option->getValue());
  if (given(cluster))
    options["cluster"] = cluster.getValue();
  if (given(memoryLimit))
    options["memory_limit"] = memoryLimit.getValue();
  if (given(recompute))
    options["recompute"] = recompute.getValue();
  if (given(tied))
    options["tied"] = tied.getValue();
  return options;
}

ExitCode one(const Trial &trial, bool inBytes) {
  for (const std::string &warning : trial.warnings)
    printWarning(warning);
  if (json) {
    llvm::json::Object document = trialJson(trial, inBytes);
    document["schema_version"] = 1;
    document["options"] = optionsJson();
    llvm::outs() << printJson(std::move(document));
  } else {
    printTrial(llvm::outs(), trial, inBytes);
    llvm::outs() << "\n";
  }
  printVerdict(trial.valid(), trial.why.message, json);
  return trial.why.code;
}

/// From the operators of a model: what a named schedule leaves free, or all of it.
llvm::Expected<PlannedTraining> plan(const TrialRequest &request,
                                     const std::vector<std::string> &names) {
  const Generator *generator = names.size() == 1 ? findGenerator(names[0]) : nullptr;
  if (names.size() != 1 || (names[0] != "auto" && !generator))
    return makeError(ExitCode::Usage,
                     fmt::format("--costs: expected auto or one schedule of --list with a table of "
                                 "operators, got {}",
                                 schedules.getValue()),
                     "auto takes the best one");
  for (const StringOption *option : {&pairs})
    if (given(*option))
      return makeError(ExitCode::Usage, "--pairs: expected costs of stages with it, got a table of "
                                        "operators");
  TrainingWishes wishes;
  wishes.ranks = request.ranks;
  wishes.stages = request.stages;
  wishes.microBatches = request.microBatches;
  wishes.schedule = generator ? generator->name.str() : "";
  wishes.cluster = request.costs.cluster;
  if (given(memoryLimit))
    wishes.memoryLimit = request.memoryLimit;
  llvm::Expected<size_t> samples = countOf(batch);
  if (!samples)
    return samples.takeError();
  wishes.batch = static_cast<int64_t>(*samples);
  llvm::Expected<size_t> again = chooseByName("recompute", recompute, {"never", "always", "auto"});
  if (!again)
    return again.takeError();
  wishes.recompute = static_cast<RecomputeChoice>(*again);
  if (given(tied)) {
    llvm::Expected<size_t> mode = chooseByName("tied", tied, {"transmit", "replicate"});
    if (!mode)
      return mode.takeError();
    wishes.tied = *mode == 0 ? Tie::Mode::Transmit : Tie::Mode::Replicate;
  }
  return planTraining(*request.costs.operators, wishes);
}

ExitCode planned(const PlannedTraining &plan) {
  if (json) {
    llvm::json::Object document = plannedJson(plan);
    document["schema_version"] = 1;
    document["options"] = optionsJson();
    llvm::outs() << printJson(std::move(document));
  } else {
    printTrial(llvm::outs(), trialOf(plan), /*inBytes=*/true);
    llvm::outs() << "\n";
    printTraining(llvm::outs(), plan);
    llvm::outs() << "\n";
  }
  printVerdict(true, "", json);
  return ExitCode::Success;
}

ExitCode best(const AutoTrial &found, bool inBytes) {
  if (json) {
    llvm::json::Object document = autoJson(found, inBytes);
    document["schema_version"] = 1;
    document["options"] = optionsJson();
    llvm::outs() << printJson(std::move(document));
  } else {
    printCandidates(llvm::outs(), found.outcome, inBytes);
    llvm::outs() << "\n";
    printTrial(llvm::outs(), found.trial, inBytes);
    llvm::outs() << "\n";
  }
  printVerdict(found.trial.valid(), found.trial.why.message, json);
  return found.trial.why.code;
}

/// That nothing fits is an answer of `auto`, as it is one about a schedule that was named.
llvm::Expected<ExitCode> noneFits(llvm::Error error) {
  if (!json)
    return std::move(error);
  const ErrorText why = describe(std::move(error));
  if (why.code != ExitCode::NoPlan)
    return makeError(why.code, why.message, why.help);
  llvm::outs() << printJson(llvm::json::Object{{"schema_version", 1},
                                               {"options", optionsJson()},
                                               {"schedule", nullptr},
                                               {"makespan_ms", nullptr},
                                               {"valid", false},
                                               {"why", why.message}});
  printVerdict(false, why.message, json);
  return why.code;
}

/// That some do not fit the numbers or the memory limit is an answer; a table that is no schedule
/// is not.
ExitCode several(const std::vector<Trial> &trials, bool inBytes) {
  ExitCode worst = ExitCode::NoPlan;
  std::string why;
  llvm::json::Array rows;
  for (const Trial &trial : trials) {
    for (const std::string &warning : trial.warnings)
      printWarning(trial.name + ": " + warning);
    llvm::json::Object row = trialJson(trial, inBytes);
    row["name"] = trial.name;
    rows.push_back(std::move(row));
    if (trial.valid() && worst == ExitCode::NoPlan)
      worst = ExitCode::Success;
    const bool bad =
        !trial.valid() && trial.why.code != ExitCode::NoPlan && trial.why.code != ExitCode::Usage;
    if (bad && why.empty()) {
      worst = trial.why.code;
      why = trial.name + ": " + trial.why.message;
    }
  }
  if (json)
    llvm::outs() << printJson(llvm::json::Object{
        {"schema_version", 1}, {"options", optionsJson()}, {"schedules", std::move(rows)}});
  else
    printComparison(llvm::outs(), trials, inBytes);
  if (worst == ExitCode::NoPlan)
    why = "none of the schedules fits";
  printVerdict(worst == ExitCode::Success, why, json);
  return worst;
}

llvm::Expected<ExitCode> listSchedules() {
  if (json)
    llvm::outs() << printJson(
        llvm::json::Object{{"schema_version", 1}, {"schedules", generatorsJson()}});
  else
    printGenerators(llvm::outs());
  return ExitCode::Success;
}

llvm::Expected<ExitCode> run() {
  if (list)
    return listSchedules();
  if (schedules.empty())
    return makeError(ExitCode::Usage, "missing argument NAME|FILE.csv",
                     "pipe-schedule --list names the schedules");
  llvm::Expected<TrialRequest> request = readRequest();
  if (!request)
    return request.takeError();
  const std::vector<std::string> names = askedFor();
  for (const StringOption *option : {&csv, &comms, &svg, &trace, &programFile})
    if (given(*option) && names.size() > 1)
      return failf(ExitCode::Usage, "{}: expected one schedule, got {}",
                   spelledOption(option->ArgStr), names.size());
  if (request->costs.operators) {
    llvm::Expected<PlannedTraining> training = plan(*request, names);
    if (!training)
      return noneFits(training.takeError());
    if (llvm::Error error = writeFiles(trialOf(*training), /*inBytes=*/true))
      return std::move(error);
    return planned(*training);
  }
  if (llvm::is_contained(names, "auto")) {
    if (names.size() > 1)
      return failf(ExitCode::Usage, "auto: expected it alone, got {} schedules", names.size());
    llvm::Expected<AutoTrial> found = searchSchedules(*request);
    if (!found)
      return noneFits(found.takeError());
    if (llvm::Error error = writeFiles(found->trial, request->costs.inBytes))
      return std::move(error);
    return best(*found, request->costs.inBytes);
  }
  std::vector<Trial> trials;
  for (const std::string &name : names) {
    llvm::Expected<Trial> trial = trySchedule(name, *request);
    if (trial) {
      trials.push_back(std::move(*trial));
      continue;
    }
    // In a comparison a schedule that there is not for these numbers has a row that says so.
    if (names.size() == 1 || !findGenerator(name))
      return trial.takeError();
    Trial &without = trials.emplace_back();
    without.name = name;
    without.why = describe(trial.takeError());
  }
  const bool inBytes = request->costs.inBytes;
  if (trials.size() > 1)
    return several(trials, inBytes);
  if (llvm::Error error = writeFiles(trials[0], inBytes))
    return std::move(error);
  return one(trials[0], inBytes);
}

std::vector<std::string> generatorNames() {
  std::vector<std::string> names{"all", "auto"};
  for (const Generator &generator : generators())
    names.push_back(generator.name.str());
  return names;
}

} // namespace

int main(int argc, char **argv) {
  ToolInfo info;
  info.name = "pipe-schedule";
  info.description = "makes or reads compute schedules, checks, simulates, compares and draws them";
  info.usage = "NAME|FILE.csv[,...] [options]";
  info.examples = {
      "pipe-schedule 1f1b --ranks 4 --microbatches 8",
      "pipe-schedule all --ranks 8 --microbatches 32 --costs f=14.5,i=15.6,w=9.3,comm=0.3",
      "pipe-schedule zb-v --ranks 8 --microbatches 16 --svg zb-v.svg",
      "pipe-schedule table.csv --json",
  };
  info.words["NAME"] = generatorNames();
  return plainToolMain(argc, argv, info, run);
}
