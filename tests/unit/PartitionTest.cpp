// The partition searches against all assignments there are, scored and judged by code of its own.
#include "compiler/planner/Partition.h"

#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace pipec {
namespace {

using Assignment = std::vector<uint32_t>;

size_t deviceCount(const PartitionProblem &problem) {
  size_t count = 0;
  for (const DeviceKind &kind : problem.kinds)
    count += kind.count;
  return count;
}

const DeviceKind &kindOfDevice(const PartitionProblem &problem, uint32_t device, size_t &index) {
  index = 0;
  while (device >= problem.kinds[index].count)
    device -= static_cast<uint32_t>(problem.kinds[index++].count);
  return problem.kinds[index];
}

double expectedLoad(const PartitionProblem &problem, const Assignment &where, uint32_t device) {
  size_t kind;
  const bool paysTransfers = kindOfDevice(problem, device, kind).paysTransfers;
  double compute = 0, in = 0, out = 0;
  for (size_t node = 0; node < problem.nodes(); ++node) {
    bool made = where[node] == device, takenHere = false, takenElsewhere = false;
    if (made)
      compute += problem.time[kind][node];
    for (auto [source, target] : problem.edges)
      if (source == node)
        (where[target] == device ? takenHere : takenElsewhere) = true;
    in += !made && takenHere ? problem.outCost[node] : 0;
    out += made && takenElsewhere ? problem.outCost[node] : 0;
  }
  return paysTransfers ? compute + in + out : compute;
}

double largestLoad(const PartitionProblem &problem, const Assignment &where) {
  double largest = 0;
  for (uint32_t device = 0; device < deviceCount(problem); ++device)
    largest = std::max(largest, expectedLoad(problem, where, device));
  return largest;
}

/// Most bytes on a device whose kind is limited.
double limitedBytes(const PartitionProblem &problem, const Assignment &where) {
  std::map<uint32_t, double> bytes;
  for (size_t node = 0; node < problem.nodes(); ++node)
    bytes[where[node]] += problem.memory[node];
  double most = 0;
  for (auto [device, used] : bytes) {
    size_t kind;
    if (kindOfDevice(problem, device, kind).memory < kUnlimited)
      most = std::max(most, used);
  }
  return most;
}

bool colorsHold(const PartitionProblem &problem, const Assignment &where) {
  std::map<int64_t, uint32_t> seen;
  for (size_t node = 0; node < problem.color.size(); ++node)
    if (problem.color[node] != -1 &&
        seen.emplace(problem.color[node], where[node]).first->second != where[node])
      return false;
  return true;
}

/// The devices can be ordered as the problem's order says.
bool contiguous(const PartitionProblem &problem, const Assignment &where) {
  std::set<std::pair<uint32_t, uint32_t>> before;
  for (auto [first, second] : problem.order)
    before.emplace(where[first], where[second]);
  std::set<uint32_t> left(where.begin(), where.end());
  while (!left.empty()) {
    auto first = std::find_if(left.begin(), left.end(), [&](uint32_t device) {
      return std::none_of(before.begin(), before.end(), [&](auto edge) {
        return edge.second == device && edge.first != device && left.count(edge.first);
      });
    });
    if (first == left.end())
      return false;
    left.erase(first);
  }
  return true;
}

bool memoryHolds(const PartitionProblem &problem, const Assignment &where) {
  std::map<uint32_t, double> bytes;
  for (size_t node = 0; node < problem.nodes(); ++node)
    bytes[where[node]] += problem.memory[node];
  return std::all_of(bytes.begin(), bytes.end(), [&](auto entry) {
    size_t kind;
    return entry.second <= kindOfDevice(problem, entry.first, kind).memory;
  });
}

template <typename Visit> void forAllAssignments(const PartitionProblem &problem, Visit visit) {
  Assignment where(problem.nodes(), 0);
  auto devices = static_cast<uint32_t>(deviceCount(problem));
  while (true) {
    visit(where);
    size_t node = 0;
    while (node < where.size() && ++where[node] == devices)
      where[node++] = 0;
    if (node == where.size())
      return;
  }
}

/// A small graph with everything there is, some of it absent in most rounds.
PartitionProblem randomProblem(std::mt19937 &random) {
  PartitionProblem problem;
  auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  auto n = static_cast<uint32_t>(3 + random() % 4);
  DeviceKind accelerator, other;
  accelerator.count = 2 + random() % 2;
  if (chance(70))
    accelerator.memory = 30 + random() % 60;
  other.count = accelerator.count == 2 ? 1 + random() % 2 : 1;
  other.paysTransfers = chance(50);
  if (chance(50))
    other.memory = 60;
  problem.kinds = {accelerator};
  if (chance(60))
    problem.kinds.push_back(other);
  problem.time.resize(problem.kinds.size());
  for (uint32_t node = 0; node < n; ++node) {
    for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
      double time = chance(25) ? 0 : static_cast<double>(random() % 100);
      problem.time[kind].push_back(kind ? time * 3 : time);
    }
    problem.memory.push_back(chance(20) ? 0 : random() % 40);
    problem.outCost.push_back(chance(30) ? 0 : random() % 50);
    for (uint32_t before = 0; before < node; ++before)
      if (chance(35))
        problem.edges.emplace_back(before, node);
  }
  const bool asEdges = chance(60); // a backward pass has edges that order nothing, or reversed
  for (auto [source, target] : problem.edges)
    if (asEdges || chance(50))
      problem.order.emplace_back(source, target);
    else if (chance(50))
      problem.order.emplace_back(target, source);
  if (chance(60))
    for (uint32_t node = 0; node < n; ++node)
      problem.color.push_back(chance(50) ? -1 : random() % 3);
  return problem;
}

TEST(Partition, equalsTheBestOfAllAssignments) {
  std::mt19937 random(11);
  int solved = 0, refused = 0;
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    PartitionProblem problem = randomProblem(random);
    double best = kUnlimited, leastBytes = kUnlimited;
    forAllAssignments(problem, [&](const Assignment &where) {
      if (!colorsHold(problem, where) || !contiguous(problem, where))
        return;
      leastBytes = std::min(leastBytes, limitedBytes(problem, where));
      if (memoryHolds(problem, where))
        best = std::min(best, largestLoad(problem, where));
    });
    llvm::Expected<PartitionResult> found = partitionContiguous(problem);
    if (best == kUnlimited) {
      ++refused;
      ASSERT_FALSE(bool(found));
      ErrorText error = describe(found.takeError());
      EXPECT_EQ(error.code, ExitCode::NoPlan);
      if (leastBytes < kUnlimited) {
        EXPECT_NE(error.message.find(fmt::format("at least {:.0f} bytes", leastBytes)),
                  std::string::npos)
            << error.message << ", least " << leastBytes;
      }
      continue;
    }
    ++solved;
    ASSERT_TRUE(bool(found)) << describe(found.takeError()).message;
    EXPECT_NEAR(found->bottleneck, best, 1e-9 * best);
    EXPECT_TRUE(found->proved);
    EXPECT_TRUE(colorsHold(problem, found->device));
    EXPECT_TRUE(contiguous(problem, found->device));
    EXPECT_TRUE(memoryHolds(problem, found->device));
    EXPECT_NEAR(largestLoad(problem, found->device), best, 1e-9 * best);
    EXPECT_LE(found->lowerBound, best * (1 + 1e-9));
  }
  EXPECT_GT(solved, 300);
  EXPECT_GT(refused, 30);
}

TEST(Partition, inOrderEqualsTheBestCutOfTheList) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    PartitionProblem problem = randomProblem(random);
    problem.kinds.resize(1);
    problem.time.resize(1);
    problem.kinds[0].count = 4;
    problem.color.clear();
    problem.order = problem.edges;
    double best = kUnlimited;
    for (uint32_t cuts = 0; cuts < 1u << (problem.nodes() - 1); ++cuts) {
      Assignment where{0};
      for (uint32_t node = 1; node < problem.nodes(); ++node)
        where.push_back(where.back() + (cuts >> (node - 1) & 1));
      bool fits = where.back() < 4 && memoryHolds(problem, where) && contiguous(problem, where);
      if (fits)
        best = std::min(best, largestLoad(problem, where));
    }
    llvm::Expected<PartitionResult> found = partitionInOrder(problem);
    if (best == kUnlimited) {
      EXPECT_TRUE(failedWith(std::move(found), ExitCode::NoPlan, "memory: expected more than"));
      continue;
    }
    ASSERT_TRUE(bool(found)) << describe(found.takeError()).message;
    EXPECT_NEAR(found->bottleneck, best, 2e-9 * best);
    EXPECT_NEAR(largestLoad(problem, found->device), best, 2e-9 * best);
    EXPECT_LE(found->lowerBound, best);
  }
}

/// A list with skips, as deep models are.
PartitionProblem longList(uint32_t n, std::mt19937 &random) {
  PartitionProblem problem;
  problem.kinds.resize(1);
  problem.kinds[0].count = 8;
  problem.time.resize(1);
  for (uint32_t node = 0; node < n; ++node) {
    problem.time[0].push_back(1 + random() % 100);
    problem.memory.push_back(random() % 10);
    problem.outCost.push_back(random() % 400);
    if (node > 0)
      problem.edges.emplace_back(node - 1, node);
    for (uint32_t reach : {6u, 60u, n})
      if (node > 2 && random() % reach < 3)
        problem.edges.emplace_back(node - 1 - random() % std::min(node - 1, reach), node);
  }
  problem.order = problem.edges;
  return problem;
}

TEST(Partition, inOrderAndExactAgreeOnAList) {
  std::mt19937 random(3);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    PartitionProblem problem =
        longList(700, random); // every node follows the one before: one order only
    if (round % 3 == 0)
      problem.kinds[0].memory = 480;
    llvm::Expected<PartitionResult> list = partitionInOrder(problem);
    llvm::Expected<PartitionResult> exact = partitionContiguous(problem);
    ASSERT_TRUE(bool(list)) << describe(list.takeError()).message;
    ASSERT_TRUE(bool(exact)) << describe(exact.takeError()).message;
    EXPECT_TRUE(exact->proved);
    EXPECT_NEAR(list->bottleneck, exact->bottleneck, 2e-9 * exact->bottleneck);
  }
}

TEST(Partition, whatOnlyFollowsAnotherDoesNotMultiplyTheSearch) {
  // A list in which each node has a cheap source of its own: 2^40 ideals and more.
  constexpr uint32_t kNodes = 40;
  PartitionProblem problem;
  problem.kinds.resize(1);
  problem.kinds[0].count = 4;
  problem.time.resize(1);
  std::mt19937 random(3);
  for (uint32_t node = 0; node < 2 * kNodes; ++node) {
    const bool source = node % 2 == 0;
    problem.time[0].push_back(source ? random() % 5 : 20 + random() % 30);
    problem.memory.push_back(0);
    problem.outCost.push_back(5);
    if (source)
      problem.edges.emplace_back(node, node + 1);
    else if (node > 1)
      problem.edges.emplace_back(node - 2, node);
  }
  problem.order = problem.edges;
  PartitionOptions options;
  options.bytes = 1 << 20;
  llvm::Expected<PartitionResult> found = partitionContiguous(problem, options);
  ASSERT_TRUE(bool(found)) << describe(found.takeError()).message;
  EXPECT_TRUE(found->proved);
  EXPECT_LE(found->items, kNodes);
  llvm::Expected<PartitionResult> list = partitionInOrder(problem, {});
  ASSERT_TRUE(bool(list)) << describe(list.takeError()).message;
  EXPECT_LE(found->bottleneck, list->bottleneck * (1 + 1e-9));
}

/// Lists of 12 nodes side by side, for 5 devices: 13^lists ideals.
PartitionProblem parallelLists(uint32_t lists) {
  std::mt19937 random(2);
  PartitionProblem problem;
  problem.kinds.resize(1);
  problem.kinds[0].count = 5;
  problem.time.resize(1);
  for (uint32_t node = 0; node < 12 * lists; ++node) {
    problem.time[0].push_back(1 + random() % 100);
    problem.memory.push_back(1);
    problem.outCost.push_back(random() % 30);
    if (node % 12)
      problem.edges.emplace_back(node - 1, node);
  }
  problem.order = problem.edges;
  return problem;
}

/// The limit counts work, so what is found and proved does not depend on the machine.
TEST(Partition, stopsAtItsLimitOfWorkWithABound) {
  const PartitionProblem problem = parallelLists(3);
  PartitionOptions options;
  options.seconds = 0.001; // one question, about 1,000 of 2,197 ideals
  llvm::Expected<PartitionResult> found = partitionContiguous(problem, options);
  ASSERT_TRUE(bool(found)) << describe(found.takeError()).message;
  EXPECT_FALSE(found->proved);
  EXPECT_TRUE(contiguous(problem, found->device));
  EXPECT_EQ(found->bottleneck, 427);
  EXPECT_NEAR(found->lowerBound, 373.2, 1e-9);
  options.seconds = kUnlimited;
  llvm::Expected<PartitionResult> best = partitionContiguous(problem, options);
  ASSERT_TRUE(bool(best)) << describe(best.takeError()).message;
  EXPECT_TRUE(best->proved);
  EXPECT_EQ(best->bottleneck, 397);
}

TEST(Partition, stopsAtItsLimitOfMemoryWithABound) {
  const PartitionProblem problem = parallelLists(12);
  PartitionOptions options;
  options.seconds = kUnlimited;
  options.bytes = 16 << 20;
  llvm::Expected<PartitionResult> found = partitionContiguous(problem, options);
  ASSERT_TRUE(bool(found)) << describe(found.takeError()).message;
  EXPECT_FALSE(found->proved);
  EXPECT_TRUE(contiguous(problem, found->device));
  EXPECT_NEAR(largestLoad(problem, found->device), found->bottleneck, 1e-9 * found->bottleneck);
  double sum = 0;
  for (double time : problem.time[0])
    sum += time;
  EXPECT_GE(found->lowerBound, sum / 5 * (1 - 1e-9));
  EXPECT_LE(found->lowerBound, found->bottleneck);
  EXPECT_LT(found->gap(), 0.5);
}

TEST(Partition, refusesWhatIsNoProblem) {
  PartitionProblem problem;
  problem.kinds.resize(1);
  problem.time = {{1, 2}};
  problem.memory = {0, 0};
  problem.outCost = {1};
  auto refused = [&](const char *text) {
    return failedWith(partitionContiguous(problem), ExitCode::Usage, text);
  };
  EXPECT_TRUE(refused("transfer costs: expected one for each of 2 nodes, got 1"));
  problem.outCost = {1, 1};
  problem.edges = {{0, 2}};
  EXPECT_TRUE(refused("edges: expected nodes below 2, got 0 -> 2"));
  problem.edges = {{0, 1}};
  problem.color = {4};
  EXPECT_TRUE(refused("colours: expected one for each of 2 nodes, got 1"));
  problem.color.clear();
  problem.time = {{1, std::nan("")}};
  EXPECT_TRUE(refused("times: expected 0 or more, got nan"));
  problem.time = {{1, kUnlimited}};
  EXPECT_TRUE(refused("times: expected 0 or more, got inf"));
}

} // namespace
} // namespace pipec
