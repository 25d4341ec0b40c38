// The cuts of a model in program order by the costs of its operators: the least slowest stage
// first, then balance and little traffic.
#pragma once

#include "ir/NodeCost.h"
#include "ir/support/Error.h"

#include <vector>

namespace pipec {

struct TopLevel;

/// Cuts operators into stages. Returns stages - 1 of the `legal` boundaries, ascending. The slowest
/// stage costs at most 2 % more than in the best cut. Among the cuts within that, the result
/// minimises the sum over stages of (cost / mean cost)^2 plus a small weight on traffic. This
/// balances the other stages if one operator decides the slowest. Errors: NoPlan if fewer than
/// stages - 1 boundaries are legal.
llvm::Expected<std::vector<size_t>> cutsByCost(const TopLevel &top,
                                               const std::vector<NodeCost> &costs,
                                               const std::vector<size_t> &legal, size_t stages);

/// The same for a list of costs. traffic[b] are the bytes that cross a boundary before operator b,
/// `slack` is the part by which the slowest stage may exceed the best.
llvm::Expected<std::vector<size_t>> cutsByCost(const std::vector<int64_t> &costs,
                                               const std::vector<int64_t> &traffic,
                                               const std::vector<size_t> &legal, size_t stages,
                                               double slack = 0.02);

} // namespace pipec
