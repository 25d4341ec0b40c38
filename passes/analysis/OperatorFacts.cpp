#include "passes/analysis/OperatorFacts.h"

#include "ir/NodeInfo.h"
#include "ir/support/StringSwitch.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/MemoryTypes.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

/// The constant truth of an input, if it has one.
std::optional<bool> constantFlag(const torch::jit::Node *node, size_t input) {
  if (input >= node->inputs().size())
    return std::nullopt;
  std::optional<c10::IValue> value = torch::jit::toIValue(node->inputs()[input]);
  if (!value || !value->isBool())
    return std::nullopt;
  return value->toBool();
}

Value *insertBefore(Node *before, Node *origin, c10::Symbol kind, std::vector<Value *> inputs) {
  Node *made = before->owningGraph()->create(kind, inputs);
  made->insertBefore(before)->copyMetadata(origin);
  if (made->maybeOperator())
    return made->output();
  made->destroy(); // no such form with these arguments
  return nullptr;
}

/// The dims of a permutation undone; absent unless they are constant.
std::optional<std::vector<int64_t>> inverseOf(const Value *dims) {
  std::optional<c10::IValue> known = torch::jit::toIValue(dims);
  if (!known || !known->isIntList())
    return std::nullopt;
  const std::vector<int64_t> order = known->toIntVector();
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t from = order[i] < 0 ? order[i] + int64_t(order.size()) : order[i];
    if (from < 0 || from >= int64_t(order.size()))
      return std::nullopt;
    inverse[from] = int64_t(i);
  }
  return inverse;
}

/// The operator that undoes a view; the elements of `part` in the form of the whole are the whole.
enum class Undo { None, Scatter, Self, Squeeze, Permute, Reshape };

Undo undoOf(const Node *view) {
  return StringSwitch<Undo>(view->kind().toUnqualString())
      .Cases({"slice", "select", "diagonal"}, Undo::Scatter)
      .Cases({"t", "transpose", "swapaxes", "swapdims"}, Undo::Self)
      .Case("unsqueeze", Undo::Squeeze)
      .Case("permute", Undo::Permute)
      .Cases({"view", "view_as", "unflatten", "squeeze", "reshape", "reshape_as"}, Undo::Reshape)
      .Cases({"flatten", "contiguous", "ravel"}, Undo::Reshape)
      .Default(Undo::None);
}

} // namespace

/// Quantised relu6 has no form of its own that writes, only a flag.
static bool clampsInPlace(const Node *node) {
  static const c10::Symbol relu6 = c10::Symbol::fromQualString("quantized::relu6");
  return node->kind() == relu6 && constantFlag(node, 1) != false;
}

bool mayReturnInput(const Node *node) {
  if (clampsInPlace(node))
    return true;
  enum Answer { No, Yes, UnlessTraining, UnlessTrainingAndP };
  if (!node->kind().is_aten())
    return false;
  Answer answer =
      StringSwitch<Answer>(node->kind().toUnqualString())
          .Cases({"type_as", "sum_to_size", "einsum", "meshgrid", "broadcast_tensors"}, Yes)
          .Cases({"atleast_1d", "atleast_2d", "atleast_3d", "align_tensors"}, Yes)
          .Cases({"to_dense", "dequantize", "cartesian_prod", "chain_matmul"}, Yes)
          .Cases({"_unsafe_view", "_reshape_alias", "unsafe_chunk", "unsafe_split"}, Yes)
          .Cases({"unsafe_split_with_sizes", "data", "set_", "set_data", "_fw_primal"}, Yes)
          .Cases({"align_to", "align_as", "refine_names", "rename", "lift"}, Yes)
          .Cases({"to_mkldnn", "cpu", "cuda", "_sparse_coo_tensor_unsafe"}, Yes)
          .Cases({"conj_physical", "_cast_Float", "_cast_Double", "_cast_Half", "_cast_Byte"}, Yes)
          .Cases({"_cast_Char", "_cast_Int", "_cast_Long", "_cast_Short"}, Yes)
          .Cases({"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"},
                 UnlessTrainingAndP)
          .Default(No);
  if (answer != UnlessTrainingAndP)
    return answer == Yes;
  if (constantFlag(node, 2) != true)
    return true;
  std::optional<c10::IValue> p = torch::jit::toIValue(node->inputs()[1]);
  return !p || !p->isDouble() || p->toDouble() == 0;
}

bool isFresh(const Value *value) {
  const Node *node = value->node();
  if ((!node->kind().is_aten() && !node->kind().is_prim()) || mayReturnInput(node) ||
      !node->blocks().empty())
    return false;
  // Schemas of special cases (prim::unchecked_cast, prim::TupleIndex) do not show that they return
  // an input.
  const torch::jit::Operator *op = node->maybeOperator();
  if (!op || (op->aliasAnalysisKind() != c10::AliasAnalysisKind::FROM_SCHEMA &&
              op->aliasAnalysisKind() != c10::AliasAnalysisKind::PURE_FUNCTION))
    return false;
  const std::vector<c10::Argument> &returns = op->schema().returns();
  return value->offset() < returns.size() && !returns[value->offset()].alias_info();
}

bool returnsWrittenValue(const Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  if (!schema || mayChangeForm(node) || node->outputs().size() != 1 ||
      schema->arguments().empty() || schema->returns().size() != 1)
    return false;
  const c10::AliasInfo *given = schema->arguments()[0].alias_info();
  const c10::AliasInfo *returned = schema->returns()[0].alias_info();
  return given && returned && given->isWrite() && returned->isWrite() &&
         given->beforeSets() == returned->beforeSets();
}

bool returnsFirstInput(const Node *node) {
  return node->kind().is_aten() &&
         StringSwitch<bool>(node->kind().toUnqualString())
             .Cases({"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}, true)
             .Default(false) &&
         constantFlag(node, 2) == false;
}

bool trustsLastSize(const Node *node) {
  const std::string name = node->kind().toUnqualString();
  return name == "lstm" || name == "gru" || name == "rnn_tanh" || name == "rnn_relu" ||
         name == "quantized_lstm" || name == "quantized_gru";
}

std::string nameOf(const Value *value) { return value->debugName(); }
std::string kindOf(const Node *node) { return node->kind().toQualString(); }

bool isMadeInBlock(const Value *value) {
  const c10::TypeKind kind = value->type()->kind();
  const Node *node = value->node();
  while (node->owningBlock()->owningNode()) { // a value of a block
    const bool makesContainer =
        node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::DictConstruct;
    if (makesContainer || isFresh(value))
      return true;
    // A view, or what a writer returns: the memory is that of its first input.
    const c10::FunctionSchema *schema = node->kind().is_aten() ? node->maybeSchema() : nullptr;
    if (!schema || schema->arguments().empty() || value->offset() >= schema->returns().size() ||
        mayReturnInput(node))
      return false;
    const c10::AliasInfo *from = schema->arguments()[0].alias_info();
    const c10::AliasInfo *to = schema->returns()[value->offset()].alias_info();
    if (!from || !to || from->isWildcardBefore() || from->beforeSets() != to->beforeSets() ||
        node->input(0)->type()->kind() != kind)
      return false;
    value = node->input(0);
    node = value->node();
  }
  return false;
}

bool isOnlyRead(const Node *node, size_t argument) {
  static const c10::Symbol update = c10::Symbol::aten("update");
  return node->kind() == update && argument == 1;
}

bool keepsElements(const torch::jit::Use &use) {
  if (use.user->kind() == c10::prim::ListUnpack)
    return true;
  const c10::FunctionSchema *schema = use.user->maybeSchema();
  if (!schema || use.offset >= schema->arguments().size())
    return false;
  const c10::Type &type = *schema->arguments()[use.offset].type();
  if (type.hasFreeVariables() && type.kind() != c10::TypeKind::ListType)
    return false; // kept in another list, as by append
  return !writes(use) || writesElements(use.user, use.offset);
}

bool mayChangeRank(const Node *writer) {
  // An out= argument is given the form of the result.
  const c10::FunctionSchema *schema = writer->maybeSchema();
  if (!writer->kind().is_aten() || !schema ||
      llvm::any_of(schema->arguments(), [](const c10::Argument &argument) {
        return argument.kwarg_only() && argument.alias_info() && argument.alias_info()->isWrite();
      }))
    return true;
  return StringSwitch<bool>(writer->kind().toUnqualString())
      .Cases({"resize_", "resize_as_", "sparse_resize_", "set_", "set_data", "as_strided_"}, true)
      .Cases({"squeeze_", "unsqueeze_"}, true)
      .Default(false);
}

bool mayChangeForm(const Node *writer) {
  return mayChangeRank(writer) ||
         StringSwitch<bool>(writer->kind().toUnqualString())
             .Cases({"t_", "transpose_", "swapaxes_", "swapdims_", "detach_", "rename_"}, true)
             .Default(false);
}

bool asksWhatIsRequired(const Node *node, size_t argument) {
  if (!node->kind().is_aten() || node->schema().is_mutable())
    return false;
  const bool isProduct = StringSwitch<bool>(node->kind().toUnqualString())
                             .Cases({"linear", "matmul", "linalg_matmul"}, true)
                             .Cases({"gru", "rnn_tanh", "rnn_relu"}, true)
                             .Default(false);
  const bool isMask = node->kind() == c10::aten::scaled_dot_product_attention && argument == 3;
  return (isProduct || isMask) && holdsTensors(*node->input(argument)->type());
}

bool readsOtherTensor(const Node *writer) {
  return llvm::any_of(writer->inputs().slice(1), [](const Value *input) {
    return input->type()->kind() == c10::TypeKind::TensorType;
  });
}

bool asksForGradMode(const Node *node) { return node->kind() == c10::aten::lstm; }

std::pair<size_t, size_t> hiddenWrites(const Node *node) {
  if (clampsInPlace(node))
    return {0, 1};
  if (!node->kind().is_aten())
    return {0, 0};
  bool normalises =
      StringSwitch<bool>(node->kind().toUnqualString())
          .Cases({"batch_norm", "instance_norm", "native_batch_norm"}, true)
          .Cases({"_batch_norm_impl_index", "cudnn_batch_norm", "miopen_batch_norm"}, true)
          .Default(false);
  // (input, weight, bias, running_mean, running_var, training or use_input_stats, ...)
  if (!normalises || constantFlag(node, 5) == false)
    return {0, 0};
  return {3, 5};
}

bool mayWriteAnything(const Node *node) {
  if (node->kind() == c10::prim::SetAttr)
    return true;
  const c10::FunctionSchema *schema = node->maybeSchema();
  if (schema ? schema->is_mutable() : !node->kind().is_prim())
    return true;
  const auto [first, last] = hiddenWrites(node);
  return first < last;
}

PureForm pureFormOf(const Node *writer) {
  if (!writer->kind().is_aten())
    return PureForm::None;
  // elu_, celu_ and selu_ compute their gradient from the result, elu from the input: they are not
  // here.
  return StringSwitch<PureForm>(writer->kind().toUnqualString())
      .Cases({"relu_", "relu6_", "hardtanh_", "hardswish_", "hardsigmoid_", "silu_", "mish_"},
             PureForm::Unary)
      .Cases({"gelu_", "sigmoid_", "tanh_", "leaky_relu_", "threshold_", "clamp_", "clamp_min_"},
             PureForm::Unary)
      .Cases({"clamp_max_", "neg_", "exp_", "sqrt_", "rsqrt_", "abs_"}, PureForm::Unary)
      .Cases({"add_", "sub_", "mul_", "div_"}, PureForm::Binary)
      .Case("copy_", PureForm::Copy)
      .Cases({"fill_", "zero_"}, PureForm::Fill)
      .Cases({"masked_fill_", "masked_scatter_", "index_put_", "index_fill_"}, PureForm::Indexed)
      .Cases({"index_add_", "index_copy_", "scatter_", "scatter_add_"}, PureForm::Indexed)
      .Cases({"t_", "transpose_", "swapaxes_", "swapdims_", "unsqueeze_", "squeeze_"},
             PureForm::View)
      .Default(PureForm::None);
}

bool makesContiguous(const Node *node) {
  return node->kind().is_aten() && StringSwitch<bool>(node->kind().toUnqualString())
                                       .Cases({"zeros", "ones", "full", "arange", "eye"}, true)
                                       .Cases({"new_zeros", "new_ones", "new_full"}, true)
                                       .Default(false);
}

bool makesDense(const Node *node) {
  if (!node->kind().is_aten())
    return false;
  return StringSwitch<bool>(node->kind().toUnqualString())
      .Cases({"conv1d", "conv2d", "conv3d", "_convolution", "convolution", "batch_norm", "linear",
              "addmm"},
             true)
      .Cases(
          {"add", "sub", "mul", "div", "relu", "hardswish", "hardtanh", "silu", "sigmoid", "clone"},
          true)
      .Cases({"layer_norm", "group_norm", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "cat"},
             true)
      .Cases({"conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "relu6", "leaky_relu"},
             true)
      .Cases({"hardsigmoid", "mish", "gelu", "tanh", "clamp", "neg", "exp", "sqrt", "rsqrt", "abs"},
             true)
      .Default(false);
}

ViewOf viewOf(const Node *node) {
  if (!node->kind().is_aten() || node->outputs().size() != 1)
    return ViewOf::None;
  const ViewOf answer =
      StringSwitch<ViewOf>(node->kind().toUnqualString())
          .Cases({"view", "view_as", "slice", "select", "narrow", "diagonal", "unfold"},
                 ViewOf::Any)
          .Cases({"transpose", "swapaxes", "swapdims", "t", "numpy_T", "permute", "movedim"},
                 ViewOf::Any)
          .Cases({"unsqueeze", "squeeze", "unflatten", "expand", "expand_as", "alias"}, ViewOf::Any)
          .Cases({"reshape", "reshape_as", "flatten", "contiguous", "ravel"}, ViewOf::Contiguous)
          .Default(ViewOf::None);
  // view(dtype) and names of dimensions are other operators.
  const bool otherKind = llvm::any_of(node->inputs(), [](const Value *input) {
    const c10::TypeKind kind = input->type()->kind();
    return kind == c10::TypeKind::StringType;
  });
  const bool ofDtype = node->kind() == c10::aten::view && node->inputs().size() == 2 &&
                       node->input(1)->type()->kind() != c10::TypeKind::ListType;
  return otherKind || ofDtype ? ViewOf::None : answer;
}

bool keepsStridesOfWhole(const Node *view) { return undoOf(view) == Undo::Scatter; }

Value *withPart(Node *view, Value *whole, Value *part, Node *before) {
  const std::string name = view->kind().toUnqualString();
  std::vector<Value *> inputs = {part};
  switch (undoOf(view)) {
  case Undo::None:
    return nullptr;
  case Undo::Scatter:
    inputs.insert(inputs.begin(), whole);
    inputs.insert(inputs.end(), view->inputs().begin() + 1, view->inputs().end());
    return insertBefore(before, view, c10::Symbol::aten(name + "_scatter"), inputs);
  case Undo::Self:
    inputs.insert(inputs.end(), view->inputs().begin() + 1, view->inputs().end());
    return insertBefore(before, view, view->kind(), inputs);
  case Undo::Squeeze:
    inputs.push_back(view->input(1));
    return insertBefore(before, view, c10::aten::squeeze, inputs);
  case Undo::Permute: {
    std::optional<std::vector<int64_t>> dims = inverseOf(view->input(1));
    if (!dims)
      return nullptr;
    torch::jit::WithInsertPoint guard(before);
    inputs.push_back(before->owningGraph()->insertConstant(*dims));
    return insertBefore(before, view, c10::aten::permute, inputs);
  }
  case Undo::Reshape:
    inputs.push_back(whole);
    return insertBefore(before, view, c10::aten::reshape_as, inputs);
  }
  return nullptr;
}

} // namespace pipec
