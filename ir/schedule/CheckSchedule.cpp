#include "ir/schedule/Program.h"

namespace pipec {

llvm::Expected<Program> checkSchedule(llvm::StringRef csv, const Plan &plan) {
  llvm::Expected<Schedule> schedule = scheduleFromCsv(csv);
  if (!schedule)
    return schedule.takeError();
  llvm::Expected<Program> program = lower(*schedule, plan, plan.microBatches);
  if (!program) // lower() treats the schedule as a user's choice; here it is a part of the artifact
    return makeError(ExitCode::BadArtifact, describe(program.takeError()).message);
  if (llvm::Error error = check(*program, plan, plan.microBatches))
    return std::move(error);
  return program;
}

} // namespace pipec
