#include "ir/schedule/Generators.h"

#include "ir/schedule/generators/GeneratorFunctions.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

namespace pipec {

namespace {

constexpr size_t kAny = 0;

constexpr Generator kGenerators[] = {
    {"forward-only", "inference: every stage runs every micro-batch once", "", Placement::Loop, 1,
     kAny, false, makeForwardOnly, true},
    {"gpipe", "all forwards, then all backwards; holds every micro-batch",
     "GPipe, Huang et al., 2019", Placement::Loop, 1, 1, false, makeGPipe},
    {"1f1b", "one forward, one backward; holds ranks - rank micro-batches",
     "PipeDream-Flush, Narayanan et al., 2021", Placement::Loop, 1, 1, false, makeOneFOneB},
    {"eager-1f1b", "1f1b with twice the forwards ahead, to hide the latency of transfers",
     "DAPPLE, Fan et al., 2021; Alpa, Zheng et al., 2022", Placement::Loop, 1, 1, false,
     makeEagerOneFOneB},
    {"interleaved-1f1b", "1f1b over several stages per rank in a loop",
     "Megatron-LM, Narayanan et al., 2021", Placement::Loop, 2, kAny, false, makeInterleaved},
    {"interleaved-zb", "interleaved-1f1b with weight gradients deferred",
     "torch.distributed.pipelining, 2024", Placement::Loop, 2, kAny, false,
     makeInterleavedZeroBubble},
    {"looped-bfs", "breadth first over several stages per rank; holds every micro-batch",
     "Breadth-First Pipeline Parallelism, Lamy-Poirier, 2022", Placement::Loop, 2, kAny, false,
     makeLoopedBfs},
    {"zb-h1", "zero bubble by hand within 1f1b's memory",
     "Zero Bubble Pipeline Parallelism, Qi et al., 2023", Placement::Loop, 1, 1, false,
     makeZeroBubbleH1},
    {"zb-h2", "zero bubble by hand, about twice 1f1b's memory",
     "Zero Bubble Pipeline Parallelism, Qi et al., 2023", Placement::Loop, 1, 1, false,
     makeZeroBubbleH2},
    {"zb-auto", "zero bubble for given costs within a memory limit",
     "after Zero Bubble Pipeline Parallelism, Qi et al., 2023", Placement::Loop, 1, 1, true,
     makeAutoZeroBubble},
    {"zb-v", "zero bubble by hand on a V of two stages per rank",
     "Pipeline Parallelism with Controllable Memory, Qi et al., 2024", Placement::V, 2, 2, false,
     makeZeroBubbleV},
    {"zb-v-auto", "zero bubble on a V for given costs within a memory limit",
     "after Pipeline Parallelism with Controllable Memory, Qi et al., 2024", Placement::V, 2, 2,
     true, makeAutoZeroBubbleV},
    {"v-half", "a V that holds half of what 1f1b holds",
     "Pipeline Parallelism with Controllable Memory, Qi et al., 2024", Placement::V, 2, 2, true,
     makeVHalf},
    {"v-min", "a V that holds a third of what 1f1b holds",
     "Pipeline Parallelism with Controllable Memory, Qi et al., 2024", Placement::V, 2, 2, true,
     makeVMin},
    {"dualpipev", "a V with forwards and backwards in pairs", "DualPipe's V, DeepSeek, 2025",
     Placement::V, 2, 2, false, makeDualPipeV},
};

llvm::Error checkRequest(const Generator &generator, const ScheduleRequest &request) {
  const std::string name = generator.name.str();
  if (request.ranks < 1 || request.chunks < 1 || request.microBatches < 1)
    return failf(ExitCode::Usage,
                 "{}: expected at least one rank, stage per rank and micro-batch, got {}, {}, {}",
                 name, request.ranks, request.chunks, request.microBatches);
  const bool tooMany = generator.mostChunks != kAny && request.chunks > generator.mostChunks;
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

llvm::ArrayRef<Generator> generators() { return kGenerators; }

const Generator *findGenerator(llvm::StringRef name, std::string *nearest) {
  for (const Generator &generator : kGenerators)
    if (generator.name == name)
      return &generator;
  if (nearest) {
    std::vector<std::string> names;
    for (const Generator &generator : kGenerators)
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
