// Interleaved 1F1B (Megatron-LM, Narayanan et al., 2021) and looped breadth-first (Lamy-Poirier,
// 2022): several stages per rank, placed in a loop, so that the pipeline fills v times as fast.
//
// Interleaved: micro-batches go through the chunks in groups of p. The k-th forward of a rank is
// chunk (k mod pv) div p; the k-th backward visits the chunks the other way round. Where p does not
// divide m, Megatron refuses; here the last group is a short one: the word for the next multiple of
// p, without the micro-batches that there are not.
#include "ir/schedule/generators/GeneratorFunctions.h"

namespace pipec {

namespace {

llvm::Expected<Schedule> makeInterleaved(const ScheduleRequest &request) {
  const auto p = static_cast<int64_t>(request.ranks), v = static_cast<int64_t>(request.chunks);
  const int64_t m = (request.microBatches + p - 1) / p * p;
  Schedule schedule;
  for (int64_t r = 0; r < p; ++r) {
    std::vector<Action> &actions = schedule.ranks.emplace_back();
    auto emit = [&](ActionKind kind, int64_t k) {
      int64_t chunk = k % (p * v) / p;
      if (kind == ActionKind::FullBackward)
        chunk = v - 1 - chunk;
      const int64_t microBatch = k / (p * v) * p + k % p;
      if (microBatch < request.microBatches)
        actions.push_back({kind, static_cast<size_t>(chunk * p + r), microBatch});
    };
    const int64_t warmUp = std::min(2 * (p - 1 - r) + (v - 1) * p, m * v);
    for (int64_t k = 0; k < warmUp; ++k)
      emit(ActionKind::Forward, k);
    for (int64_t k = 0; k < m * v - warmUp; ++k) {
      emit(ActionKind::Forward, k + warmUp);
      emit(ActionKind::FullBackward, k);
    }
    for (int64_t k = m * v - warmUp; k < m * v; ++k)
      emit(ActionKind::FullBackward, k);
  }
  return schedule;
}

llvm::Expected<Schedule> makeLoopedBfs(const ScheduleRequest &request) {
  Schedule schedule;
  for (size_t r = 0; r < request.ranks; ++r) {
    std::vector<Action> &actions = schedule.ranks.emplace_back();
    for (size_t c = 0; c < request.chunks; ++c)
      for (int64_t m = 0; m < request.microBatches; ++m)
        actions.push_back({ActionKind::Forward, c * request.ranks + r, m});
    for (size_t c = request.chunks; c-- > 0;)
      for (int64_t m = 0; m < request.microBatches; ++m)
        actions.push_back({ActionKind::FullBackward, c * request.ranks + r, m});
  }
  return schedule;
}

} // namespace

Generator interleavedGenerator() {
  return {.name = "interleaved-1f1b",
          .summary = "1f1b over several stages per rank in a loop",
          .source = "Megatron-LM, Narayanan et al., 2021",
          .leastChunks = 2,
          .mostChunks = Generator::kAny,
          .make = makeInterleaved};
}

Generator loopedBfsGenerator() {
  return {.name = "looped-bfs",
          .summary = "breadth first over several stages per rank; holds every micro-batch",
          .source = "Breadth-First Pipeline Parallelism, Lamy-Poirier, 2022",
          .leastChunks = 2,
          .mostChunks = Generator::kAny,
          .make = makeLoopedBfs};
}

} // namespace pipec
