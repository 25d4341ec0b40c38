// Tables of actions in a random possible order: ranks run them in that order, and hold before every
// op what the simulator says. PIPEC_TEST_TABLES: the number of tables; default 30.
#include "ir/schedule/Schedule.h"
#include "ir/schedule/Simulate.h"
#include "tests/runtime/LayeredTraining.h"
#include "tests/support/Matchers.h"
#include "tests/support/RandomPrograms.h"

#include <cstdlib>
#include <numeric>

namespace pipec {
namespace {

using Kind = ActionKind;

/// What the random tables of a model are drawn from.
struct TablesOf {
  const char *name;
  Layers layers;
  size_t stages;
  bool ownRanks;   // each stage has a rank of its own
  bool recomputes; // some micro-batches of some stages
};

std::vector<size_t> randomRanks(std::mt19937 &random, const TablesOf &of) {
  const size_t ranks = of.ownRanks ? of.stages : 1 + below(random, of.stages);
  std::vector<size_t> rankOfStage(of.stages);
  for (size_t s = 0; s < of.stages; ++s)
    rankOfStage[s] = s < ranks ? s : below(random, ranks);
  std::shuffle(rankOfStage.begin(), rankOfStage.end(), random);
  return rankOfStage;
}

/// Takes any action that can run next until all have run.
Schedule randomTable(std::mt19937 &random, const TablesOf &of) {
  const std::vector<size_t> rankOfStage = randomRanks(random, of);
  const auto microBatches = static_cast<int64_t>(1 + below(random, 5));
  std::vector<Action> open;
  for (size_t s = 0; s < of.stages; ++s) {
    const bool isSplit = below(random, 2);
    for (int64_t k = 0; k < microBatches; ++k) {
      open.push_back({Kind::Forward, s, k});
      open.push_back({isSplit ? Kind::InputGrad : Kind::FullBackward, s, k});
      if (isSplit)
        open.push_back({Kind::WeightGrad, s, k});
      if (of.recomputes && below(random, 2))
        open.push_back({Kind::Recompute, s, k});
    }
  }
  auto isLeft = [&](Kind kind, size_t stage, int64_t k) {
    return llvm::is_contained(open, Action{kind, stage, k});
  };
  auto canRun = [&](const Action &action) {
    const size_t s = action.stage;
    const int64_t k = action.microBatch;
    switch (action.kind) {
    case Kind::Forward:
      return s == 0 || !isLeft(Kind::Forward, s - 1, k);
    case Kind::WeightGrad:
      return !isLeft(Kind::InputGrad, s, k);
    case Kind::Recompute:
      return !isLeft(Kind::Forward, s, k);
    default:
      return !isLeft(Kind::Forward, s, k) && !isLeft(Kind::Recompute, s, k) &&
             !isLeft(Kind::FullBackward, s + 1, k) && !isLeft(Kind::InputGrad, s + 1, k);
    }
  };
  Schedule table;
  table.ranks.resize(*std::max_element(rankOfStage.begin(), rankOfStage.end()) + 1);
  while (!open.empty()) {
    std::vector<Action> ready;
    llvm::copy_if(open, std::back_inserter(ready), canRun);
    const Action action = ready[below(random, ready.size())];
    llvm::erase_value(open, action);
    table.ranks[rankOfStage[action.stage]].push_back(action);
  }
  return table;
}

size_t numberOfTables() {
  const char *said = std::getenv("PIPEC_TEST_TABLES");
  return said ? std::strtoul(said, nullptr, 10) : 30;
}

/// Ops of each rank are the table's actions, and each began after the one before had ended.
void compareOrder(const Schedule &table, const RunTrace &trace) {
  ASSERT_EQ(trace.program.ranks.size(), table.ranks.size());
  for (size_t r = 0; r < table.ranks.size(); ++r) {
    std::vector<Action> ran;
    int64_t end = 0;
    for (size_t i = 0; i < trace.program.ranks[r].size(); ++i) {
      const Op &op = trace.program.ranks[r][i];
      if (!isCompute(op.kind))
        continue;
      ran.push_back({actionOf(op.kind), op.stage, op.microBatch});
      EXPECT_GE(trace.ranks[r][i].start, end) << "rank " << r << ", " << toString(op);
      end = trace.ranks[r][i].end;
    }
    EXPECT_EQ(ran, table.ranks[r]) << "rank " << r;
  }
}

class RandomTables : public testing::TestWithParam<TablesOf> {};

TEST_P(RandomTables, RunInTheirOrderAndHoldWhatIsSimulated) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const TablesOf &of = GetParam();
  const std::string artifact = compileLayers(of.layers, of.stages, RecomputeChoice::Never);
  ProgramCosts costs = costsOf(of.stages, of.recomputes);
  if (of.layers == Layers::Skip) { // its bytes are those of one micro-batch
    PipelineOptions options = ownMemoryOptions();
    options.microBatches = 1;
    options.scheduleName = "gpipe";
    const NotedRun whole = noteRun(artifact, options);
    options.scheduleName = "zb-h1";
    const NotedRun split = noteRun(artifact, options);
    const std::vector<int64_t> gradientBytes = costs.gradientBytes;
    costs = notedCosts(whole.plan, whole.step, split.step);
    costs.gradientBytes = gradientBytes;
    costs.room.clear(); // before the ops, not during them
  }
  for (size_t seed = 0; seed < numberOfTables() / 3; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const Schedule table = randomTable(random, of);
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, toCsv(table)));
    PipelineOptions options = ownMemoryOptions();
    options.scheduleCsv = toCsv(table);
    const NotedRun run = noteRun(artifact, options);
    compareOrder(table, run.step.trace);
    compareOps(run, costs);
    EXPECT_TRUE(succeeded(simulate(run.step.trace.program, run.plan, run.step.trace.shape, costs)));
    if (HasFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomTables,
                         testing::Values(TablesOf{"chain", Layers::TanhFirst, 4, false, false},
                                         TablesOf{"recompute", Layers::TanhFirst, 4, false, true},
                                         TablesOf{"skip", Layers::Skip, 3, true, false}),
                         [](const testing::TestParamInfo<TablesOf> &one) {
                           return std::string(one.param.name);
                         });

} // namespace
} // namespace pipec
