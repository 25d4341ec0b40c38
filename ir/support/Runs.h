// Long lists of numbers that are mostly consecutive, as text: 0-11 30-40 12-29.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// Every run of ascending consecutive numbers, as long as it can be, is FIRST-LAST, or one number.
std::vector<std::string> runsOf(llvm::ArrayRef<size_t> numbers);

/// The numbers again; nothing for what runsOf does not write, or for more numbers than `most`.
std::optional<std::vector<size_t>> numbersOfRuns(llvm::ArrayRef<std::string> runs,
                                                 size_t most = size_t(1) << 24);

/// Each number below the size is there once.
bool isPermutation(llvm::ArrayRef<size_t> numbers);
/// How many numbers stand elsewhere than in ascending order: the fewest that have to move for it.
size_t movedIn(llvm::ArrayRef<size_t> permutation);

} // namespace pipec
