// Interleaved 1F1B with the backward in two pieces, as torch.distributed.pipelining makes it: half
// the forwards ahead of interleaved 1F1B, and rank r puts each weight gradient off by r backwards,
// so that it fills the gap in which the rank would wait for a gradient.
//
//   p = 2, v = 2, m = 2   rank 0  0F0 0F1 2F0 2F1 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1
//                         rank 1  1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1
#include "ir/schedule/generators/GeneratorFunctions.h"

namespace pipec {

namespace {

class InterleavedRank {
public:
  InterleavedRank(const ScheduleRequest &request, int64_t rank)
      : p_(static_cast<int64_t>(request.ranks)), v_(static_cast<int64_t>(request.chunks)),
        real_(request.microBatches), rank_(rank) {
    // Micro-batches go through the chunks in rounds of about p; the last round may be short.
    const int64_t rounds = std::max<int64_t>(1, real_ / p_);
    group_ = (real_ + rounds - 1) / rounds;
    padded_ = group_ * rounds;
  }

  std::vector<Action> take() {
    const int64_t all = padded_ * v_;
    const int64_t warmUp = std::min((v_ - 1) * group_ + (p_ - 1 - rank_), all);
    for (int64_t k = 0; k < warmUp; ++k)
      forward(k);
    for (int64_t k = 0; k < all; ++k) {
      if (k + warmUp < all)
        forward(k + warmUp);
      emit(ActionKind::InputGrad, k);
      if (k >= rank_)
        emit(ActionKind::WeightGrad, k - rank_);
    }
    for (int64_t k = std::max<int64_t>(0, all - rank_); k < all; ++k)
      emit(ActionKind::WeightGrad, k);
    return std::move(actions_);
  }

private:
  void forward(int64_t k) { emit(ActionKind::Forward, k); }
  /// The k-th forward or backward of the rank.
  void emit(ActionKind kind, int64_t k) {
    int64_t chunk = k % (group_ * v_) / group_;
    if (kind != ActionKind::Forward)
      chunk = v_ - 1 - chunk;
    const int64_t microBatch = k / (group_ * v_) * group_ + k % group_;
    if (microBatch < real_)
      actions_.push_back({kind, static_cast<size_t>(chunk * p_ + rank_), microBatch});
  }

  int64_t p_, v_, real_, rank_, group_ = 0, padded_ = 0;
  std::vector<Action> actions_;
};

llvm::Expected<Schedule> makeInterleavedZeroBubble(const ScheduleRequest &request) {
  Schedule schedule;
  for (size_t r = 0; r < request.ranks; ++r)
    schedule.ranks.push_back(InterleavedRank(request, static_cast<int64_t>(r)).take());
  return schedule;
}

} // namespace

Generator interleavedZeroBubbleGenerator() {
  return {.name = "interleaved-zb",
          .summary = "interleaved-1f1b with weight gradients deferred",
          .source = "torch.distributed.pipelining, 2024",
          .leastChunks = 2,
          .mostChunks = Generator::kAny,
          .make = makeInterleavedZeroBubble};
}

} // namespace pipec
