// The best contiguous partition of a list of operators: least slowest stage, then balance and
// little traffic.
#pragma once

#include "ir/support/Error.h"

#include <cstdint>
#include <vector>

namespace pipec {

/// costs[i]: of operator i. traffic[b]: bytes that cross a boundary before operator b. legal:
/// boundaries in ascending order. Returns stages-1 boundaries. No partition has a slowest stage
/// that costs less than the result's by more than `slack`; among those within the slack the sum
/// over stages of (cost / mean cost)^2 plus a small weight on traffic is least, so that the other
/// stages are balanced too where one operator decides the slowest. O(stages * legal * log legal)
/// time. Errors: NoPlan when fewer than stages-1 boundaries are legal.
llvm::Expected<std::vector<size_t>> partitionLinear(const std::vector<int64_t> &costs,
                                                    const std::vector<int64_t> &traffic,
                                                    const std::vector<size_t> &legal, size_t stages,
                                                    double slack = 0.02);

struct Model;
struct TopLevel;

/// The same for a model whose operators have costs, among the boundaries that are legal.
llvm::Expected<std::vector<size_t>> partitionByCost(const Model &model, const TopLevel &top,
                                                    const std::vector<size_t> &legal,
                                                    size_t stages);

} // namespace pipec
