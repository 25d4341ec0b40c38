#include "passes/analysis/MemoryTypes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <utility>

namespace pipec {

namespace {

/// The constant truth of an input, if it has one.
std::optional<bool> constantFlag(const torch::jit::Node *node, size_t input) {
  if (input >= node->inputs().size())
    return std::nullopt;
  std::optional<c10::IValue> value = torch::jit::toIValue(node->inputs()[input]);
  if (!value || !value->isBool())
    return std::nullopt;
  return value->toBool();
}

bool anyContained(const c10::Type &type, bool (*predicate)(const c10::Type &)) {
  for (const c10::TypePtr &contained : type.containedTypes()) {
    if (predicate(*contained))
      return true;
  }
  return false;
}

} // namespace

bool hasMemory(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::ComplexType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::StringType:
  case c10::TypeKind::NumberType:
  case c10::TypeKind::NoneType:
  case c10::TypeKind::DeviceObjType:
  case c10::TypeKind::StreamObjType:
  case c10::TypeKind::EnumType:
  case c10::TypeKind::ScalarTypeType:
  case c10::TypeKind::LayoutType:
  case c10::TypeKind::MemoryFormatType:
  case c10::TypeKind::SymIntType:
  case c10::TypeKind::SymFloatType:
  case c10::TypeKind::SymBoolType:
  case c10::TypeKind::FunctionType:
    return false;
  case c10::TypeKind::OptionalType:
  case c10::TypeKind::UnionType:
  case c10::TypeKind::TupleType: // a tuple itself cannot be written
    return anyContained(type, hasMemory);
  default: // tensors, lists, dicts, objects, and whatever LibTorch adds
    return true;
  }
}

bool mayHold(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return false;
  case c10::TypeKind::OptionalType:
  case c10::TypeKind::UnionType:
    return anyContained(type, mayHold);
  case c10::TypeKind::ListType:
  case c10::TypeKind::DictType:
  case c10::TypeKind::TupleType:
  case c10::TypeKind::FutureType:
    return anyContained(type, hasMemory);
  default:
    return hasMemory(type);
  }
}

bool mayReturnInput(const torch::jit::Node *node) {
  enum Answer { No, Yes, UnlessTraining, UnlessTrainingAndP };
  if (!node->kind().is_aten())
    return false;
  Answer answer =
      llvm::StringSwitch<Answer>(node->kind().toUnqualString())
          .Cases("type_as", "sum_to_size", "einsum", "meshgrid", "broadcast_tensors", Yes)
          .Cases("atleast_1d", "atleast_2d", "atleast_3d", "align_tensors", Yes)
          .Cases("to_dense", "dequantize", "cartesian_prod", "chain_matmul", Yes)
          .Cases("_unsafe_view", "_reshape_alias", "unsafe_chunk", "unsafe_split", Yes)
          .Cases("unsafe_split_with_sizes", "data", "set_", "set_data", "_fw_primal", Yes)
          .Cases("align_to", "align_as", "refine_names", "rename", "lift", Yes)
          .Cases("to_mkldnn", "cpu", "cuda", "_sparse_coo_tensor_unsafe", Yes)
          .Cases("conj_physical", "_cast_Float", "_cast_Double", "_cast_Half", "_cast_Byte", Yes)
          .Cases("_cast_Char", "_cast_Int", "_cast_Long", "_cast_Short", Yes)
          .Cases("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout",
                 UnlessTrainingAndP)
          .Default(No);
  if (answer != UnlessTrainingAndP)
    return answer == Yes;
  if (constantFlag(node, 2) != true)
    return true;
  std::optional<c10::IValue> p = torch::jit::toIValue(node->inputs()[1]);
  return !p || !p->isDouble() || p->toDouble() == 0;
}

bool mayChangeRank(const torch::jit::Node *writer) {
  // An out= argument is given the form of the result.
  const c10::FunctionSchema *schema = writer->maybeSchema();
  if (!writer->kind().is_aten() || !schema ||
      llvm::any_of(schema->arguments(), [](const c10::Argument &argument) {
        return argument.kwarg_only() && argument.alias_info() && argument.alias_info()->isWrite();
      }))
    return true;
  return llvm::StringSwitch<bool>(writer->kind().toUnqualString())
      .Cases("resize_", "resize_as_", "sparse_resize_", "set_", "set_data", "as_strided_", true)
      .Cases("squeeze_", "unsqueeze_", true)
      .Default(false);
}

bool mayChangeForm(const torch::jit::Node *writer) {
  return mayChangeRank(writer) ||
         llvm::StringSwitch<bool>(writer->kind().toUnqualString())
             .Cases("t_", "transpose_", "swapaxes_", "swapdims_", "detach_", "rename_", true)
             .Default(false);
}

std::pair<size_t, size_t> hiddenWrites(const torch::jit::Node *node) {
  if (!node->kind().is_aten())
    return {0, 0};
  bool normalises =
      llvm::StringSwitch<bool>(node->kind().toUnqualString())
          .Cases("batch_norm", "instance_norm", "native_batch_norm", true)
          .Cases("_batch_norm_impl_index", "cudnn_batch_norm", "miopen_batch_norm", true)
          .Default(false);
  // (input, weight, bias, running_mean, running_var, training or use_input_stats, ...)
  if (!normalises || constantFlag(node, 5) == false)
    return {0, 0};
  return {3, 5};
}

} // namespace pipec
