// Ranks that run what is ready: every program ends, in an order that its values allow, with no
// stage above its limit.
#include "runtime/DynamicOrder.h"

#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/SeparateLanes.h"
#include "tests/support/Matchers.h"
#include "tests/support/RandomPrograms.h"
#include "tests/support/SamplePlan.h"

#include <random>

namespace pipec {
namespace {

/// Ranks that run their steps one at a time, in an order drawn by `random`.
class Ranks {
public:
  Ranks(const Program &program, const Plan &plan, const RunShape &shape, int64_t inFlight)
      : program_(separateLanes(program)), full_(program_.lanes.size()), shape_(shape),
        inFlight_(inFlight) {
    for (size_t rank = 0; rank < program_.ranks.size(); ++rank)
      resolved_.push_back(llvm::cantFail(resolve(program_, rank, plan, shape.microBatches)));
    for (const RankProgram &each : resolved_) {
      orders_.emplace_back(each, inFlight);
      orders_.back().begin();
      ran_.emplace_back(each.steps.size(), false);
    }
  }

  void run(std::mt19937 &random) {
    std::vector<size_t> arrived(program_.groups.size()); // members that wait in a collective
    std::vector<std::optional<size_t>> inside(orders_.size());
    size_t idle = 0;
    while (idle < 1000 && !isFinished()) {
      const size_t rank = random() % orders_.size();
      ++idle;
      if (inside[rank]) {
        const Step &step = resolved_[rank].steps[*inside[rank]];
        if (arrived[step.group] < program_.groups[step.group].size() * (1 + rounds_[rank]))
          continue;
        ++rounds_[rank];
        orders_[rank].done(*inside[rank]);
        inside[rank].reset();
        idle = 0;
        continue;
      }
      const auto next = orders_[rank].next([&](size_t lane) { return bool(full_[lane]); });
      if (!next)
        continue;
      idle = 0;
      begin(rank, *next);
      if (resolved_[rank].steps[*next].kind == OpKind::Norm) {
        ++arrived[resolved_[rank].steps[*next].group];
        inside[rank] = next;
        continue;
      }
      orders_[rank].done(*next);
    }
    EXPECT_TRUE(isFinished()) << "no rank can go on";
    for (const std::vector<bool> &steps : ran_)
      EXPECT_EQ(llvm::count(steps, false), 0);
  }

  size_t mostInFlight = 0;

private:
  bool isFinished() const {
    return llvm::all_of(orders_, [](const DynamicOrder &each) { return each.isFinished(); });
  }

  void begin(size_t rank, size_t index) {
    const Step &step = resolved_[rank].steps[index];
    EXPECT_FALSE(ran_[rank][index]) << "a step ran twice";
    ran_[rank][index] = true;
    const std::pair key(step.stage, step.microBatch);
    auto expectDone = [&](OpKind kind) {
      EXPECT_TRUE(done_[kind].count(key))
          << "stage " << step.stage << ", micro-batch " << step.microBatch;
    };
    if (step.kind == OpKind::Send)
      full_[step.lane] = true;
    else if (step.kind == OpKind::Take)
      full_[step.lane] = false;
    if (!isCompute(step.kind))
      return;
    if (step.kind == OpKind::Forward) {
      EXPECT_EQ(step.microBatch, forwards_[step.stage]++) << "forwards of a stage out of order";
      ++open_[step.stage];
      mostInFlight = std::max(mostInFlight, open_[step.stage]);
      if (shape_.train) {
        EXPECT_LE(open_[step.stage], static_cast<size_t>(inFlight_));
      }
    } else {
      expectDone(OpKind::Forward);
    }
    if (step.kind == OpKind::WeightGrad)
      expectDone(OpKind::InputGrad);
    const bool splits = splitStages_.count(step.stage) > 0;
    if (step.kind == OpKind::InputGrad)
      splitStages_.insert(step.stage);
    if (step.kind == OpKind::WeightGrad || (step.kind == OpKind::Backward && !splits))
      --open_[step.stage];
    done_[step.kind].insert(key);
  }

  Program program_;
  std::vector<RankProgram> resolved_;
  std::vector<DynamicOrder> orders_;
  std::vector<char> full_; // by lane
  RunShape shape_;
  int64_t inFlight_;
  std::vector<std::vector<bool>> ran_;
  std::map<OpKind, std::set<std::pair<size_t, int64_t>>> done_;
  std::map<size_t, int64_t> forwards_;
  std::map<size_t, size_t> open_, rounds_;
  std::set<size_t> splitStages_;
};

TEST(DynamicOrder, everyTrainingEnds) {
  std::mt19937 random(7);
  for (const char *name : {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-v", "v-half"})
    for (size_t stages : {1, 2, 4, 6})
      for (int64_t microBatches : {1, 2, 6})
        for (int64_t inFlight : {1, 2, 9}) {
          SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches, {} in flight", name, stages,
                                   microBatches, inFlight));
          auto placed =
              namedSchedule(name, stages, ranksThatFit(name, stages, stages), microBatches);
          if (!placed) {
            llvm::consumeError(placed.takeError());
            continue;
          }
          Plan plan = chainPlan(placed->rankOfStage);
          if (stages > 2)
            connect(plan, 0, {2, stages - 1});
          if (stages > 3 && placed->rankOfStage[0] != placed->rankOfStage[3])
            transmitWeight(plan, 0, {3});
          RunShape shape = trainingOf(microBatches);
          shape.norm = true;
          shape.recompute.assign(stages, false);
          shape.recompute[0] = true;
          const Program program = llvm::cantFail(lower(placed->schedule, plan, shape));
          Ranks ranks(program, plan, shape, inFlight);
          ranks.run(random);
        }
}

TEST(DynamicOrder, randomInferencesEnd) {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const Plan plan = randomPlan(random);
    RunShape run;
    run.microBatches = 5;
    const Program program = llvm::cantFail(lower(forwardOnly(plan, 5), plan, run));
    Ranks(program, plan, run, 1 + i % 3).run(random);
  }
}

/// Each stage's forwards are in an order of its own in the program.
TEST(DynamicOrder, randomTablesEnd) {
  std::mt19937 random(13);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    const Plan plan = randomTrainingPlan(random);
    RunShape shape = randomShape(random, plan);
    shape.replicas = 1;
    const Schedule table = randomSchedule(random, plan, shape);
    const Program program = llvm::cantFail(lower(table, plan, shape));
    Ranks(program, plan, shape, 1 + i % 3).run(random);
  }
}

/// Two ranks that each begin with another micro-batch may not wait for each other.
TEST(DynamicOrder, ranksThatBeginWithOthersEnd) {
  const Plan plan = chainPlan({0, 1});
  const RunShape shape = trainingOf(2);
  const Schedule table = llvm::cantFail(scheduleFromCsv("0F0,0F1,0B0,0B1\n1F1,1F0,1B1,1B0\n"));
  const Program program = llvm::cantFail(lower(table, plan, shape));
  std::mt19937 random(17);
  for (int64_t inFlight : {1, 2})
    Ranks(program, plan, shape, inFlight).run(random);
}

/// The first of two ranks may not run ahead of the second by more than the limit.
TEST(DynamicOrder, anInferenceWaitsForItsReader) {
  const Plan plan = chainPlan({0, 1});
  RunShape run;
  run.microBatches = 4;
  const Program program =
      separateLanes(llvm::cantFail(lower(forwardOnly({2, 4, {0, 1}, 2}), plan, run)));
  const RankProgram first = llvm::cantFail(resolve(program, 0, plan, 4));
  DynamicOrder order(first, 2);
  order.begin();
  std::vector<size_t> sent;
  auto holds = [&](size_t lane) { return llvm::is_contained(sent, lane); };
  auto play = [&] {
    while (const auto next = order.next(holds)) {
      if (first.steps[*next].kind == OpKind::Send)
        sent.push_back(first.steps[*next].lane);
      order.done(*next);
    }
  };
  play();
  EXPECT_EQ(sent.size(), 2u);
  sent.erase(sent.begin());
  play();
  EXPECT_EQ(sent.size(), 2u);
  sent.clear();
  play();
  EXPECT_TRUE(order.isFinished());
}

} // namespace
} // namespace pipec
