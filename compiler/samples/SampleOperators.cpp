#include "compiler/samples/SampleOperators.h"

#include "compiler/samples/FixedNumbers.h"
#include "ir/NodeInfo.h"
#include "ir/support/Llvm.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

/// Without the underscore of an operator that writes.
static std::string plainName(const Node *node) {
  llvm::StringRef name = node->kind().toUnqualString();
  if (node->kind().is_aten() && name.size() > 1 && name.back() == '_' &&
      name[name.size() - 2] != '_')
    name = name.drop_back();
  return name.str();
}

bool isIn(const llvm::StringSet<> &names, const Node *node) {
  return (node->kind().is_aten() || node->kind().is_prim()) && names.count(plainName(node));
}

bool isTensor(const Value *value) { return value->type()->kind() == c10::TypeKind::TensorType; }

namespace {

using Names = llvm::StringSet<>;

/// The constant at an argument; nullopt: no such argument, or no constant.
std::optional<c10::IValue> constantAt(Node *node, const char *argument) {
  Value *input = inputNamed(node, argument);
  return input ? torch::jit::toIValue(input) : std::nullopt;
}

bool isAlong(const std::vector<bool> &dims, int64_t dim) {
  const auto rank = static_cast<int64_t>(dims.size());
  if (dim < 0)
    dim += rank;
  return dim >= 0 && dim < rank && dims[dim];
}

/// Whether the argument `dim` names a dimension that follows the samples; without one, all are
/// meant.
bool isOverSamples(Node *node, const BatchForms &forms) {
  const BatchForm &form = forms.of(node->input(0));
  if (!form.any())
    return false;
  if (!inputNamed(node, "dim"))
    return true;
  const std::optional<c10::IValue> dim = constantAt(node, "dim");
  if (!dim) // the result tells
    return !forms.of(node->output(0)).any();
  if (dim->isNone() || (dim->isIntList() && dim->toIntList().empty()))
    return true;
  if (dim->isInt())
    return isAlong(form.dims, dim->toInt());
  return dim->isIntList() &&
         llvm::any_of(dim->toIntVector(), [&](int64_t one) { return isAlong(form.dims, one); });
}

bool isReduction(const Node *node) {
  static const Names names = {"sum",           "mean",     "prod",      "amax",
                              "amin",          "max",      "min",       "any",
                              "all",           "argmax",   "argmin",    "norm",
                              "std",           "var",      "median",    "mode",
                              "logsumexp",     "nansum",   "nanmean",   "aminmax",
                              "count_nonzero", "equal",    "nanmedian", "quantile",
                              "allclose",      "std_mean", "var_mean",  "linalg_vector_norm",
                              "bincount",      "histc",    "is_nonzero"};
  if (!isIn(names, node) || node->inputs().empty() || !isTensor(node->input(0)))
    return false;
  const std::string name = plainName(node);
  const bool isOfTwo =
      (name == "max" || name == "min") && node->inputs().size() > 1 && isTensor(node->input(1));
  return !isOfTwo;
}

/// A mean over labels that count. With one label per sample and no ignored one, all count.
bool isAverageOfCounted(Node *node, const BatchForms &forms) {
  static const Names names = {"cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d"};
  if (!isIn(names, node))
    return false;
  const std::optional<c10::IValue> reduction = constantAt(node, "reduction"),
                                   ignored = constantAt(node, "ignore_index"),
                                   weight = constantAt(node, "weight");
  const BatchForm &target = forms.of(node->input(1));
  constexpr int64_t kMean = 1, kNeverIgnored = -100; // as LibTorch's default
  if (!reduction || !reduction->isInt() || reduction->toInt() != kMean || !target.any() ||
      target.dims.size() == forms.of(node->input(0)).dims.size()) // probabilities
    return false;
  const bool isWeighted = !weight || !weight->isNone();
  const bool ignores = !ignored || !ignored->isInt() || ignored->toInt() != kNeverIgnored;
  return isWeighted || ignores || target.dims.size() > 1 ||
         forms.rowsPerSample(node->input(1), 0) > 1;
}

/// The dimension along which numbers that do not depend on the samples select rows.
std::optional<int64_t> fixedPartAlong(Node *node, const BatchForms &forms) {
  static const Names names = {"slice", "narrow", "select"};
  if (!isIn(names, node) || !isTensor(node->input(0)))
    return std::nullopt;
  const std::optional<c10::IValue> dim = constantAt(node, "dim");
  if (!dim || !dim->isInt())
    return std::nullopt;
  const int64_t along = dim->toInt();
  if (plainName(node) == "narrow")
    return along;
  if (plainName(node) == "select")
    return fixedInt(inputNamed(node, "index"), forms) ? std::optional(along) : std::nullopt;
  auto isBound = [&](const char *argument, int64_t none) {
    Value *bound = inputNamed(node, argument);
    const std::optional<int64_t> number = bound ? fixedInt(bound, forms) : std::nullopt;
    return number && *number != none;
  };
  const bool isFixed = isBound("start", 0) || isBound("end", std::numeric_limits<int64_t>::max());
  return isFixed ? std::optional(along) : std::nullopt;
}

/// Whether the operator may take one sample per round of a loop, or rows whose number is equal in
/// two runs by coincidence.
bool mayTakeAny(Node *node, const BatchForms &forms) {
  static const Names parts = {"select", "narrow", "slice"};
  static const Names rows = {"index", "index_select", "gather", "take", "embedding", "__getitem__"};
  return isIn(rows, node) || (isIn(parts, node) && !fixedPartAlong(node, forms));
}

/// Whether a size of the inputs follows the samples and no size of the results does.
bool combinesSamples(Node *node, const BatchForms &forms) {
  static const Names ofSecondType = {"to", "type_as"}; // the elements are those of the first input
  const bool follows =
      llvm::any_of(isIn(ofSecondType, node) ? node->inputs().slice(0, 1) : node->inputs(),
                   [&](const Value *input) { return forms.of(input).any(); });
  return node->kind().is_aten() && follows && !node->outputs().empty() &&
         !mayTakeAny(node, forms) && llvm::all_of(node->outputs(), [&](const Value *output) {
           return isTensor(output) && forms.of(output).isFixed();
         });
}

/// Whether the result has an element for each pair of samples, as that of x @ x.t() or of a
/// comparison of all with all. The inputs may be a list, as those of einsum.
bool pairsSamples(Node *node, const BatchForms &forms) {
  auto largest = [&](at::ArrayRef<Value *> values) {
    std::ptrdiff_t most = 0;
    for (const Value *value : values)
      most = std::max(most, llvm::count(forms.of(value).dims, true));
    return most;
  };
  return node->kind().is_aten() && largest(node->inputs()) == 1 && largest(node->outputs()) > 1;
}

/// Whether the operator compares each element with the elements of every sample.
bool comparesWithAll(Node *node, const BatchForms &forms) {
  static const Names compares = {"isin", "searchsorted", "bucketize"};
  if (!isIn(compares, node))
    return false;
  if (Value *others = inputNamed(node, "test_elements"))
    return forms.of(others).any();
  for (const char *sorted : {"sorted_sequence", "boundaries"}) // a row of them is searched
    if (Value *all = inputNamed(node, sorted))
      return isAlong(forms.of(all).dims, -1);
  return false;
}

/// Without a dimension, or down to one number.
bool reducesAllDims(Node *node, const BatchForms &forms) {
  const std::optional<c10::IValue> dim = constantAt(node, "dim");
  return !inputNamed(node, "dim") || (dim && dim->isNone()) ||
         (dim && dim->isIntList() && dim->toIntList().empty()) ||
         (forms.of(node->input(0)).dims.size() > 1 && forms.of(node->output(0)).isScalar);
}

/// The number in a name as "max_pool2d" or "_adaptive_avg_pool3d"; 0: none.
int64_t windowDims(llvm::StringRef name) {
  for (size_t i = 0; i + 1 < name.size(); ++i)
    if (name[i] >= '1' && name[i] <= '3' && name[i + 1] == 'd')
      return name[i] - '0';
  return 0;
}

/// It slides windows over dimensions that follow the samples, or scales along them: pooling and
/// convolution of a transposed batch, a norm of its columns.
bool spansSamples(Node *node, const BatchForms &forms) {
  static const Names convolutions = {"conv1d",           "conv2d",           "conv3d",
                                     "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
  static const Names allButFirst = {"_convolution", "convolution", "group_norm", "instance_norm"};
  if (!node->kind().is_aten() || !isTensor(node->input(0)))
    return false;
  const std::vector<bool> &dims = forms.of(node->input(0)).dims;
  const size_t rank = dims.size();
  const std::string name = plainName(node);
  const auto windows = static_cast<size_t>(windowDims(name));
  auto anyOfLast = [&](size_t count) {
    return std::find(dims.end() - static_cast<std::ptrdiff_t>(std::min(count, rank)), dims.end(),
                     true) != dims.end();
  };
  if (isIn(convolutions, node)) // without a batch, all dimensions are combined
    return anyOfLast(windows + 1);
  if (isIn(allButFirst, node))
    return rank > 0 && anyOfLast(rank - 1);
  if (name == "layer_norm") {
    const std::optional<c10::IValue> shape = constantAt(node, "normalized_shape");
    return shape && shape->isIntList() && anyOfLast(shape->toIntList().size());
  }
  if (name == "renorm") {
    const std::optional<c10::IValue> kept = constantAt(node, "dim");
    return llvm::count(dims, true) >
           (kept && kept->isInt() && isAlong(dims, kept->toInt()) ? 1 : 0);
  }
  const bool isPool = name.find("pool") != std::string::npos && rank <= windows + 2;
  const bool isUpsample = startsWith(name, "upsample") && rank == windows + 2;
  return (isPool || isUpsample) && anyOfLast(windows);
}

/// Whether the number arguments of the operator are sizes of its result. They set the number of
/// elements and not their values.
bool makesTensor(const Node *node) {
  static const Names names = {"arange", "zeros", "ones", "empty", "eye"};
  return isIn(names, node);
}

/// v[1:] of a list of numbers with an entry per sample: entry i belongs to sample i + 1.
bool shiftsEntries(Node *node, const BatchForms &forms) {
  if (node->kind() != c10::aten::slice || node->input(0)->type()->kind() != c10::TypeKind::ListType)
    return false;
  const std::optional<Dim> &length = forms.of(node->input(0)).length;
  const std::optional<int64_t> start = constantInt(inputNamed(node, "start")),
                               step = constantInt(inputNamed(node, "step"));
  return length && length->perBatch == 1 && length->constant == 0 && start.value_or(0) != 0 &&
         step == 1;
}

/// With == or != as well. Comparisons with 0 and 1 ask whether there is anything.
bool comparesWithMany(Node *node) {
  static const Names names = {"lt", "le",   "gt",      "ge",         "eq",
                              "ne", "less", "greater", "less_equal", "greater_equal"};
  return isIn(names, node) && llvm::any_of(node->inputs(), [](Value *input) {
           const std::optional<c10::IValue> constant = torch::jit::toIValue(input);
           return constant && ((constant->isInt() && constant->toInt() > 1) ||
                               (constant->isDouble() && constant->toDouble() > 1));
         });
}

/// Sizes, dtypes and devices, and new tensors of a given form.
bool asksForForm(const Node *node) {
  static const Names kForms = {"size",      "numel",      "len",       "dim",       "zeros_like",
                               "ones_like", "empty_like", "full_like", "new_zeros", "new_ones",
                               "new_empty", "new_full",   "dtype",     "device",    "rand_like",
                               "layout",    "ndimension", "is_cuda",   "sym_size",  "sym_numel"};
  return isIn(kForms, node);
}

/// Each element of the result depends on several along a dimension.
bool scansElements(const Node *node) {
  static const Names kScans = {"cumsum", "cumprod",  "cummax",   "cummin",      "logcumsumexp",
                               "topk",   "kthvalue", "softmax",  "log_softmax", "diff",
                               "flip",   "roll",     "gradient", "trapz",       "trapezoid"};
  return isIn(kScans, node);
}

/// The values decide how many rows the result has.
bool selectsByValue(const Node *node) {
  static const Names kSelects = {"nonzero",    "nonzero_numpy", "argwhere", "masked_select",
                                 "unique_dim", "_unique",       "_unique2", "unique_consecutive"};
  return isIn(kSelects, node);
}

/// The result has the samples of the first input.
bool keepsSamples(const Node *node) {
  static const Names kViews = {
      "view",        "reshape",     "unsqueeze",      "squeeze",       "flatten",
      "expand",      "to",          "detach",         "contiguous",    "clone",
      "alias",       "type_as",     "unflatten",      "expand_as",     "ListUnpack",
      "TupleUnpack", "TupleIndex",  "TupleConstruct", "ListConstruct", "__getitem__",
      "long",        "floor_divide"};
  return isIn(kViews, node);
}

} // namespace

bool givesSize(const Node *node) {
  static const Names names = {"size", "numel", "len", "sym_size", "sym_numel"};
  return isIn(names, node);
}

bool readsList(Node *node) {
  static const Names reads = {"max",  "min",    "sum",   "any",   "all",
                              "sort", "sorted", "count", "index", "__contains__"};
  static const Names takes = {"__getitem__"};
  if (node->inputs().empty())
    return false;
  const auto list = node->input(0)->type()->cast<c10::ListType>();
  if (!list)
    return false;
  const c10::TypeKind kind = list->getElementType()->kind();
  if (kind != c10::TypeKind::IntType && kind != c10::TypeKind::FloatType &&
      kind != c10::TypeKind::BoolType)
    return false;
  return isIn(reads, node) || (isIn(takes, node) && constantInt(node->input(1)));
}

bool writesSelected(const Node *node) {
  static const Names names = {"index_put",   "masked_fill",    "masked_scatter", "where",
                              "index_add",   "index_copy",     "index_fill",     "scatter",
                              "scatter_add", "scatter_reduce", "_index_put_impl"};
  return isIn(names, node);
}

OperatorRole roleOf(Node *node, const BatchForms &forms) {
  static const Names kSorts = {"sort", "argsort", "msort"};
  static const Names kLengths = {"_pack_padded_sequence", "repeat_interleave"};
  static const Names kDivides = {"div", "true_divide", "divide"};
  static const Names kCompares = {"lt",   "le",      "gt",         "ge",
                                  "less", "greater", "less_equal", "greater_equal"};
  static const Names kLimits = {"min", "minimum", "clamp", "clamp_max", "clip"};
  static const Names kParts = {"slice",
                               "narrow",
                               "split",
                               "split_with_sizes",
                               "tensor_split",
                               "unsafe_split",
                               "unsafe_split_with_sizes",
                               "_grouped_mm",
                               "grouped_mm"};
  using Kind = OperatorRole::Kind;
  OperatorRole role;
  if (node->inputs().empty())
    return role;
  const bool follows = isTensor(node->input(0)) && forms.of(node->input(0)).any();
  role.divides = isIn(kDivides, node);
  role.compares = isIn(kCompares, node);
  role.limits = isIn(kLimits, node);
  role.takesParts = isIn(kParts, node);
  const std::optional<int64_t> part = fixedPartAlong(node, forms);
  role.takesFirst = part == 0;
  role.cutsOff = part && isAlong(forms.of(node->input(0)).dims, *part);
  role.comparesWithMany = comparesWithMany(node);
  role.reduces = isReduction(node);
  role.reducesAll = role.reduces && reducesAllDims(node, forms);
  role.isMean = role.reduces && (plainName(node) == "mean" || plainName(node) == "nanmean");
  role.isAverage = isAverageOfCounted(node, forms);
  const bool isMaskIndex =
      plainName(node) == "index" && node->inputs().size() > 1 && forms.of(node->input(1)).isMask;
  const bool isWhere = plainName(node) == "where" && node->inputs().size() == 1;
  const bool selects = selectsByValue(node) || isMaskIndex || isWhere;
  role.fromData = selects || isIn(kLengths, node);
  if (asksForForm(node) || makesTensor(node)) {
    role.kind = Kind::Form;
    role.isCount = givesSize(node);
    role.isMade = makesTensor(node);
  } else if ((role.reduces || scansElements(node)) && isOverSamples(node, forms)) {
    role.kind = Kind::Over;
  } else if (isIn(kSorts, node) && isOverSamples(node, forms)) {
    role.kind = Kind::Order;
  } else if (follows && selects) {
    role.kind = Kind::Selects;
    role.overOutput = node->outputs().size() == 3 ? 2 : role.overOutput; // numbers of equal rows
  } else if (combinesSamples(node, forms) || pairsSamples(node, forms) ||
             spansSamples(node, forms) || comparesWithAll(node, forms) ||
             (readsList(node) && forms.of(node->input(0)).isLong) || shiftsEntries(node, forms)) {
    role.kind = Kind::Over;
  } else if (writesSelected(node)) {
    role.kind = Kind::Writes;
  } else if (keepsSamples(node)) {
    role.kind = Kind::View;
  }
  return role;
}

} // namespace pipec
