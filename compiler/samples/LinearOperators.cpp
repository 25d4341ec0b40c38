#include "compiler/samples/LinearOperators.h"

#include "compiler/samples/SampleOperators.h"
#include "ir/NodeInfo.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;
using Names = llvm::StringSet<>;

/// Casts to whole numbers round.
static bool castsToFloat(Node *node) {
  Value *dtype = inputNamed(node, "dtype");
  const std::optional<int64_t> type = dtype ? constantInt(dtype) : std::nullopt;
  return !type || c10::isFloatingType(static_cast<c10::ScalarType>(*type));
}

/// Without a rounding mode.
static bool isQuotient(Node *node) {
  static const Names kDivides = {"div", "true_divide", "divide"};
  Value *rounding = inputNamed(node, "rounding_mode");
  return isIn(kDivides, node) && (!rounding || rounding->type()->kind() == c10::TypeKind::NoneType);
}

bool isPlaceInput(const Node *node, size_t index) {
  static const Names kPlaced = {
      "slice",   "select",       "narrow",    "split",  "split_with_sizes", "tensor_split",
      "chunk",   "unsafe_split", "view",      "expand", "broadcast_to",     "reshape",
      "repeat",  "tile",         "unflatten", "pad",    "constant_pad_nd",  "view_as",
      "flatten", "expand_as",    "type_as"};
  return index > 0 && isIn(kPlaced, node);
}

/// The factors of a product that are over samples; einsum has its operands in a list.
static std::ptrdiff_t factorsOver(Node *node, llvm::function_ref<bool(Value *)> isOver) {
  std::ptrdiff_t factors = 0;
  for (Value *input : node->inputs())
    factors += input->node()->kind() == c10::prim::ListConstruct
                   ? llvm::count_if(input->node()->inputs(), isOver)
                   : static_cast<std::ptrdiff_t>(isOver(input));
  return factors;
}

/// Whether a write of several elements to one place (scatter, index_reduce) adds them up, if it
/// says how.
static bool addsUp(Node *node) {
  Value *how = inputNamed(node, "reduce");
  if (!how)
    return true;
  static const Names kAdds = {"sum", "mean", "add"};
  const std::optional<c10::IValue> text = torch::jit::toIValue(how);
  return text && text->isString() && kAdds.contains(text->toStringRef());
}

/// Sums, means, and what adds, copies or scales numbers.
static bool isSumOfInputs(const Node *node) {
  static const Names kSums = {"add",
                              "sub",
                              "subtract",
                              "rsub",
                              "neg",
                              "negative",
                              "positive",
                              "sum",
                              "mean",
                              "nansum",
                              "nanmean",
                              "sum_to_size",
                              "cumsum",
                              "diff",
                              "trace",
                              "flip",
                              "roll",
                              "dropout",
                              "copy",
                              "fill",
                              "batch_norm",
                              "avg_pool1d",
                              "avg_pool2d",
                              "avg_pool3d",
                              "adaptive_avg_pool1d",
                              "adaptive_avg_pool2d",
                              "adaptive_avg_pool3d"};
  return isIn(kSums, node);
}

/// Each element of the result is one of an input, or a constant.
static bool movesElements(const Node *node) {
  static const Names kMoves = {"view",
                               "view_as",
                               "reshape",
                               "reshape_as",
                               "unsqueeze",
                               "squeeze",
                               "flatten",
                               "atleast_1d",
                               "unflatten",
                               "ravel",
                               "expand",
                               "expand_as",
                               "broadcast_to",
                               "repeat",
                               "tile",
                               "repeat_interleave",
                               "transpose",
                               "swapaxes",
                               "swapdims",
                               "permute",
                               "movedim",
                               "moveaxis",
                               "t",
                               "numpy_T",
                               "mT",
                               "contiguous",
                               "clone",
                               "detach",
                               "alias",
                               "slice",
                               "select",
                               "narrow",
                               "split",
                               "chunk",
                               "split_with_sizes",
                               "tensor_split",
                               "unsafe_split",
                               "unsafe_chunk",
                               "unbind",
                               "unfold",
                               "diagonal",
                               "diag",
                               "diag_embed",
                               "tril",
                               "triu",
                               "pad",
                               "constant_pad_nd",
                               "stack",
                               "cat",
                               "concat",
                               "concatenate",
                               "hstack",
                               "vstack",
                               "column_stack",
                               "broadcast_tensors",
                               "lift_fresh",
                               "requires_grad",
                               "cpu",
                               "cuda"};
  return isIn(kMoves, node);
}

/// Lists and dicts hold values as they are.
static bool usesContainer(const Node *node) {
  static const Names kHolds = {"append", "extend",     "insert", "__getitem__", "_set_item",
                               "list",   "values",     "items",  "get",         "pop",
                               "update", "setdefault", "dict",   "reverse",     "popitem"};
  return isIn(kHolds, node);
}

/// Casts, and tensors made of numbers.
static bool castsNumbers(const Node *node) {
  static const Names kCasts = {
      "to",       "_to_copy",      "type_as",        "float",     "double",
      "half",     "bfloat16",      "item",           "Float",     "Scalar",
      "tensor",   "FloatImplicit", "ScalarImplicit", "as_tensor", "full_like",
      "new_full", "full",          "scalar_tensor"};
  return isIn(kCasts, node);
}

/// Products, which are linear in each factor.
static bool multipliesInputs(const Node *node) {
  static const Names kProducts = {"mul",
                                  "multiply",
                                  "matmul",
                                  "mm",
                                  "bmm",
                                  "mv",
                                  "dot",
                                  "vdot",
                                  "inner",
                                  "outer",
                                  "linear",
                                  "addmm",
                                  "addmv",
                                  "baddbmm",
                                  "einsum",
                                  "conv1d",
                                  "conv2d",
                                  "conv3d",
                                  "_convolution",
                                  "convolution",
                                  "conv_transpose1d",
                                  "conv_transpose2d",
                                  "conv_transpose3d"};
  return isIn(kProducts, node);
}

bool isLinear(Node *node, llvm::function_ref<bool(Value *)> isOver) {
  static const Names kExtremes = {"min", "max", "abs"};
  static const Names kPicks = {"index", "index_select", "gather", "take", "masked_select"};
  if (node->kind().is_prim()) // structure, but for these
    return !isIn(kExtremes, node);
  if (isSumOfInputs(node) || movesElements(node) || usesContainer(node) || isQuotient(node))
    return true;
  if (castsNumbers(node))
    return castsToFloat(node);
  if (multipliesInputs(node))
    return factorsOver(node, isOver) <= 1;
  if (!addsUp(node))
    return false;
  if (!isIn(kPicks, node) && !writesSelected(node))
    return false;
  return llvm::none_of(llvm::ArrayRef<const char *>{"condition", "mask", "index", "indices"},
                       [&](const char *choice) {
                         Value *chooses = inputNamed(node, choice);
                         return chooses && isOver(chooses);
                       });
}

} // namespace pipec
