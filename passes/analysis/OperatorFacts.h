// Facts about operators that schemas do not show: undeclared aliases, how writers change a tensor's
// form, pure forms, and how views are undone.
#pragma once

#include <ATen/core/symbol.h>

#include <string>
#include <utility>

namespace torch::jit {
struct Node;
struct Use;
struct Value;
} // namespace torch::jit

namespace pipec {

/// The value's name as the text forms write it.
std::string nameOf(const torch::jit::Value *value);
std::string kindOf(const torch::jit::Node *node);

/// The only result is the first input, which the operator writes: relu_ and the like, but not
/// operators that may change the tensor's form (t_, resize_, set_).
bool returnsWrittenValue(const torch::jit::Node *node);

/// The result is the first input itself: dropout that is not training. LibTorch's own analysis
/// treats the result as fresh, and drops writes into it whose other readers it cannot see.
bool returnsFirstInput(const torch::jit::Node *node);

/// The kernel does not check the last size of its input (recurrent layers: Python checks it before
/// the call) and reads out of bounds if it does not fit.
bool trustsLastSize(const torch::jit::Node *node);

/// The operator may return its input (or an element of an input list, or a view), although its
/// schema declares a fresh result: eval dropout, type_as, unsafe_chunk, einsum, ...
bool mayReturnInput(const torch::jit::Node *node);

/// The value is memory that its own node just made.
bool isFresh(const torch::jit::Value *value);
/// The value is in a block, and its memory was made inside the enclosing top-level node. Code
/// outside the node has not seen that memory before a write in the block.
bool isMadeInBlock(const torch::jit::Value *value);

/// The operator only reads this argument although the schema declares a write: the source dict of a
/// dict update.
bool isOnlyRead(const torch::jit::Node *node, size_t argument);

/// Whether a list has the same tensors after the use, and the use hands on no more than these.
bool keepsElements(const torch::jit::Use &use);

/// For an operator that writes: it may change the rank or dtype of its tensor in place. unsqueeze_,
/// set_, any out= argument and operators of libraries may.
bool mayChangeRank(const torch::jit::Node *writer);
/// The same for rank, dtype, sizes and everything else except the elements: t_ keeps the rank.
bool mayChangeForm(const torch::jit::Node *writer);
/// Whether the writer reads a tensor beside the one that it writes, as clamp_ with a tensor and
/// fill_ with one do.
bool readsOtherTensor(const torch::jit::Node *writer);
/// Whether LibTorch chooses how to compute the operator by what this argument requires, even
/// without gradients. A product with a factor that requires gradients reads a batch as one matrix,
/// with other last bits than a product per sample; recurrent layers are products with their
/// weights. Attention does not take its fast way for a mask that requires gradients.
bool asksWhatIsRequired(const torch::jit::Node *node, size_t argument);
/// Whether LibTorch chooses by the grad mode, whatever the arguments require. On a CPU, an LSTM has
/// other last bits with gradients switched off.
bool asksForGradMode(const torch::jit::Node *node);

/// The inputs that the operator writes although its schema does not declare it: the running
/// statistics of normalisations in training.
std::pair<size_t, size_t> hiddenWrites(const torch::jit::Node *node);

/// Whether the operator itself may write anything: by its schema, against its schema (running
/// statistics, an attribute), or because its effects are unknown.
bool mayWriteAnything(const torch::jit::Node *node);

/// The kinds of operators that write their first input and have a pure form, which only returns the
/// new value, with a bit-identical gradient.
enum class PureForm {
  None,
  Unary,   // elementwise, with numbers as further arguments
  Binary,  // elementwise, of two tensors or a tensor and a number
  Copy,    // copy_: no part of the old value remains
  Fill,    // the same with a number
  Indexed, // elements selected by a mask or indices: the result is contiguous
  View,    // t_: only the form changes
};
PureForm pureFormOf(const torch::jit::Node *writer);

/// The result is new, and contiguous or at least without gaps.
bool makesContiguous(const torch::jit::Node *node);
bool makesDense(const torch::jit::Node *node);

/// Whether the result is a view of the first input: never, always, or if that input is contiguous.
/// The same operator on a tensor of the same form gives the same view.
enum class ViewOf { None, Any, Contiguous };
ViewOf viewOf(const torch::jit::Node *node);

/// Makes, before the node, a copy of the tensor `whole` with `part` in the place that `view` shows.
/// Other elements and all strides are those of `whole`. Returns null if the view cannot be undone.
torch::jit::Value *withPart(torch::jit::Node *view, torch::jit::Value *whole,
                            torch::jit::Value *part, torch::jit::Node *before);
/// Whether the result of withPart for the view has the strides of `whole`.
bool keepsStridesOfWhole(const torch::jit::Node *view);

} // namespace pipec
