// What schemas do not tell of operators: which alias more than they say, what writers leave of a
// tensor's form, their pure forms, and how views are undone.
#pragma once

#include <ATen/core/symbol.h>

#include <string>
#include <utility>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// As texts write them.
std::string nameOf(const torch::jit::Value *value);
std::string kindOf(const torch::jit::Node *node);

/// The only result is the first input, which the operator writes: relu_ and the like, not those
/// that may change its form (t_, resize_, set_).
bool returnsWhatItWrites(const torch::jit::Node *node);

/// The result is the first input itself: dropout that is not for training. LibTorch's own analysis
/// takes it for fresh and drops writes into it that nobody else reads.
bool returnsFirstInput(const torch::jit::Node *node);

/// A kernel that trusts the last size of what it is given (recurrent layers: Python checks it
/// before them) and reads beyond it where it does not fit.
bool trustsLastSize(const torch::jit::Node *node);

/// The operator may return its input (or an element of an input list, or a view) although its
/// schema says that the result is fresh: eval dropout, type_as, unsafe_chunk, einsum, ...
bool mayReturnInput(const torch::jit::Node *node);

/// The value is memory that its own node has just made.
bool isFresh(const torch::jit::Value *value);
/// The value stands in a block, and its memory was made inside the node at top level around it:
/// what is written into it there, nobody outside has seen before.
bool isMadeInBlock(const torch::jit::Value *value);

/// The schema says that the operator writes this argument, and it only reads it: the dict that
/// another one is updated with.
bool isOnlyRead(const torch::jit::Node *node, size_t argument);

/// Of an operator that writes: it may give the tensor that it gets another rank or dtype in place.
/// So do unsqueeze_, set_, any out= argument, and what is no operator of LibTorch.
bool mayChangeRank(const torch::jit::Node *writer);
/// The same for rank, dtype, sizes and everything else but the elements: t_ keeps the rank.
bool mayChangeForm(const torch::jit::Node *writer);

/// The inputs that the operator writes although its schema does not say so: the running statistics
/// of normalisations in training.
std::pair<size_t, size_t> hiddenWrites(const torch::jit::Node *node);

/// Whether the operator itself may write anything at all: by its schema, unlike it (running
/// statistics, an attribute), or because nothing is known of it.
bool mayWriteAnything(const torch::jit::Node *node);

/// How an operator that writes its first input has a form that only returns the new value, with the
/// same gradient to the bit.
enum class PureForm {
  None,
  Unary,   // elementwise, of numbers besides
  Binary,  // elementwise, of two tensors or a tensor and a number
  Copy,    // copy_: nothing of the old value is left
  Fill,    // the same with a number
  Indexed, // some elements, where a mask or indices say: the result is contiguous
  View,    // t_: only the form changes
};
PureForm pureFormOf(const torch::jit::Node *writer);

/// The result is new, and contiguous or at least without gaps.
bool makesContiguous(const torch::jit::Node *node);
bool makesDense(const torch::jit::Node *node);

/// The result is a view of the first input, always or where that one is contiguous; made again of a
/// tensor of the same form it is the same view.
enum class ViewOf { None, Any, Contiguous };
ViewOf viewOf(const torch::jit::Node *node);

/// The tensor `whole`, of which `view` would show a part, with `part` there instead; the rest and
/// all strides are those of `whole`. Made before the node; null when the view cannot be undone.
torch::jit::Value *withPart(torch::jit::Node *view, torch::jit::Value *whole,
                            torch::jit::Value *part, torch::jit::Node *before);
/// What withPart returns for the view has the strides of `whole`.
bool keepsStridesOfWhole(const torch::jit::Node *view);

} // namespace pipec
