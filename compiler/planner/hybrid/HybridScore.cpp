#include "compiler/planner/hybrid/HybridScore.h"

#include <algorithm>

namespace pipec {

namespace {

template <typename... Args>
llvm::Error brokenRule(fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::BadArtifact, format, std::forward<Args>(args)...);
}

} // namespace

llvm::Expected<HybridScore> scoreHybrid(const HybridProblem &problem,
                                        const std::vector<HybridStage> &stages) {
  constexpr size_t kNone = ~size_t(0);
  std::vector<size_t> stageOf(problem.nodes.size(), kNone);
  std::vector<const HybridVariant *> chosen(problem.nodes.size());
  HybridScore score;
  int64_t left = 0; // data degrees of the stages from here on
  for (size_t s = 0; s < stages.size(); ++s) {
    const HybridStage &stage = stages[s];
    if (stage.dataDegree < 1 || problem.microBatches % stage.dataDegree != 0)
      return brokenRule("stage {}: {} copies do not divide {} micro-batches", s, stage.dataDegree,
                        problem.microBatches);
    left += stage.dataDegree;
    score.devices += stage.dataDegree * stage.tensorDegree;
    for (size_t i = 0; i < stage.nodes.size(); ++i) {
      const uint32_t node = stage.nodes[i];
      if (stageOf[node] != kNone)
        return brokenRule("node {} is in two stages", problem.nodes[node].id);
      stageOf[node] = s;
      chosen[node] = &problem.nodes[node].variants.at(stage.tensorDegree).at(stage.variant[i]);
    }
  }
  for (size_t node = 0; node < stageOf.size(); ++node)
    if (stageOf[node] == kNone)
      return brokenRule("node {} is in no stage", problem.nodes[node].id);
  if (left > problem.microBatches)
    return brokenRule("{} copies of stages: there are {} micro-batches", left,
                      problem.microBatches);
  if (score.devices > problem.devices)
    return brokenRule("{} devices: there are {}", score.devices, problem.devices);

  std::vector<double> bytes(stages.size(), 0);
  auto sync = [](const std::map<uint32_t, double> &of, uint32_t node) {
    const auto found = of.find(node);
    return found == of.end() ? 0 : found->second;
  };
  for (const HybridEdge &edge : problem.edges) {
    const size_t from = stageOf[edge.from], to = stageOf[edge.to];
    if (from > to)
      return brokenRule("edge {} -> {} goes back from stage {} to stage {}", edge.from, edge.to,
                        from, to);
    if (from == to)
      continue;
    bytes[from] += 2 * (edge.bytes + sync(chosen[edge.from]->syncBackward, edge.to));
    bytes[to] += 2 * (edge.bytes + sync(chosen[edge.to]->syncForward, edge.from));
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto d = static_cast<double>(stages[s].dataDegree);
    const auto inFlight =
        static_cast<double>((left + stages[s].dataDegree - 1) / stages[s].dataDegree);
    left -= stages[s].dataDegree;
    double time = 0, memory = 0, resync = 0;
    for (uint32_t node : stages[s].nodes) {
      time += chosen[node]->time;
      memory += chosen[node]->bytesInFlight * inFlight + chosen[node]->fixedBytes;
      resync += 4 * (d - 1) / d * chosen[node]->parameterBytes /
                static_cast<double>(problem.microBatches);
    }
    score.value = std::max(score.value, time / d + (bytes[s] / d + resync) / problem.bandwidth);
    score.memory = std::max(score.memory, memory);
  }
  if (score.memory > problem.memory)
    return failf(ExitCode::NoPlan, "memory: a device needs {:.0f} bytes, it has {:.0f}",
                 score.memory, problem.memory);
  return score;
}

} // namespace pipec
