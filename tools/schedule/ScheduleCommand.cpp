#include "tools/schedule/ScheduleCommand.h"

#include "ir/support/Try.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/Units.h"
#include "tools/schedule/ArtifactTrial.h"

namespace pipec {

namespace cl = llvm::cl;

namespace {

StringOption schedules(
    cl::Positional, cl::value_desc("NAME|FILE|MODEL.pipe,..."),
    cl::desc(
        "a schedule of --list, a table as PyTorch writes it, or a program as --program writes it "
        "(- reads stdin), or an artifact, whose schedule is simulated with the plan's costs; "
        "several are compared; `all` compares the whole list; `auto` takes the "
        "best one for these costs and this memory. Exits 5 if a table or a program is not valid, "
        "with its first wrong action or op, 3 if a text is neither, 12 if a schedule needs more "
        "than --memory-limit"));
IntegerOption ranks("ranks", cl::value_desc("R"), cl::desc("number of ranks (default: 4)"));
IntegerOption stages("stages", cl::value_desc("S"),
                     cl::desc("number of stages, a multiple of the ranks (default: the fewest per "
                              "rank that the schedule supports)"));
IntegerOption microBatches("microbatches", cl::value_desc("M"),
                           cl::desc("number of micro-batches (default: two per rank)"));
StringOption costs(
    "costs", cl::value_desc("FILE|f=T,i=T,w=T,comm=T,mem=SIZE"),
    cl::desc("costs of one micro-batch on a rank, shared equally by its stages: f forward, i input "
             "gradient, w weight gradient, comm a transfer between ranks, mem bytes of activations "
             "held, mem_i the part of mem that the input gradient frees; also bytes=SIZE of a "
             "value between ranks, rate=SIZE that a link carries per second, opt=T for the "
             "optimizer; a time without a unit is in milliseconds. A JSON file gives the costs of "
             "every stage, or the operators of a model as pipe-compile --train --emit-costs writes "
             "them; with operators, cuts, micro-batches, recomputation and shared weights are "
             "chosen together with the schedule (default: f=1,i=1,w=1,comm=0)"));
IntegerOption batch("batch", cl::value_desc("B"),
                    cl::desc("with a table of operators: samples per step (default: two "
                             "micro-batches per rank, each of the table's size)"));
StringOption
    recompute("recompute", cl::value_desc("never|always|except-last|auto|I,J,..."),
              cl::init("auto"),
              cl::desc("with a table of operators: which stages run their forward again in the "
                       "backward: none, all, all but for the last micro-batch, those of a list "
                       "(default: auto, those for which memory is too small)"));
StringOption tied("tied", cl::value_desc("transmit|replicate"),
                  cl::desc("with a table of operators: how weights that several stages read are "
                           "kept (default: whichever is faster)"));
StringOption
    memoryLimit("memory-limit", cl::value_desc("SIZE"),
                cl::desc("limit on the activations that a rank holds: a size if the costs contain "
                         "mem, otherwise a number of micro-batches; zb-auto and zb-v-auto choose "
                         "an order within it, every schedule is checked against it. With a table "
                         "of operators: limit of a device for weights, optimizer and activations"));
StringOption cluster("cluster", cl::value_desc("FILE.json"),
                     cl::desc("devices and links, see docs/cluster.md: ranks are placed on the "
                              "devices in order, and values use their links"));
StringOption
    pairs("pairs", cl::value_desc("split|fused|concurrent"), cl::init("split"),
          cl::desc("time of a forward and a backward in one cell: one after the other (split), as "
                   "one block (fused), or the longer of both (concurrent) (default: split)"));
StringOption csv("csv", cl::value_desc("FILE"),
                 cl::desc("write the table in the form that PyTorch reads"));
StringOption svg("svg", cl::value_desc("FILE"), cl::desc("write a picture"));
StringOption
    comms("comms", cl::value_desc("FILE"),
          cl::desc("write PyTorch's table with sends and receives (compute_comms), which PyTorch "
                   "runs unchanged; exits 2 if the table cannot express the schedule"));
StringOption programFile(
    "program", cl::value_desc("FILE"),
    cl::desc(
        "write the complete program of the ranks, with sends and receives, see docs/programs.md"));
StringOption trace("trace", cl::value_desc("FILE.json"),
                   cl::desc("write a trace for Perfetto or chrome://tracing"));
FlagOption list("list", cl::desc("list the schedules with their requirements and publications"));
FlagOption force("force", cl::desc("replace existing files"));
FlagOption json("json", cl::desc("print one JSON document instead of the tables"));

// The time of some schedules grows with the square of the ranks.
constexpr int64_t kMostRanks = 4096;

llvm::Expected<size_t> countOf(const IntegerOption &option, int64_t most = 1 << 20) {
  const int64_t number = option.getValue();
  if (given(option) && (number < 1 || number > most))
    return failf(ExitCode::Usage, "{}: expected 1 to {}, got {}", spelledOption(option.ArgStr),
                 most, number);
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
                     "for a limit in bytes, pass what a micro-batch holds: --costs mem=SIZE");
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

/// Errors: Usage for an empty name.
llvm::Error expectSchedules() {
  llvm::SmallVector<llvm::StringRef, 8> names;
  llvm::StringRef(schedules).split(names, ',');
  return expectNoneEmpty("NAME|FILE", schedules.getValue(), names);
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
      names.push_back(llvm::sys::fs::exists(part) ? part.str() : asNamedInTable(part));
    }
  return names;
}

/// Whether a search makes the schedule.
bool isSearched(llvm::StringRef name) {
  const Generator *generator = findGenerator(name);
  return generator && generator->looksAtCosts;
}

/// Stages and micro-batches of a schedule, at least.
struct TrialSize {
  size_t stages = 0;
  int64_t microBatches = 0;
};

/// Of the schedules asked for. A file has its own numbers.
llvm::Expected<TrialSize> sizeOf(const TrialRequest &request,
                                 const std::vector<std::string> &names) {
  const Generator *generator = names.size() == 1 ? findGenerator(names[0]) : nullptr;
  const bool isFile = names.size() == 1 && names[0] != "auto" && !generator;
  const size_t chunks = generator ? generator->leastChunks : 1;
  const size_t known = TRY(requestedStages(request));
  const size_t usedRanks = isFile ? request.ranks : ranksFor(request, known, chunks);
  return TrialSize{std::max(known ? known : chunks * usedRanks, usedRanks),
                   microBatchesFor(request, usedRanks)};
}

/// Refuses what would take minutes; such a table is too large to read, too. A program has ten ops
/// per action. Several schedules share the limit.
llvm::Error checkSize(const TrialRequest &request) {
  const bool isAuto = schedules == "auto";
  const std::vector<std::string> names = askedFor();
  const bool asProgram = isAuto || request.program || request.costs.transfers({0}).any();
  const size_t several = isAuto ? 1 : names.size(); // of schedules
  // A search makes hundreds of orders.
  const bool searches = llvm::any_of(names, isSearched);
  const double mostCells = isAuto        ? 1e6
                           : searches    ? 3e5 / double(several)
                           : asProgram   ? 3e6 / double(std::max<size_t>(1, several))
                           : several > 1 ? 2e7 / double(several)
                                         : 1e7;
  const TrialSize size = TRY(sizeOf(request, names));
  const size_t wide = std::max<size_t>(1, size.stages);
  if (double(wide) > mostCells)
    return makeError(ExitCode::Usage,
                     fmt::format("--stages: expected at most {}, got {}", size_t(mostCells), wide),
                     "pass fewer stages, or compare fewer schedules");
  if (double(wide) * double(size.microBatches) <= mostCells)
    return llvm::Error::success();
  const std::string of = fmt::format("{}{}", asProgram ? " as a program" : "",
                                     several > 1 ? fmt::format(" and {} schedules", several) : "");
  return makeError(
      ExitCode::Usage,
      fmt::format("--microbatches: expected at most {} for {} stages{}, got {}{}",
                  size_t(mostCells) / wide, wide, of, size.microBatches,
                  request.microBatches ? "" : ", two per rank"),
      searches && several > 1
          ? "compare schedules that no search makes, as in 1f1b,zb-h1, or fewer micro-batches: a "
            "schedule repeats itself in the middle"
          : "pass fewer micro-batches: a schedule repeats itself in the middle");
}

llvm::Expected<TrialRequest> readRequest() {
  CostsText read = TRY(readCosts(costs));
  TRY(expectOperators(read));
  if (given(cluster)) {
    if (read.latency || read.bytesPerSecond || read.exactTransfers.bytesPerSecond ||
        (read.exact && read.exact->latency))
      return makeError(ExitCode::Usage, "--cluster: expected costs without comm and rate, got both",
                       "the cluster file gives the cost of links");
    llvm::Expected<Cluster> links = readCluster(cluster);
    if (!links)
      return withContext(links.takeError(), "--cluster");
    read.cluster = std::move(*links);
  }
  TrialRequest request;
  request.costs = std::move(read);
  request.program = given(programFile) || given(comms);
  request.ranks = TRY(countOf(ranks, kMostRanks));
  request.stages = TRY(countOf(stages));
  const size_t count = TRY(countOf(microBatches));
  request.microBatches = static_cast<int64_t>(count);
  TRY(checkSize(request));
  int64_t limit = TRY(limitOf(request.costs));
  request.memoryLimit = limit;
  size_t rule = TRY(chooseByName("pairs", pairs, {"split", "fused", "concurrent"}));
  request.pairs = static_cast<PairRule>(rule);
  return request;
}

llvm::json::Object optionsAsGiven() {
  llvm::json::Object options{{"schedule", schedules.getValue()}, {"pairs", pairs.getValue()}};
  if (given(costs) || !isArtifact(schedules)) // an artifact has costs of its own
    options["costs"] = given(costs) ? costs.getValue() : "f=1,i=1,w=1,comm=0";
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

/// An artifact has a schedule and costs of its own.
llvm::Error expectArtifactAlone(const std::vector<std::string> &names) {
  const auto artifact = llvm::find_if(names, isArtifact);
  if (artifact == names.end())
    return llvm::Error::success();
  const std::string help = "pass " + *artifact + "/schedule.csv, its table";
  if (names.size() > 1)
    return makeError(
        ExitCode::Usage,
        fmt::format("{}: expected an artifact alone, got {} schedules", *artifact, names.size()),
        help);
  for (const cl::Option *option :
       std::initializer_list<const cl::Option *>{&ranks, &stages, &microBatches, &costs, &batch,
                                                 &recompute, &tied, &memoryLimit, &cluster, &pairs})
    if (given(*option))
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected it without an artifact, whose plan has the costs, "
                                   "got {}",
                                   spelledOption(option->ArgStr), *artifact),
                       help);
  return llvm::Error::success();
}

const StringOption *ifGiven(const StringOption &option) {
  return given(option) ? &option : nullptr;
}

} // namespace

llvm::Expected<ScheduleCommand> readScheduleCommand() {
  ScheduleCommand command;
  command.json = json;
  command.force = force;
  command.list = list;
  if (list)
    return command;
  if (schedules.empty())
    return makeError(ExitCode::Usage, "missing argument NAME|FILE",
                     "pipe-schedule --list names the schedules");
  TRY(expectSchedules());
  command.names = askedFor();
  TRY(expectArtifactAlone(command.names));
  command.request = TRY(readRequest());
  for (const StringOption *option : {&comms, &csv, &svg, &trace, &programFile})
    if (given(*option) && command.names.size() > 1)
      return failf(ExitCode::Usage, "{}: expected one schedule, got {}",
                   spelledOption(option->ArgStr), command.names.size());
  command.csv = ifGiven(csv);
  command.svg = ifGiven(svg);
  command.trace = ifGiven(trace);
  command.comms = ifGiven(comms);
  command.program = ifGiven(programFile);
  command.options = optionsAsGiven();
  return command;
}

llvm::Expected<TrainingWishes> readWishes(const TrialRequest &request,
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
  size_t samples = TRY(countOf(batch));
  wishes.batch = static_cast<int64_t>(samples);
  wishes.recompute = TRY(recomputeFromText(recompute));
  if (given(tied)) {
    size_t mode = TRY(chooseByName("tied", tied, {"transmit", "replicate"}));
    wishes.tied = mode == 0 ? Tie::Mode::Transmit : Tie::Mode::Replicate;
  }
  return wishes;
}

} // namespace pipec
