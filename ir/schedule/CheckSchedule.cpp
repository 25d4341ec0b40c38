#include "ir/schedule/CheckSchedule.h"

#include "ir/schedule/Lower.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/ProgramCheck.h"
#include "ir/support/Try.h"

namespace pipec {

llvm::Expected<Program> checkSchedule(llvm::StringRef csv, const Plan &plan) {
  Schedule schedule = TRY(scheduleFromCsv(csv));
  RunShape shape;
  shape.microBatches = plan.microBatches;
  if (plan.training)
    shape = trainingShape(plan, schedule, plan.microBatches, /*optimizer=*/true);
  llvm::Expected<Program> program = lower(schedule, plan, shape);
  if (!program) // lower() treats the schedule as a user's choice; here it is a part of the artifact
    return makeError(ExitCode::BadArtifact, describe(program.takeError()).message);
  TRY(check(*program, plan, shape));
  return program;
}

} // namespace pipec
