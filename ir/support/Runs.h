// Long lists of numbers that are mostly consecutive, as text: 0-11 30-40 12-29.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// Each longest run of ascending consecutive numbers, as FIRST-LAST, or as one number.
std::vector<std::string> runsOf(llvm::ArrayRef<size_t> numbers);

/// The inverse of runsOf. Nothing for a text that runsOf does not write, or for more than 2^24
/// numbers.
std::optional<std::vector<size_t>> numbersOfRuns(llvm::ArrayRef<std::string> runs);

/// Whether each number below the size appears exactly once.
bool isPermutation(llvm::ArrayRef<size_t> numbers);
/// The least number of elements to move so that the numbers ascend.
size_t movedIn(llvm::ArrayRef<size_t> permutation);

} // namespace pipec
