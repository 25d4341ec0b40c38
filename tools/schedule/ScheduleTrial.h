// One schedule generated or read, checked and simulated.
#pragma once

#include "ir/schedule/Generators.h"
#include "ir/schedule/TableCheck.h"
#include "tools/schedule/ScheduleCostsText.h"

#include <optional>

namespace pipec {

/// What the command line says; 0: nothing.
struct TrialRequest {
  size_t ranks = 0, stages = 0;
  int64_t microBatches = 0;
  CostsText costs;
  int64_t memoryLimit = std::numeric_limits<int64_t>::max(); // in the unit of `costs`
  PairRule pairs = PairRule::Split;
  bool program = false;       // make one, whatever the costs
  bool timeAsProgram = false; // so, whatever the costs
};

/// The number of stages that was said, or that the costs are of; 0: neither. Errors: Usage when the
/// two differ.
llvm::Expected<size_t> stagesAsked(const TrialRequest &asked);

struct Trial {
  std::string name; // as it was asked for
  bool generated = false;
  std::optional<Schedule> schedule;       // once it could be read or made
  std::optional<TableShape> shape;        // once its table holds together
  std::optional<Timing> timing;           // once it runs to its end
  std::optional<ScheduleProgram> program; // where that is a program's
  ScheduleCosts costs;
  int64_t lowerBound = 0;            // with a timing
  bool wholeMemory = false;          // the timing's peaks are of all that ranks hold
  std::vector<std::string> warnings; // of the checker
  /// Empty when it is valid; else what is wrong with it, and the code that means.
  ErrorText why{ExitCode::Success, "", ""};

  bool valid() const { return why.code == ExitCode::Success; }
  size_t ranks() const { return schedule->ranks.size(); }
};

/// `name`: a generator's, or a CSV file ("-": stdin). What is wrong with the schedule itself is in
/// Trial::why: Unreadable for text that is no table, BadArtifact for a table that is not complete
/// or cannot run, NoPlan for one that needs more memory than there is. Errors: Usage for a name
/// that there is not and for numbers that do not fit together; IO.
llvm::Expected<Trial> trySchedule(const std::string &name, const TrialRequest &request);

/// The same for what a generator has made for the request.
llvm::Expected<Trial> tryMade(const std::string &generator, Schedule schedule,
                              const TrialRequest &request);

/// "4 micro-batches" or "1.2 GiB".
std::string memoryText(int64_t memory, bool inBytes);

} // namespace pipec
