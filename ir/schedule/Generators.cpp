#include "ir/schedule/Generators.h"

#include "ir/schedule/generators/GeneratorFunctions.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

namespace pipec {

namespace {

llvm::Error checkRequest(const Generator &generator, const ScheduleRequest &request) {
  const std::string name = generator.name.str();
  if (request.ranks < 1 || request.chunks < 1 || request.microBatches < 1)
    return failf(ExitCode::Usage,
                 "{}: expected at least one rank, stage per rank and micro-batch, got {}, {}, {}",
                 name, request.ranks, request.chunks, request.microBatches);
  const bool tooMany =
      generator.mostChunks != Generator::kAny && request.chunks > generator.mostChunks;
  if (request.chunks < generator.leastChunks || tooMany)
    return failf(ExitCode::Usage, "{}: expected {} {} per rank, got {}", name,
                 generator.mostChunks == generator.leastChunks
                     ? std::to_string(generator.leastChunks)
                     : fmt::format("at least {}", generator.leastChunks),
                 generator.mostChunks == 1 ? "stage" : "stages", request.chunks);
  if (generator.looksAtCosts && request.costs.stages.size() != request.stages())
    return failf(ExitCode::Usage, "{}: expected the costs of {} stages, got {}", name,
                 request.stages(), request.costs.stages.size());
  return llvm::Error::success();
}

} // namespace

std::vector<size_t> rankOfStages(Placement placement, size_t ranks, size_t chunks) {
  std::vector<size_t> result;
  for (size_t s = 0; s < ranks * chunks; ++s)
    result.push_back(placement == Placement::V && s / ranks % 2 == 1 ? ranks - 1 - s % ranks
                                                                     : s % ranks);
  return result;
}

llvm::ArrayRef<Generator> generators() {
  // Built on first use: no static constructors.
  static const std::vector<Generator> table = {
#define GENERATOR(function) function(),
#include "ir/schedule/generators/Generators.def"
#undef GENERATOR
  };
  return table;
}

const Generator *findGenerator(llvm::StringRef name, std::string *nearest) {
  for (const Generator &generator : generators())
    if (generator.name == name)
      return &generator;
  if (nearest) {
    std::vector<std::string> names;
    for (const Generator &generator : generators())
      names.push_back(generator.name.str());
    *nearest = nearestName(name.lower(), names);
  }
  return nullptr;
}

std::string asNamedInTable(llvm::StringRef name) {
  const Generator *generator = findGenerator(name.lower());
  return generator ? generator->name.str() : name.str();
}

llvm::Expected<Schedule> makeSchedule(const Generator &generator, const ScheduleRequest &request) {
  TRY(checkRequest(generator, request));
  return generator.make(request);
}

} // namespace pipec
