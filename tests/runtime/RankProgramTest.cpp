// Names become indices: slots, their last reader, and values without readers.
#include "runtime/RankProgram.h"

#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/Lower.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/support/Matchers.h"
#include "tests/support/RunShapes.h"
#include "tests/support/SamplePlan.h"

namespace pipec {
namespace {

llvm::Expected<RankProgram> resolved(size_t ranks, size_t rank, int64_t microBatches) {
  SmallModel model;
  model.ranks = ranks;
  Plan plan = smallPlan(model);
  auto program = lower(forwardOnly(plan, microBatches), plan, inferenceOf(microBatches));
  if (!program)
    return program.takeError();
  return resolve(*program, rank, plan, microBatches);
}

/// Every slot is filled before it is read and emptied by exactly one reader, the last.
void expectSlotsAreUsedOnce(const RankProgram &program) {
  enum State { Empty, Full, Done };
  std::vector<State> slots(program.slots, Empty);
  auto fill = [&](size_t slot) {
    EXPECT_EQ(slots[slot], Empty);
    slots[slot] = Full;
  };
  auto read = [&](size_t slot, bool last) {
    EXPECT_EQ(slots[slot], Full);
    if (last)
      slots[slot] = Done;
  };
  for (const Step &step : program.steps) {
    for (const InputSource &input : step.inputs)
      if (!input.userInput)
        read(input.index, input.last);
    for (const OutputTarget &target : step.outputs)
      for (size_t slot : target.slots)
        fill(slot);
    if (step.kind == OpKind::Take)
      fill(step.slot);
    if (step.kind == OpKind::Send)
      read(step.slot, step.last);
  }
  for (State state : slots)
    EXPECT_EQ(state, Done);
}

TEST(RankProgram, SlotsAreFreedByTheirLastReader) {
  for (size_t ranks : {1, 2, 3})
    for (size_t rank = 0; rank < ranks; ++rank) {
      auto program = resolved(ranks, rank, 4);
      ASSERT_TRUE(succeeded(program));
      expectSlotsAreUsedOnce(*program);
    }
}

TEST(RankProgram, ChannelsInsideARankCostNoOp) {
  auto program = resolved(1, 0, 2);
  ASSERT_TRUE(succeeded(program));
  EXPECT_EQ(program->steps.size(), 6u);
  EXPECT_EQ(program->slots, 6u);
  EXPECT_EQ(program->stages, (std::vector<size_t>{0, 1, 2}));
}

TEST(RankProgram, LeavesAndUserInputsAreIndices) {
  auto program = resolved(3, 1, 1);
  ASSERT_TRUE(succeeded(program));
  const Step *forward = nullptr;
  for (const Step &step : program->steps)
    if (step.kind == OpKind::Forward)
      forward = &step;
  ASSERT_TRUE(forward);
  ASSERT_EQ(forward->inputs.size(), 2u);
  EXPECT_FALSE(forward->inputs[0].userInput);
  EXPECT_TRUE(forward->inputs[1].userInput);
  EXPECT_EQ(forward->inputs[1].index, 1u);
}

TEST(RankProgram, AMissingValueIsAnInternalError) {
  Plan plan = smallPlan({});
  Program program;
  program.ranks = {{}, {Op{OpKind::Forward, 1, 0, 0, 0}}, {}};
  EXPECT_TRUE(failedWith(resolve(program, 1, plan, 1), ExitCode::Internal,
                         "stage 1 reads channel 0 of micro-batch 0"));
}

TEST(RankProgram, GradientsGoFromReaderToReaderThroughOneSlot) {
  // Channel 1 goes from stage 0 to stages 1 and 2.
  Plan plan = chainPlan({0, 1, 1});
  connect(plan, 0, {1, 2});
  RunShape shape;
  shape.train = shape.norm = true;
  shape.microBatches = 1;
  Schedule schedule;
  using enum ActionKind;
  schedule.ranks = {{{Forward, 0, 0}, {FullBackward, 0, 0}},
                    {{Forward, 1, 0},
                     {Forward, 2, 0},
                     {InputGrad, 2, 0},
                     {WeightGrad, 2, 0},
                     {FullBackward, 1, 0}}};
  llvm::Expected<Program> program = lower(schedule, plan, shape);
  ASSERT_TRUE(succeeded(program));
  llvm::Expected<RankProgram> rank = resolve(*program, 1, plan, 1);
  ASSERT_TRUE(succeeded(rank));
  const Step *first = nullptr, *second = nullptr, *send = nullptr, *forward = nullptr;
  for (const Step &step : rank->steps) {
    first = step.kind == OpKind::InputGrad ? &step : first;
    second = step.kind == OpKind::Backward ? &step : second;
    forward = step.kind == OpKind::Forward && step.stage == 2 ? &step : forward;
    if (step.kind == OpKind::Send && step.payload == Payload::Gradient && step.channel == 2)
      send = &step;
  }
  ASSERT_TRUE(first && second && send && forward);
  EXPECT_FALSE(forward->recompute);
  auto slotOf = [&](const Step &step, size_t channel) {
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (plan.stages[step.stage].inputs[i].index == channel)
        return step.inputs[i].index;
    return kNoSlot;
  };
  EXPECT_NE(slotOf(*first, 2), kNoSlot);
  EXPECT_EQ(slotOf(*first, 2), slotOf(*second, 2));
  EXPECT_EQ(send->slot, slotOf(*second, 2));
  // Stage 1 adds to the gradient of stage 2 and then sends it, so the message is stage 1's.
  EXPECT_EQ(send->message, 2 * plan.stages.size() + 1);
}

} // namespace
} // namespace pipec
