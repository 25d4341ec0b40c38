#include "ir/schedule/ForwardOnly.h"

#include "ir/schedule/generators/GeneratorFunctions.h"

namespace pipec {

llvm::Expected<Schedule> makeForwardOnly(const ScheduleRequest &request) {
  return forwardOnly({request.stages(), request.microBatches,
                      rankOfStages(Placement::Loop, request.ranks, request.chunks), request.ranks});
}

} // namespace pipec
