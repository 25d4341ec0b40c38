// Writes a rank's actions as words: each letter stands for its stage's next micro-batch.
#pragma once

#include "ir/schedule/Schedule.h"

#include <array>

namespace pipec {

/// RankWord({3, 4}).repeat("F0F1", 2) writes 3F0 4F0 3F1 4F1: letters F B I W, each followed by the
/// chunk on the rank.
class RankWord {
public:
  explicit RankWord(std::vector<size_t> stages)
      : stages_(std::move(stages)), next_(stages_.size()) {}

  RankWord &repeat(llvm::StringRef word, int64_t times);
  /// Number of micro-batches of a letter on a chunk so far.
  int64_t count(char letter, size_t chunk) const { return next_[chunk][slot(letter)]; }
  std::vector<Action> take() { return std::move(actions_); }

private:
  static size_t slot(char letter);

  std::vector<size_t> stages_;
  std::vector<std::array<int64_t, 4>> next_;
  std::vector<Action> actions_;
};

} // namespace pipec
