// Every schedule that pipec can make, by name. A generator is a pure function from a shape (and
// costs, where it looks at them) to the ranks' actions; each is a file of ir/schedule/generators
// and a line of the table.
#pragma once

#include "ir/schedule/Timing.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <limits>

namespace pipec {

/// Where stages go: stage s of `ranks * chunks`.
///   Loop  rank s mod ranks: 0 1 2 3 0 1 2 3
///   V     there and back, two chunks: 0 1 2 3 3 2 1 0
enum class Placement { Loop, V };
std::vector<size_t> rankOfStages(Placement placement, size_t ranks, size_t chunks);

struct ScheduleRequest {
  size_t ranks = 1;
  size_t chunks = 1; // stages per rank
  int64_t microBatches = 1;
  /// Of every stage; generators that choose by time or memory need them, the others ignore them.
  ScheduleCosts costs;
  /// Most bytes of activations that a rank may hold, for generators that choose by memory.
  int64_t memoryLimit = std::numeric_limits<int64_t>::max();
  /// How messages write memory; null: "5 bytes".
  std::string (*memoryText)(int64_t memory) = nullptr;
  /// Actions that a generator which searches may play to improve on what it has: bounds its time.
  size_t refineActions = 2'000'000;
  /// Asked now and then by generators that search: true ends the search with the best found so far.
  std::function<bool()> timeIsUp;
  /// Set with the error NoPlan where not null: the least limit found that would do.
  int64_t *leastMemory = nullptr;

  size_t stages() const { return ranks * chunks; }
};

struct Generator {
  llvm::StringLiteral name;    // as --schedule takes it
  llvm::StringLiteral summary; // one clause, for --list
  llvm::StringLiteral source;  // where it was published
  Placement placement = Placement::Loop;
  size_t leastChunks = 1, mostChunks = 1; // stages per rank; 0: any number
  bool looksAtCosts = false;
  llvm::Expected<Schedule> (*make)(const ScheduleRequest &) = nullptr;
  bool inference = false; // no backward
};

llvm::ArrayRef<Generator> generators();
/// Null when there is none of that name; `nearest` (may be null) is set to a similar one.
const Generator *findGenerator(llvm::StringRef name, std::string *nearest = nullptr);

/// Checks the request against the generator's row, then calls it. Errors: Usage naming what does
/// not fit and what would; NoPlan when no order stays within the memory limit, with the least limit
/// that would do.
llvm::Expected<Schedule> makeSchedule(const Generator &generator, const ScheduleRequest &request);

} // namespace pipec
