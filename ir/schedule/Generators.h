// All schedules that pipec can generate, by name. A generator is a pure function from a shape (and
// costs, if it uses them) to the ranks' actions. A new one is a file of ir/schedule/generators,
// which has its row of the table, and a line in generators/Generators.def.
#pragma once

#include "ir/schedule/Timing.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <limits>

namespace pipec {

/// Placement of stages: the rank of stage s of `ranks * chunks`.
///   Loop  rank s mod ranks: 0 1 2 3 0 1 2 3
///   V     there and back, two chunks: 0 1 2 3 3 2 1 0
enum class Placement { Loop, V };
std::vector<size_t> rankOfStages(Placement placement, size_t ranks, size_t chunks);

struct ScheduleRequest {
  size_t ranks = 1;
  size_t chunks = 1; // stages per rank
  int64_t microBatches = 1;
  /// Costs of every stage. Generators that choose by time or memory need them; the others ignore
  /// them.
  ScheduleCosts costs;
  /// The limit for bytes of activations on a rank, for generators that choose by memory.
  int64_t memoryLimit = std::numeric_limits<int64_t>::max();
  /// The form of memory in messages; null: "5 bytes".
  std::string (*memoryText)(int64_t memory) = nullptr;
  /// Limit of actions that a searching generator may simulate to improve its result. It bounds the
  /// time.
  size_t refineActions = 2'000'000;
  /// Called now and then by searching generators: true ends the search with the best result so far.
  std::function<bool()> timeIsUp;
  /// If not null, set with the error NoPlan: the least memory limit that was found to suffice.
  int64_t *leastMemory = nullptr;

  size_t stages() const { return ranks * chunks; }
};

/// A row of the table.
struct Generator {
  static constexpr size_t kAny = 0;

  llvm::StringLiteral name;    // the value of --schedule
  llvm::StringLiteral summary; // one clause, for --list
  llvm::StringLiteral source;  // where it was published
  Placement placement = Placement::Loop;
  size_t leastChunks = 1, mostChunks = 1; // stages per rank; kAny: any number
  bool looksAtCosts = false;
  llvm::Expected<Schedule> (*make)(const ScheduleRequest &) = nullptr;
  bool inference = false; // no backward
};

llvm::ArrayRef<Generator> generators();
/// Null if no generator has that name; then `nearest` (may be null) is set to a similar name.
const Generator *findGenerator(llvm::StringRef name, std::string *nearest = nullptr);

/// The name in the table's letters, for one in others: "1f1b" of "1F1B". Any other text stays.
std::string asNamedInTable(llvm::StringRef name);

/// Checks the request against the generator's row, then calls the generator. Errors: Usage naming
/// what does not fit and what would; NoPlan if no order stays within the memory limit, with the
/// least limit that would suffice.
llvm::Expected<Schedule> makeSchedule(const Generator &generator, const ScheduleRequest &request);

} // namespace pipec
