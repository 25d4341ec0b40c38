// Published device-placement instances: the known optimum, found and proved, and the assignment
// scored again.
#include "compiler/planner/Partition.h"
#include "tests/support/partition/ReadInstance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace pipec {
namespace {

struct KnownOptimum {
  const char *name;
  double bottleneck;
};

const KnownOptimum kKnown[] = {
    {"L_bert24_inference", 17.78990625},
    {"L_bert24_training", 41.7458125},
    {"L_resnet50_inference", 33.77466601562501},
    {"O_bert3_training", 65.30314912208605},
};

/// The benchmark's own words: an accelerator computes, receives every output once, and sends every
/// output once; a CPU computes.
double rescore(const PlacementInstance &instance, const std::vector<uint32_t> &where) {
  const PartitionProblem &problem = instance.problem;
  size_t accelerators = problem.kinds[0].count;
  std::map<uint32_t, double> compute, transfers;
  std::set<std::pair<uint32_t, uint32_t>> received;
  std::set<uint32_t> sent;
  for (uint32_t node = 0; node < problem.nodes(); ++node)
    compute[where[node]] += problem.time[where[node] < accelerators ? 0 : 1][node];
  for (auto [source, target] : problem.edges)
    if (where[source] != where[target]) {
      sent.insert(source);
      received.emplace(source, where[target]);
    }
  for (uint32_t node : sent)
    transfers[where[node]] += problem.outCost[node];
  for (auto [node, device] : received)
    transfers[device] += problem.outCost[node];
  double worst = 0;
  for (auto [device, time] : compute) {
    double moved = device < accelerators ? transfers[device] : 0;
    worst = std::max(worst, time + moved);
  }
  return worst;
}

class PartitionInstances : public testing::TestWithParam<KnownOptimum> {};

TEST_P(PartitionInstances, optimumIsFoundAndProved) {
  const KnownOptimum known = GetParam();
  const char *source = std::getenv("PIPEC_SOURCE");
  ASSERT_TRUE(source) << "PIPEC_SOURCE is not set";
  llvm::Expected<PlacementInstance> instance =
      readInstance(std::string(source) + "/tests/support/partition/" + known.name + ".json");
  ASSERT_TRUE(bool(instance)) << describe(instance.takeError()).message;
  PartitionOptions options;
  options.seconds = kUnlimited;
  llvm::Expected<PartitionResult> found = partitionContiguous(instance->problem, options);
  ASSERT_TRUE(bool(found)) << describe(found.takeError()).message;
  const double best = known.bottleneck;
  EXPECT_NEAR(found->bottleneck, best, 1e-9 * best);
  EXPECT_TRUE(found->proved);
  EXPECT_NEAR(found->lowerBound, best, 1e-9 * best);
  EXPECT_NEAR(rescore(*instance, found->device), best, 1e-9 * best);

  // Stages in order: no forward edge leads back, no device twice, colours together.
  std::map<uint32_t, size_t> place;
  for (size_t i = 0; i < found->stages.size(); ++i)
    EXPECT_TRUE(place.emplace(found->stages[i], i).second);
  std::map<int64_t, uint32_t> colors;
  for (uint32_t node = 0; node < instance->problem.nodes(); ++node) {
    int64_t color = instance->problem.color[node];
    ASSERT_TRUE(place.count(found->device[node]));
    if (color != -1) {
      EXPECT_EQ(colors.emplace(color, found->device[node]).first->second, found->device[node]);
    }
  }
  for (auto [from, to] : instance->problem.edges)
    if (!instance->isBackward[from] && !instance->isBackward[to]) {
      EXPECT_LE(place[found->device[from]], place[found->device[to]]);
    }
}

INSTANTIATE_TEST_SUITE_P(All, PartitionInstances, testing::ValuesIn(kKnown),
                         [](const auto &test) { return std::string(test.param.name); });

} // namespace
} // namespace pipec
