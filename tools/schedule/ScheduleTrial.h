// One schedule, generated or read, then checked and simulated.
#pragma once

#include "ir/schedule/Generators.h"
#include "ir/schedule/TableCheck.h"
#include "tools/schedule/ScheduleCostsText.h"

#include <optional>

namespace pipec {

/// The settings of the command line; 0: not given.
struct TrialRequest {
  size_t ranks = 0, stages = 0;
  int64_t microBatches = 0;
  CostsText costs;
  int64_t memoryLimit = std::numeric_limits<int64_t>::max(); // in the unit of `costs`
  PairRule pairs = PairRule::Split;
  bool program = false;       // make a program, whatever the costs
  bool timeAsProgram = false; // take its times from a program, whatever the costs
};

/// The given number of stages, or that of the costs; 0: neither. Errors: Usage if the two differ.
llvm::Expected<size_t> requestedStages(const TrialRequest &asked);
/// Those asked for, else as many as have `chunks` of the stages each, or 4 if no stages are known.
size_t ranksFor(const TrialRequest &asked, size_t stages, size_t chunks);
/// Those asked for, else two per rank.
int64_t microBatchesFor(const TrialRequest &asked, size_t ranks);

struct Trial {
  std::string name; // as given
  bool generated = false;
  std::optional<Schedule> schedule;       // if it could be read or generated
  std::optional<Program> written;         // if the file has a program
  std::optional<TableShape> shape;        // if its table is consistent
  std::optional<Timing> timing;           // if it runs to its end
  std::optional<ScheduleProgram> program; // if the timing is a program's
  ScheduleCosts costs;
  int64_t lowerBound = 0;            // set with a timing
  bool wholeMemory = false;          // the timing's peaks include all memory of the ranks
  std::vector<std::string> warnings; // of the checker
  /// Empty if it is valid; otherwise the problem and its code.
  ErrorText why{ExitCode::Success, "", ""};

  bool valid() const { return why.code == ExitCode::Success; }
  size_t ranks() const { return schedule->ranks.size(); }
};

/// `name` is a generator's, or a file with a CSV table or a program ("-": stdin). Problems of the
/// schedule itself are in Trial::why: Unreadable for text that is neither, BadArtifact for a table
/// that is not complete or cannot run, NoPlan for one that needs more memory than the limit.
/// Errors: Usage for an unknown name and for numbers that contradict each other; IO.
llvm::Expected<Trial> trySchedule(const std::string &name, const TrialRequest &request);

/// The same for a schedule that a generator has made for the request.
llvm::Expected<Trial> tryMade(const std::string &generator, Schedule schedule,
                              const TrialRequest &request);

/// "4 micro-batches" or "1.2 GiB".
std::string memoryText(int64_t memory, bool inBytes);

} // namespace pipec
