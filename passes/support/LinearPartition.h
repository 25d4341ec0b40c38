// The best contiguous partition of a list of operators: the least slowest stage first, then balance
// and little traffic.
#pragma once

#include "ir/support/Error.h"

#include <cstdint>
#include <vector>

namespace pipec {

/// costs[i] is the cost of operator i, traffic[b] the bytes that cross a boundary before operator
/// b, `legal` the legal boundaries in ascending order. Returns stages-1 boundaries. The slowest
/// stage costs at most `slack` more than in the best partition. Among the partitions within the
/// slack, the result minimises the sum over stages of (cost / mean cost)^2 plus a small weight on
/// traffic. This balances the other stages if one operator decides the slowest. O(stages * legal *
/// log legal) time. Errors: NoPlan if fewer than stages-1 boundaries are legal.
llvm::Expected<std::vector<size_t>> partitionLinear(const std::vector<int64_t> &costs,
                                                    const std::vector<int64_t> &traffic,
                                                    const std::vector<size_t> &legal, size_t stages,
                                                    double slack = 0.02);

struct Model;
struct TopLevel;

/// The same for a model whose operators have costs, among the legal boundaries.
llvm::Expected<std::vector<size_t>> partitionByCost(const Model &model, const TopLevel &top,
                                                    const std::vector<size_t> &legal,
                                                    size_t stages);

} // namespace pipec
