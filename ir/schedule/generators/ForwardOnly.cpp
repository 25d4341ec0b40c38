#include "ir/schedule/ForwardOnly.h"

#include "ir/schedule/generators/GeneratorFunctions.h"

namespace pipec {

namespace {

llvm::Expected<Schedule> makeForwardOnly(const ScheduleRequest &request) {
  return forwardOnly({request.stages(), request.microBatches,
                      rankOfStages(Placement::Loop, request.ranks, request.chunks), request.ranks});
}

} // namespace

Generator forwardOnlyGenerator() {
  return {.name = "forward-only",
          .summary = "inference: every stage runs every micro-batch once",
          .source = "",
          .mostChunks = Generator::kAny,
          .make = makeForwardOnly,
          .inference = true};
}

} // namespace pipec
