// Arithmetic on whole numbers and sizes: exact on every machine, so it may be repeated, moved and
// compared by value.
#pragma once

namespace torch::jit {
struct Node;
}

namespace pipec {

/// True for an operator whose result is determined by its operands alone and is made of ints and
/// bools: sizes of tensors, integer arithmetic and comparison, lists of ints that nobody changes in
/// place. No floats: two machines need not agree on them. prim::Uninitialized too, of any type:
/// what an If gives where it raises is not computed at all.
bool isWholeNumberOp(torch::jit::Node *node);

} // namespace pipec
