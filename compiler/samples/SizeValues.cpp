#include "compiler/samples/SizeValues.h"

#include "compiler/samples/FixedNumbers.h"
#include "compiler/samples/SampleOperators.h"
#include "ir/TorchError.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

namespace {

bool isSize(const Node *node) {
  static const llvm::StringSet<> kDimensions = {"dim", "ndimension"};
  return givesSize(node) || isIn(kDimensions, node);
}

/// Whether the node reads the device or the dtype of a tensor. Values computed from sizes are the
/// same on each device and, except for rounding, for each dtype.
bool isOption(const Node *node) {
  return node->kind() == c10::prim::device || node->kind() == c10::prim::dtype;
}

/// Its results are the same in each run, and it leaves its inputs as they are.
bool isRepeatable(const Node *node) {
  static const llvm::StringSet<> kUnset = {"empty"};
  const c10::FunctionSchema *schema = node->maybeSchema();
  return !node->isNondeterministic() && !isIn(kUnset, node) && !(schema && schema->is_mutable());
}

/// Whether it is a scalar, a vector, or a tensor with few elements per sample in which at most one
/// dimension follows the samples: at() may compute it.
bool isSmall(const BatchForm &form) {
  constexpr int64_t kMostPerSample = 8; // each is computed for some hundred numbers of samples
  if (form.isScalar || form.sizes.size() == 1)
    return true;
  int64_t following = 0, elements = 1;
  for (const Dim &size : form.sizes) {
    const int64_t each = size.perBatch != 0 ? size.perBatch : size.constant;
    if (each < 0 || each > kMostPerSample)
      return false;
    following += size.perBatch != 0;
    elements *= each;
    if (elements > kMostPerSample)
      return false;
  }
  return !form.sizes.empty() && following <= 1;
}

} // namespace

SizeValues::Kind SizeValues::kindOf(const Value *value, int steps) {
  if (const auto known = kinds_.find(value); known != kinds_.end())
    return known->second;
  if (steps == 0)
    return Kind::Other;
  const Node *node = value->node();
  const bool isConstant =
      node->kind() == c10::prim::Constant || isOption(node) || fixedInt(value, forms_);
  const Kind kind = isConstant     ? Kind::Constant
                    : isSize(node) ? kindOfSize(value)
                                   : kindOfOperator(value, steps);
  kinds_.emplace(value, kind);
  return kind;
}

SizeValues::Kind SizeValues::kindOfSize(const Value *value) const {
  if (value->type()->kind() == c10::TypeKind::IntType) {
    const auto &number = forms_.of(value).number;
    return !number ? Kind::Other : number->perBatch != 0 ? Kind::Follows : Kind::Constant;
  }
  return value->node()->inputs().size() == 1 && forms_.of(value->node()->input(0)).any()
             ? Kind::Follows
             : Kind::Other;
}

SizeValues::Kind SizeValues::kindOfOperator(const Value *value, int steps) {
  const Node *node = value->node();
  if (node->inputs().empty() || !node->blocks().empty() || node->hasSideEffects() ||
      !(node->kind().is_aten() || node->kind().is_prim()))
    return Kind::Other;
  const BatchForm &form = forms_.of(value);
  const auto list = value->type()->cast<c10::ListType>();
  const c10::TypeKind entry = list ? list->getElementType()->kind() : c10::TypeKind::IntType;
  if (entry == c10::TypeKind::TensorType || entry == c10::TypeKind::OptionalType)
    return Kind::Other; // of indices: each is looked at
  if (isTensor(value) && (!isSmall(form) || !isRepeatable(node)))
    return Kind::Other;
  Kind kind = Kind::Constant;
  for (const Value *input : node->inputs()) {
    const Kind one = kindOf(input, steps - 1);
    if (one == Kind::Other)
      return one;
    kind = one == Kind::Follows ? one : kind;
  }
  return kind;
}

bool SizeValues::becomesInteger(const Value *value) {
  static const llvm::StringSet<> kCasts = {"to", "type_as"};
  if (!isIn(kCasts, value->node()))
    return false;
  const std::optional<c10::IValue> before = at(value->node()->input(0), 2), after = at(value, 2);
  return before && after && before->isTensor() && after->isTensor() &&
         before->toTensor().is_floating_point() && !after->toTensor().is_floating_point();
}

bool SizeValues::bends(const Value *value) {
  static const llvm::StringSet<> kLinear = {"add",           "sub",
                                            "rsub",          "mul",
                                            "neg",           "Int",
                                            "Float",         "Scalar",
                                            "NumToTensor",   "ListUnpack",
                                            "ListConstruct", "__getitem__",
                                            "TupleUnpack",   "ScalarImplicit",
                                            "IntImplicit",   "FloatImplicit",
                                            "tensor",        "slice"};
  static const llvm::StringSet<> kRows = {
      "arange",  "zeros",  "ones",      "full",    "to",     "float",     "double",    "type_as",
      "view",    "expand", "expand_as", "reshape", "select", "flatten",   "unsqueeze", "transpose",
      "permute", "t",      "squeeze",   "detach",  "clone",  "contiguous"};
  if (const auto known = bends_.find(value); known != bends_.end())
    return known->second;
  const Node *node = value->node();
  auto isPart = [&](const Node *one) { // a quotient that is not rounded
    static const llvm::StringSet<> kDivides = {"div", "true_divide"};
    return isIn(kDivides, one) && one->inputs().size() == 2 && !follows(one->input(1));
  };
  bool found = false;
  if (follows(value) && !isSize(node))
    found = !(isIn(kLinear, node) || isIn(kRows, node) || isPart(node)) || becomesInteger(value) ||
            llvm::any_of(node->inputs(), [&](const Value *input) { return bends(input); });
  bends_.emplace(value, found);
  return found;
}

std::optional<int64_t> SizeValues::rowsAlong(const Value *value) const {
  const std::vector<Dim> &sizes = forms_.of(value).sizes;
  const auto rows = llvm::find_if(sizes, [](const Dim &size) { return size.perBatch > 0; });
  return isTensor(value) && rows != sizes.end() ? std::optional(rows - sizes.begin())
                                                : std::nullopt;
}

bool SizeValues::isMadeOfRows(const Value *value) {
  if (const auto known = ofRows_.find(value); known != ofRows_.end())
    return known->second;
  const bool found =
      follows(value) &&
      (hasRows(value) || llvm::any_of(value->node()->inputs(),
                                      [&](const Value *input) { return isMadeOfRows(input); }));
  return ofRows_[value] = found;
}

std::optional<c10::IValue> SizeValues::at(const Value *value, int64_t samples) {
  if (samples > kMostRows && isMadeOfRows(value))
    return std::nullopt;
  if (samples != samples_)
    computed_.clear();
  samples_ = samples;
  llvm::Expected<c10::IValue> computed =
      guardTorch(ExitCode::Other, "sizes", [&]() -> c10::IValue { return compute(value); });
  if (computed)
    return *computed;
  llvm::consumeError(computed.takeError()); // as a division by zero
  return std::nullopt;
}

c10::IValue SizeValues::compute(const Value *value) {
  if (const auto known = computed_.find(value); known != computed_.end())
    return known->second;
  Node *node = const_cast<Node *>(value->node());
  if (node->kind() == c10::prim::Constant)
    return *torch::jit::toIValue(value);
  if (const std::optional<int64_t> number = fixedInt(value, forms_))
    return *number;
  if (node->kind() == c10::prim::device)
    return c10::Device(c10::kCPU);
  if (node->kind() == c10::prim::dtype)
    return static_cast<int64_t>(c10::kFloat);
  if (isSize(node))
    return computed_[value] = sizeAt(value);
  std::vector<Value *> used;
  for (Value *input : node->inputs())
    if (!llvm::is_contained(used, input))
      used.push_back(input);
  auto [prepared, isNew] = prepared_.try_emplace(node);
  if (isNew)
    prepared->second = NodeRunner::prepare(node, used);
  for (Value *input : used) // before the stack is filled
    compute(input);
  torch::jit::Stack stack;
  runner_.run(node, prepared->second, stack, [&](Value *input) { return compute(input); });
  for (size_t o = 0; o < node->outputs().size(); ++o)
    computed_[node->output(o)] = stack.at(o);
  return computed_.at(value);
}

c10::IValue SizeValues::sizeAt(const Value *value) const {
  if (const auto &number = forms_.of(value).number)
    return number->at(samples_);
  std::vector<int64_t> sizes;
  for (const Dim &size : forms_.of(value->node()->input(0)).sizes)
    sizes.push_back(size.at(samples_));
  return sizes;
}

} // namespace pipec
