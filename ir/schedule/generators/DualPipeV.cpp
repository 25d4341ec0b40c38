// DualPipeV (DeepSeek, 2025): the V placement of ZB-V with forwards and whole backwards issued in
// pairs, so that the transfers of one half run while the other computes. On one thread the halves
// run one after the other, which is how PairRule::Split times them.
//
// Eight steps on rank r of p, letters with the chunk, pairs in brackets:
//   F0 x 2(p-r-1); F0 F1 x (r+1); I1 W F1 x (p-r-1); [F0 B1] [F1 B0] x (m-2p+r+1); B1 [F1 B0] x
//   (p-r-1); B1 B0 x (r+1), the second half as I; W I0 x (p-r-1); W x (r+1)
// W takes the weight gradient that has waited longest.
#include "ir/schedule/generators/GeneratorFunctions.h"
#include "ir/support/Check.h"
#include "ir/support/Error.h"

#include <array>
#include <deque>

namespace pipec {

namespace {

class DualRank {
public:
  DualRank(size_t rank, size_t ranks) : stages_{rank, 2 * ranks - 1 - rank} {}

  void forward(size_t chunk) { emit(ActionKind::Forward, chunk, forwards_); }
  void backward(size_t chunk) { emit(ActionKind::FullBackward, chunk, backwards_); }
  void inputGrad(size_t chunk) {
    emit(ActionKind::InputGrad, chunk, backwards_);
    waiting_.push_back({ActionKind::WeightGrad, actions_.back().stage, actions_.back().microBatch});
  }
  void weightGrad() {
    if (waiting_.empty())
      return;
    actions_.push_back(waiting_.front());
    waiting_.pop_front();
  }
  void pair(size_t forwardChunk, size_t backwardChunk) {
    forward(forwardChunk);
    actions_.back().withNext = true;
    backward(backwardChunk);
  }
  std::vector<Action> take() {
    PIPEC_ASSERT(waiting_.empty(), "the last step takes all weight gradients");
    return std::move(actions_);
  }

private:
  using Counts = std::array<int64_t, 2>;
  void emit(ActionKind kind, size_t chunk, Counts &counts) {
    actions_.push_back({kind, stages_[chunk], counts[chunk]++});
  }

  std::array<size_t, 2> stages_;
  Counts forwards_{}, backwards_{};
  std::deque<Action> waiting_;
  std::vector<Action> actions_;
};

std::vector<Action> rankOf(int64_t r, int64_t p, int64_t m) {
  DualRank rank(static_cast<size_t>(r), static_cast<size_t>(p));
  auto times = [](int64_t n, auto step) {
    for (int64_t i = 0; i < n; ++i)
      step(i);
  };
  const int64_t before = p - r - 1, from = r + 1;
  times(2 * before, [&](int64_t) { rank.forward(0); });
  times(from, [&](int64_t) { rank.forward(0), rank.forward(1); });
  times(before, [&](int64_t) { rank.inputGrad(1), rank.weightGrad(), rank.forward(1); });
  times(m - 2 * p + r + 1, [&](int64_t i) {
    if (i == 0 && r == p - 1)
      rank.forward(0), rank.backward(1); // the turn of the V: nothing to overlap with yet
    else
      rank.pair(0, 1);
    rank.pair(1, 0);
  });
  times(before, [&](int64_t) { rank.backward(1), rank.pair(1, 0); });
  bool split = false; // the second half puts its weight gradients off
  auto drain = [&](size_t chunk) { split ? rank.inputGrad(chunk) : rank.backward(chunk); };
  times(from, [&](int64_t i) {
    split |= i == from / 2 && r % 2 == 1;
    drain(1);
    split |= i == from / 2 && r % 2 == 0;
    drain(0);
  });
  times(before, [&](int64_t) { rank.weightGrad(), drain(0); });
  times(from, [&](int64_t) { rank.weightGrad(); });
  return rank.take();
}

llvm::Expected<Schedule> makeDualPipeV(const ScheduleRequest &request) {
  const auto p = static_cast<int64_t>(request.ranks);
  if (request.microBatches < 2 * p)
    return failf(ExitCode::Usage, "dualpipev: {} ranks: expected at least {} micro-batches, got {}",
                 p, 2 * p, request.microBatches);
  Schedule schedule;
  for (int64_t r = 0; r < p; ++r)
    schedule.ranks.push_back(rankOf(r, p, request.microBatches));
  return schedule;
}

} // namespace

Generator dualPipeVGenerator() {
  return {.name = "dualpipev",
          .summary = "a V with forwards and backwards in pairs",
          .source = "DualPipe's V, DeepSeek, 2025",
          .placement = Placement::V,
          .leastChunks = 2,
          .mostChunks = 2,
          .make = makeDualPipeV};
}

} // namespace pipec
