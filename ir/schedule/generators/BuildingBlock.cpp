// V-Half and V-Min ("Pipeline Parallelism with Controllable Memory", Qi et al., 2024): a building
// block of six slots, the two forwards, input gradients and weight gradients of one micro-batch on
// a rank, repeated every six slots. How far apart a rank's forward and backward stand in the block
// is how long its activations live, so the block's offsets choose the memory.
//
//   V-Half  rank i of p: F0 at 2i, F1 at 3p-i-2, I1 at 3p+d+2i-1, I0 at 6p+d-i-2; d = 3 for even p,
//   else 0 V-Min                F0 at i,  F1 at 2p-i-1, I1 at 2p+d+i,    I0 at 4p+d-i-1; d = 2
//   where 3 divides p, else 0
// Weight gradients go into the first free slot after their input gradient. Then slots are
// forgotten: a rank runs the order that is left without waiting where it need not, and with the
// costs given, weight gradients move behind what does not wait for them.
#include "ir/schedule/generators/FillGaps.h"
#include "ir/schedule/generators/GeneratorFunctions.h"
#include "ir/schedule/generators/Search.h"
#include "ir/support/Try.h"

#include <array>
#include <map>

namespace pipec {

namespace {

constexpr int64_t kPeriod = 6;

/// Slots of F0, F1, I1, I0 of micro-batch 0.
using Offsets = std::array<int64_t, 4>;

std::vector<Action> rankOf(int64_t rank, const ScheduleRequest &request, const Offsets &offsets) {
  const size_t stages[] = {static_cast<size_t>(rank),
                           2 * request.ranks - 1 - static_cast<size_t>(rank)};
  constexpr size_t chunks[] = {0, 1, 1, 0};
  std::map<int64_t, Action> slots;
  for (size_t piece = 0; piece < offsets.size(); ++piece)
    for (int64_t m = 0; m < request.microBatches; ++m)
      slots[offsets[piece] + kPeriod * m] = {
          piece < 2 ? ActionKind::Forward : ActionKind::InputGrad, stages[chunks[piece]], m};
  std::vector<std::pair<int64_t, Action>> backwards;
  for (const auto &[slot, action] : slots)
    if (action.kind == ActionKind::InputGrad)
      backwards.push_back({slot, action});
  for (const auto &[slot, action] : backwards) {
    int64_t free = slot + 1;
    while (slots.count(free))
      ++free;
    slots[free] = {ActionKind::WeightGrad, action.stage, action.microBatch};
  }
  std::vector<Action> actions;
  for (const auto &[slot, action] : slots)
    actions.push_back(action);
  return actions;
}

/// The best order within the memory that the blocks need: their own, the same with its weight
/// gradients in the gaps, or a free one.
template <typename OffsetsOf>
llvm::Expected<Schedule> fromBlocks(const ScheduleRequest &request, OffsetsOf offsetsOf) {
  Schedule blocks;
  const auto p = static_cast<int64_t>(request.ranks);
  for (int64_t i = 0; i < p; ++i)
    blocks.ranks.push_back(rankOf(i, request, offsetsOf(p, i)));
  Scored scored = TRY(score(blocks, request));
  ScheduleRequest within = request;
  within.memoryLimit = scored.peak();
  Search search(within, Placement::V);
  TRY(search.consider(blocks));
  TRY(search.tryOrder(blocks));
  Schedule filled = blocks;
  fillGaps(filled, Placement::V, within);
  TRY(search.consider(filled));
  TRY(search.tryOrder(filled));
  return search.best();
}

llvm::Expected<Schedule> makeVHalf(const ScheduleRequest &request) {
  return fromBlocks(request, [](int64_t p, int64_t i) {
    const int64_t d = p % 2 == 0 ? 3 : 0;
    return Offsets{2 * i, 3 * p - i - 2, 3 * p + d + 2 * i - 1, 6 * p + d - i - 2};
  });
}

llvm::Expected<Schedule> makeVMin(const ScheduleRequest &request) {
  return fromBlocks(request, [](int64_t p, int64_t i) {
    const int64_t d = p % 3 == 0 ? 2 : 0;
    return Offsets{i, 2 * p - i - 1, 2 * p + d + i, 4 * p + d - i - 1};
  });
}

} // namespace

Generator vHalfGenerator() {
  return {.name = "v-half",
          .summary = "a V that holds half of what 1f1b holds",
          .source = "Pipeline Parallelism with Controllable Memory, Qi et al., 2024",
          .placement = Placement::V,
          .leastChunks = 2,
          .mostChunks = 2,
          .looksAtCosts = true,
          .make = makeVHalf};
}

Generator vMinGenerator() {
  return {.name = "v-min",
          .summary = "a V that holds a third of what 1f1b holds",
          .source = "Pipeline Parallelism with Controllable Memory, Qi et al., 2024",
          .placement = Placement::V,
          .leastChunks = 2,
          .mostChunks = 2,
          .looksAtCosts = true,
          .make = makeVMin};
}

} // namespace pipec
