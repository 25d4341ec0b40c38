#include "ir/schedule/generators/RankWord.h"

#include "ir/support/Check.h"

namespace pipec {

namespace {
constexpr llvm::StringLiteral kLetters = "FBIW";
constexpr ActionKind kKinds[] = {ActionKind::Forward, ActionKind::FullBackward,
                                 ActionKind::InputGrad, ActionKind::WeightGrad};
} // namespace

size_t RankWord::slot(char letter) {
  const size_t at = kLetters.find(letter);
  PIPEC_ASSERT(at != llvm::StringRef::npos, "words are made of F B I W");
  return at;
}

RankWord &RankWord::repeat(llvm::StringRef word, int64_t times) {
  for (int64_t t = 0; t < times; ++t)
    for (size_t i = 0; i < word.size(); i += 2) {
      const size_t letter = slot(word[i]), chunk = static_cast<size_t>(word[i + 1] - '0');
      actions_.push_back({kKinds[letter], stages_[chunk], next_[chunk][letter]++});
    }
  return *this;
}

} // namespace pipec
