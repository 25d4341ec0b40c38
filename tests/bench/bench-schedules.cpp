// bench-schedules DIR: compares pipec's generators with the tables and published rates in DIR
// (zero_bubble.csv, generated/*.csv).
//
//   rates      bubble (longest span) of 1f1b, zb-h1, zb-h2 against the published columns, to 4
//   decimals, and of zb-auto within the memory
//              of ZB-1p and ZB-2p
//   tables     for each table, a generator with its shape whose makespan and peak memory on every
//   rank are at most the table's, at unit
//              cost and at the 12 cost sets
#include "ir/schedule/Generators.h"
#include "ir/schedule/TableCheck.h"
#include "ir/support/Error.h"
#include "ir/support/Llvm.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>

using namespace pipec;

namespace {

std::string readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    llvm::errs() << "error: " << path << ": " << buffer.getError().message() << "\n";
    exit(8);
  }
  return (*buffer)->getBuffer().str();
}

/// A row of zero_bubble.csv; times in nanoseconds.
struct CostSet {
  std::string model;
  int64_t hidden = 0, heads = 0, ranks = 0, microBatches = 0, latency = 0;
  StageCosts whole;
  std::map<std::string, double> rates;
};

int64_t nanoseconds(llvm::StringRef milliseconds) {
  double value = 0;
  milliseconds.getAsDouble(value);
  return static_cast<int64_t>(value * 1e6 + 0.5);
}

std::vector<CostSet> readCostSets(const std::string &path) {
  std::vector<CostSet> sets;
  std::string text = readFile(path);
  llvm::SmallVector<llvm::StringRef, 128> lines;
  llvm::StringRef(text).split(lines, '\n', -1, false);
  for (llvm::StringRef line : llvm::ArrayRef<llvm::StringRef>(lines).drop_front()) {
    llvm::SmallVector<llvm::StringRef, 24> cells;
    line.split(cells, ',');
    CostSet set;
    set.model = cells[0].str() + ", " + cells[4].str();
    cells[1].getAsInteger(10, set.hidden);
    cells[2].getAsInteger(10, set.heads);
    cells[3].getAsInteger(10, set.ranks);
    cells[4].getAsInteger(10, set.microBatches);
    const int64_t held = 34 * set.hidden + 5 * set.heads * 1024;
    set.whole = {nanoseconds(cells[5]), nanoseconds(cells[6]), nanoseconds(cells[7]), held,
                 held - 32 * set.hidden};
    set.latency = nanoseconds(cells[8]);
    if (sets.empty() || sets.back().model != set.model)
      sets.push_back(set);
    double rate = 0;
    cells[10].getAsDouble(rate);
    sets.back().rates[cells[9].str()] = rate;
  }
  return sets;
}

ScheduleRequest requestOf(const CostSet &set, size_t ranks, size_t chunks, int64_t microBatches) {
  ScheduleRequest request;
  request.ranks = ranks;
  request.chunks = chunks;
  request.microBatches = microBatches;
  request.costs = equalCosts(set.whole, set.latency, ranks, chunks);
  return request;
}

Timing timingOf(const std::string &name, const ScheduleRequest &request) {
  llvm::Expected<Schedule> schedule = makeSchedule(*findGenerator(name), request);
  if (!schedule) {
    llvm::errs() << "error: " << name << ": " << describe(schedule.takeError()).message << "\n";
    exit(1);
  }
  llvm::Expected<Timing> timing = timeSchedule(*schedule, request.costs);
  if (!timing) {
    llvm::errs() << "error: " << name << ": " << describe(timing.takeError()).message << "\n";
    exit(1);
  }
  return std::move(*timing);
}

int compareRates(const std::vector<CostSet> &sets) {
  int failed = 0;
  llvm::outs() << "model, m      1F1B    ZB-H1   ZB-H2   zb-auto p (ZB-1p)  zb-auto 2p (ZB-2p)  "
                  "makespan / bound at 2p\n";
  for (const CostSet &set : sets) {
    ScheduleRequest request = requestOf(set, set.ranks, 1, set.microBatches);
    llvm::outs() << llvm::left_justify(set.model, 12);
    for (auto [generator, column] :
         {std::pair{"1f1b", "1F1B"}, {"zb-h1", "ZB-H1"}, {"zb-h2", "ZB-H2"}}) {
      const double rate = timingOf(generator, request).bubbleLongestSpan();
      const bool same = std::abs(rate - set.rates.at(column)) <= 0.5e-4 + 1e-9;
      failed += !same;
      llvm::outs() << fmt::format("  {:.4f}{}", rate, same ? "" : "!");
    }
    for (int64_t times : {1, 2}) {
      request.memoryLimit = times * set.ranks * set.whole.heldByForward;
      const Timing timing = timingOf("zb-auto", request);
      const double published = set.rates.at(times == 1 ? "ZB-1p" : "ZB-2p");
      const bool good = timing.bubbleLongestSpan() <= published + 0.5e-4;
      failed += !good;
      llvm::outs() << fmt::format("  {:.4f} ({:.4f}){}", timing.bubbleLongestSpan(), published,
                                  good ? " " : "!");
      if (times == 2) {
        const int64_t bound =
            makespanLowerBound(request.costs, rankOfStages(Placement::Loop, request.ranks, 1),
                               request.ranks, request.microBatches, false);
        const double ratio = static_cast<double>(timing.makespan) / static_cast<double>(bound);
        failed += ratio > 1.01;
        llvm::outs() << fmt::format("  {:.5f}{}", ratio, ratio > 1.01 ? "!" : "");
      }
    }
    llvm::outs() << "\n";
  }
  return failed;
}

int compareTables(const std::string &directory, const std::vector<CostSet> &sets) {
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(directory, error), end; it != end && !error;
       it.increment(error))
    if (endsWith(it->path(), ".csv"))
      files.push_back(it->path());
  std::sort(files.begin(), files.end());
  CostSet unit;
  unit.model = "unit";
  unit.whole = {1000000, 1000000, 1000000, 1 << 20, 0};
  std::vector<CostSet> all{unit};
  all.insert(all.end(), sets.begin(), sets.end());
  int failed = 0;
  for (const std::string &file : files) {
    llvm::Expected<Schedule> table = scheduleFromCsv(readFile(file));
    llvm::Expected<TableShape> shape = table ? checkTable(*table, nullptr) : table.takeError();
    if (!shape) {
      llvm::errs() << file << ": " << describe(shape.takeError()).message << "\n";
      return 1;
    }
    const size_t ranks = table->ranks.size(), chunks = shape->stages / ranks;
    std::string who, worst;
    for (const Generator &generator : generators()) {
      if (generator.name == "forward-only" || chunks < generator.leastChunks ||
          (generator.mostChunks && chunks > generator.mostChunks))
        continue;
      bool atMost = true;
      for (const CostSet &set : all) {
        ScheduleRequest request = requestOf(set, ranks, chunks, shape->microBatches);
        llvm::Expected<Timing> theirs = timeSchedule(*table, request.costs);
        request.memoryLimit = *std::max_element(theirs->peakBytes.begin(), theirs->peakBytes.end());
        llvm::Expected<Schedule> made = makeSchedule(generator, request);
        if (!made) {
          llvm::consumeError(made.takeError());
          atMost = false;
          break;
        }
        llvm::Expected<Timing> ours = timeSchedule(*made, request.costs);
        if (!ours) {
          llvm::errs() << generator.name << ": " << describe(ours.takeError()).message << "\n";
          return 1;
        }
        bool good = ours->makespan <= theirs->makespan;
        for (size_t r = 0; r < ranks; ++r)
          good &= ours->peakBytes[r] <= theirs->peakBytes[r];
        if (!good) {
          atMost = false;
          break;
        }
      }
      if (atMost)
        who += (who.empty() ? "" : " ") + generator.name.str();
    }
    failed += who.empty();
    llvm::outs() << llvm::left_justify(llvm::sys::path::stem(file), 36) << "  "
                 << (who.empty() ? "NONE" : who) << "\n";
  }
  llvm::outs() << files.size() << " tables\n";
  return failed;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    llvm::errs() << "usage: bench-schedules DIR\n";
    return 2;
  }
  const std::string directory = argv[1];
  const std::vector<CostSet> sets = readCostSets(directory + "/zero_bubble.csv");
  const int failed = compareRates(sets) + compareTables(directory + "/generated", sets);
  llvm::outs() << (failed ? fmt::format("FAILED: {} values\n", failed) : "PASSED\n");
  return failed ? 1 : 0;
}
