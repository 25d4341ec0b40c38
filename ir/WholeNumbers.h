// Arithmetic on whole numbers and sizes. It is exact on every machine, so it may be repeated, moved
// and compared by value.
#pragma once

namespace torch::jit {
struct Node;
}

namespace pipec {

/// True for an operator whose result depends on its operands alone and consists of ints and bools:
/// sizes of tensors, integer arithmetic and comparison, lists of ints that no operator changes in
/// place. Floats are excluded, because two machines may compute different bits. True also for
/// prim::Uninitialized of any type: an If returns it from a branch that raises, so it is never
/// computed.
bool isWholeNumberOp(torch::jit::Node *node);

} // namespace pipec
