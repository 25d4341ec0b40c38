// The best cut of a list into consecutive parts.
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <optional>
#include <vector>

namespace pipec {

/// The measure by which one cut is better than another.
struct ListCut {
  size_t items = 0, parts = 1; // no part is empty
  /// The cost of the items begin .. end - 1 as part number `part`; infinity: not allowed. The best
  /// begin of a last part must never move back as its end grows. This holds for every cost that is
  /// the same for all parts and is a sum over the items, or convex in such a sum, plus a term that
  /// only depends on the end.
  llvm::function_ref<double(size_t part, size_t begin, size_t end)> cost;
  enum class Least { Largest, Sum } least = Least::Largest; // of the costs of the parts
};

/// The items before which parts 1, 2, ... begin; nullopt if no cut is allowed. Of equally good last
/// parts it takes the shortest for the largest cost, the longest for the sum. Takes parts * items *
/// log(items) evaluations of the cost.
std::optional<std::vector<size_t>> cutList(const ListCut &list);

} // namespace pipec
