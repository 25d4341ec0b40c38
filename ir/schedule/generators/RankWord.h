// Builds the ordered actions of one rank from short words such as "F0B0".
#pragma once

#include "ir/schedule/Schedule.h"

#include <array>

namespace pipec {

/// A word is a sequence of pairs: a letter, which is the kind of an action (F, B, I or W), and a
/// digit, which is the chunk: an index into the stages of the rank. A pair stands for the action on
/// the next micro-batch: the first F0 is that of micro-batch 0, the second that of micro-batch 1,
/// and so on, counted separately for each letter and chunk. On a rank with the stages 3 and 4
/// RankWord({3, 4}).repeat("F0F1", 2) makes the actions 3F0 4F0 3F1 4F1.
class RankWord {
public:
  explicit RankWord(std::vector<size_t> stages)
      : stages_(std::move(stages)), next_(stages_.size()) {}

  /// Appends the actions of `word`, `times` times.
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
