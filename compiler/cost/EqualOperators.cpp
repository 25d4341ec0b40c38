#include "compiler/cost/EqualOperators.h"

#include "ir/NodeInfo.h"
#include "ir/support/StringSwitch.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"

#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <sstream>

namespace pipec {

namespace {

constexpr int64_t kMostBytes = int64_t(256) << 20;

/// Whether it is a dense floating-point tensor. No kernel derives sizes from the elements of such
/// tensors.
bool isPlain(const at::Tensor &tensor) {
  return tensor.defined() && !tensor.is_nested() && tensor.layout() == at::kStrided &&
         !tensor.is_quantized() && tensor.is_floating_point();
}

std::string formOf(const at::Tensor &tensor) {
  return fmt::format("{}[{}]({}){}{}", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ","), fmt::join(tensor.strides(), ","),
                     tensor.requires_grad() ? "g" : "", tensor.device().str());
}

/// Nothing for a tensor whose elements may decide about sizes.
bool addText(const c10::IValue &value, std::ostream &text) {
  if (value.isTensor()) {
    if (!isPlain(value.toTensor()))
      return false;
    text << formOf(value.toTensor());
    return true;
  }
  if (value.isTensorList()) {
    text << "list";
    return llvm::all_of(value.toTensorVector(), [&](const at::Tensor &tensor) {
      return addText(c10::IValue(tensor), text << ',');
    });
  }
  const bool isNumbers = value.isNone() || value.isScalar() || value.isBool() || value.isString() ||
                         value.isDevice() || value.isIntList() || value.isDoubleList() ||
                         value.isBoolList();
  if (isNumbers)
    text << value;
  return isNumbers;
}

bool readsMetadata(torch::jit::Node *node) {
  return StringSwitch<bool>(node->kind().toQualString())
      .Cases({"aten::size", "aten::dim", "aten::numel", "aten::len", "aten::stride",
              "aten::is_floating_point", "aten::is_complex", "prim::dtype", "prim::device",
              "prim::layout", "prim::is_cuda", "prim::requires_grad"},
             true)
      .Default(false);
}

bool isPacking(torch::jit::Node *node) {
  const c10::Symbol kind = node->kind();
  return kind == c10::prim::ListConstruct || kind == c10::prim::ListUnpack ||
         kind == c10::prim::TupleConstruct || kind == c10::prim::TupleUnpack;
}

} // namespace

bool EqualOperators::suits(const TopLevel &top) {
  return llvm::none_of(top.operators, [](torch::jit::Node *node) {
    return firstInside(node, [](torch::jit::Node *inner) {
      return inner->hasSideEffects() || mayWriteAnything(inner) || mayUseGenerator(inner);
    });
  });
}

bool EqualOperators::needsElements(torch::jit::Node *node, llvm::ArrayRef<torch::jit::Value *> used,
                                   const torch::jit::Stack &results) const {
  if (!anyBorrowed(used) || readsMetadata(node) || isPacking(node))
    return false;
  return !node->blocks().empty() || !llvm::all_of(results, [](const c10::IValue &result) {
    return result.isTensor() && isPlain(result.toTensor());
  });
}

std::optional<std::string> EqualOperators::keyOf(torch::jit::Node *node,
                                                 const torch::jit::Stack &inputs) {
  if (!node->kind().is_aten() || !node->maybeSchema() || !node->blocks().empty())
    return std::nullopt;
  std::ostringstream text;
  text << c10::toString(node->schema());
  bool any = false;
  for (const c10::IValue &input : inputs) {
    any = any || input.isTensor() || input.isTensorList();
    text << ';';
    if (!addText(input, text))
      return std::nullopt;
  }
  return any ? std::optional(text.str()) : std::nullopt;
}

const EqualOperators::Known *EqualOperators::find(const std::string &key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : &found->second;
}

void EqualOperators::keep(const std::string &key, Known known) {
  int64_t bytes = 0;
  for (const c10::IValue &result : known.results) {
    if (!result.isTensor() || !isPlain(result.toTensor()))
      return;
    bytes += static_cast<int64_t>(result.toTensor().nbytes());
  }
  if (bytes_ + bytes > kMostBytes)
    return;
  bytes_ += bytes;
  known_.emplace(key, std::move(known));
}

void EqualOperators::borrow(torch::jit::Node *node) {
  borrowed_.insert(node->outputs().begin(), node->outputs().end());
}

void EqualOperators::follow(torch::jit::Node *node, llvm::ArrayRef<torch::jit::Value *> used) {
  if (anyBorrowed(used) && !readsMetadata(node))
    borrow(node);
}

bool EqualOperators::anyBorrowed(llvm::ArrayRef<torch::jit::Value *> used) const {
  return llvm::any_of(used, [&](torch::jit::Value *value) { return borrowed_.count(value); });
}

} // namespace pipec
