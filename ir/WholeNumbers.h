// Arithmetic on whole numbers and sizes. It is exact on every machine, so it may be repeated, moved
// and compared by value.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace torch::jit {
struct Block;
struct Node;
} // namespace torch::jit

namespace pipec {

struct Model;

/// True for an operator whose result depends on its operands alone and consists of ints and bools:
/// sizes of tensors, integer arithmetic and comparison, lists of ints that no operator changes in
/// place. Floats are excluded, because two machines may compute different bits. True also for
/// prim::Uninitialized of any type: an If returns it from a branch that raises, so it is never
/// computed.
bool isWholeNumberOp(torch::jit::Node *node);

/// Counts, by kind, the operators that canonical lines omit because their values are named by
/// content. Blocks are included.
std::map<std::string, int64_t> countWholeNumberOps(const Model &model);
void countWholeNumberOps(const torch::jit::Block &block, std::map<std::string, int64_t> &counts);

} // namespace pipec
