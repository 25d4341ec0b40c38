#include "ir/support/Runs.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace pipec {

std::vector<std::string> runsOf(llvm::ArrayRef<size_t> numbers) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    runs.push_back(std::to_string(numbers[i]));
    if (end > i + 1)
      runs.back() += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return runs;
}

std::optional<std::vector<size_t>> numbersOfRuns(llvm::ArrayRef<std::string> runs) {
  constexpr size_t kMost = size_t(1) << 24;
  std::vector<size_t> numbers;
  for (llvm::StringRef run : runs) {
    auto [head, tail] = run.split('-');
    size_t first = 0, last = 0;
    if (head.getAsInteger(10, first) || (tail.empty() ? head : tail).getAsInteger(10, last) ||
        last < first || last - first >= kMost || numbers.size() + (last - first) >= kMost)
      return std::nullopt;
    for (size_t number = first; number <= last; ++number)
      numbers.push_back(number);
  }
  // One text for one list.
  if (llvm::ArrayRef<std::string>(runsOf(numbers)) != runs)
    return std::nullopt;
  return numbers;
}

bool isPermutation(llvm::ArrayRef<size_t> numbers) {
  std::vector<bool> seen(numbers.size(), false);
  for (size_t number : numbers) {
    if (number >= numbers.size() || seen[number])
      return false;
    seen[number] = true;
  }
  return true;
}

size_t movedIn(llvm::ArrayRef<size_t> permutation) {
  // The longest ascending part may stay: ends[k] is the least last number of those of length k + 1.
  std::vector<size_t> ends;
  for (size_t number : permutation) {
    auto at = std::lower_bound(ends.begin(), ends.end(), number);
    if (at == ends.end())
      ends.push_back(number);
    else
      *at = number;
  }
  return permutation.size() - ends.size();
}

} // namespace pipec
