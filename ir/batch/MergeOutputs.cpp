#include "ir/batch/MergeOutputs.h"

#include "ir/TorchError.h"
#include "ir/batch/MergeContainers.h"
#include "ir/batch/ModelRunner.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/values/CompareValues.h"
#include "ir/values/Elements.h"
#include "llvm/ADT/SmallVector.h"

#include <fmt/ranges.h>

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/cat.h>

#include <numeric>

namespace pipec {

namespace {

std::string asList(const std::string &path) {
  return fmt::format("--merge {}=list makes it a list with a value per micro-batch", path);
}

/// Whether tensors can be concatenated along `dim`: all other sizes agree. True for other values.
bool fitsConcat(llvm::ArrayRef<c10::IValue> parts, int64_t dim) {
  for (const c10::IValue &part : parts) {
    if (!part.isTensor() || !parts.front().isTensor())
      return true;
    const at::Tensor &first = parts.front().toTensor(), &other = part.toTensor();
    if (!first.defined() || !other.defined())
      return true;
    if (first.dim() != other.dim())
      return false;
    for (int64_t d = 0; d < first.dim(); ++d)
      if (d != dim && first.size(d) != other.size(d))
        return false;
  }
  return true;
}

/// Merges one value per micro-batch; containers are merged element by element. Values that should
/// be concatenated but are not alike, such as a list with an element per sample or None beside a
/// tensor, become a list.
class Merger {
public:
  /// path: of the result, for advice.
  Merger(const MergeRule &rule, PathOf path, llvm::ArrayRef<int64_t> samples)
      : rule_(rule), path_(path), samples_(samples) {}

  /// Whether values that should be concatenated became a list. After merge().
  bool foundUnlike() const { return foundUnlike_; }
  /// Whether merge() failed because of values that a list can hold.
  bool fitsList() const { return fitsList_; }

  llvm::Expected<c10::IValue> merge(llvm::ArrayRef<c10::IValue> parts) {
    const c10::IValue &first = parts.front();
    if (rule_.kind == MergeRule::Kind::Join)
      return joined(parts, rule_.dim);
    if (llvm::any_of(parts,
                     [&](const c10::IValue &part) { return part.tagKind() != first.tagKind(); }))
      return unlike(parts);
    if (first.isTensor())
      return tensors(parts);
    if (isContainer(first) && !areAlike(parts))
      return unlike(parts);
    if (isContainer(first))
      return mapElements(parts, [&](llvm::ArrayRef<c10::IValue> column) { return merge(column); });
    if (first.isDouble() && isReduction()) {
      double result = 0;
      for (size_t k = 0; k < parts.size(); ++k)
        result += parts[k].toDouble() * weight(k);
      return c10::IValue(result);
    }
    if (first.isInt() && rule_.kind == MergeRule::Kind::Sum) {
      int64_t sum = 0;
      for (const c10::IValue &part : parts)
        if (__builtin_add_overflow(sum, part.toInt(), &sum))
          return makeError(ExitCode::Other, "the sum over micro-batches is larger than an int");
      return c10::IValue(sum);
    }
    // A whole number beside averages must be equal in all.
    const bool same = rule_.kind == MergeRule::Kind::Same ||
                      (first.isInt() && rule_.kind == MergeRule::Kind::Mean);
    return same ? theSame(parts) : noNumbers(first);
  }

private:
  llvm::Expected<c10::IValue> unlike(llvm::ArrayRef<c10::IValue> parts) {
    if (rule_.kind == MergeRule::Kind::Concat) {
      foundUnlike_ = true;
      return listOf(parts);
    }
    if (rule_.kind == MergeRule::Kind::Same)
      return theSame(parts);
    fitsList_ = isReduction();
    return differentTrees();
  }

  bool isReduction() const {
    return rule_.kind == MergeRule::Kind::Sum || rule_.kind == MergeRule::Kind::Mean;
  }

  llvm::Error noNumbers(const c10::IValue &value) const {
    return makeError(
        ExitCode::Other,
        fmt::format("merge rule {}: expected {}, got a value of type {}", toString(rule_),
                    rule_.kind == MergeRule::Kind::Concat ? "tensors" : "numbers", value.tagKind()),
        asList(path_()));
  }

  /// Share of micro-batch `k` in a mean over samples, or in a sum.
  double weight(size_t k) const {
    if (rule_.kind == MergeRule::Kind::Sum)
      return 1;
    return static_cast<double>(samples_[k]) /
           static_cast<double>(std::accumulate(samples_.begin(), samples_.end(), int64_t(0)));
  }

  /// Equal values in the example prove nothing about other inputs.
  llvm::Expected<c10::IValue> theSame(llvm::ArrayRef<c10::IValue> parts) {
    for (size_t k = 1; k < parts.size(); ++k) {
      Comparison comparison = compare(parts.front(), parts[k], 0.0, 0.0);
      fitsList_ = !comparison.equal;
      if (fitsList_)
        return makeError(
            ExitCode::Other,
            fmt::format("expected the same value from all micro-batches, as on the example inputs, "
                        "got {} from micro-batch 0 and {} from micro-batch {}{}",
                        comparison.expected, comparison.actual, k,
                        comparison.where.empty() ? "" : ", at " + comparison.where),
            asList(path_()) +
                ", or compile with example inputs on which it differs between samples");
    }
    return parts.front();
  }

  /// Summed in double (whole numbers as such) and in order of the micro-batches.
  at::Tensor reduced(llvm::ArrayRef<c10::IValue> parts) const {
    const at::Tensor &first = parts[0].toTensor();
    const at::ScalarType wide = first.is_complex()          ? at::kComplexDouble
                                : first.is_floating_point() ? at::kDouble
                                                            : at::kLong;
    const bool isSum = rule_.kind == MergeRule::Kind::Sum;
    at::Tensor sum = isSum ? first.to(wide) : first.to(wide).mul(weight(0));
    for (size_t k = 1; k < parts.size(); ++k) {
      const at::Tensor part = parts[k].toTensor().to(wide);
      sum = isSum ? sum.add(part) : sum.add(part, weight(k));
    }
    return sum.to(first.scalar_type());
  }

  /// Tensors of other sizes, which broadcasting would add up to something else.
  llvm::Error cannotReduce(llvm::ArrayRef<c10::IValue> parts) {
    fitsList_ = true;
    const at::IntArrayRef first = parts.front().toTensor().sizes();
    const auto other = llvm::find_if(
        parts, [&](const c10::IValue &part) { return part.toTensor().sizes() != first; });
    return makeError(ExitCode::Other,
                     fmt::format("merge rule {}: micro-batch 0 has a tensor of [{}], micro-batch "
                                 "{} one of [{}]",
                                 toString(rule_), fmt::join(first, ", "), other - parts.begin(),
                                 fmt::join(other->toTensor().sizes(), ", ")),
                     asList(path_()));
  }

  static bool haveOneSize(llvm::ArrayRef<c10::IValue> parts) {
    if (llvm::any_of(parts, [](const c10::IValue &part) { return !part.toTensor().defined(); }))
      return true; // what reduces them says so
    return llvm::all_of(parts, [&](const c10::IValue &part) {
      return part.toTensor().sizes() == parts.front().toTensor().sizes();
    });
  }

  /// Names the first micro-batch whose sizes do not fit those of micro-batch 0.
  llvm::Error cannotConcat(llvm::ArrayRef<c10::IValue> parts) {
    fitsList_ = true;
    size_t other = 1;
    while (other + 1 < parts.size() && fitsConcat({parts.front(), parts[other]}, rule_.dim))
      ++other;
    return makeError(
        ExitCode::Other,
        fmt::format("concatenation along dimension {}: micro-batch 0 has a tensor of [{}], "
                    "micro-batch {} one of [{}]",
                    rule_.dim, fmt::join(parts.front().toTensor().sizes(), ", "), other,
                    fmt::join(parts[other].toTensor().sizes(), ", ")),
        asList(path_()));
  }

  llvm::Expected<c10::IValue> tensors(llvm::ArrayRef<c10::IValue> parts) {
    if (rule_.kind == MergeRule::Kind::Same)
      return theSame(parts);
    if (rule_.kind == MergeRule::Kind::Concat && parts.front().toTensor().dim() <= rule_.dim)
      return makeError(ExitCode::Other,
                       fmt::format("concatenation along dimension {}: expected at least {} in the "
                                   "result of each micro-batch, got {}",
                                   rule_.dim, counted(rule_.dim + 1, "dimension"),
                                   parts.front().toTensor().dim()),
                       "if a micro-batch of one sample loses its batch dimension, run fewer "
                       "micro-batches; otherwise compile with example inputs (--inputs)");
    if (rule_.kind == MergeRule::Kind::Concat && !fitsConcat(parts, rule_.dim))
      return cannotConcat(parts);
    if (isReduction() && !haveOneSize(parts))
      return cannotReduce(parts);
    return guardTorch(ExitCode::Other, "merging", [&]() -> c10::IValue {
      if (rule_.kind == MergeRule::Kind::Concat) {
        at::SmallVector<at::Tensor, 16> pieces;
        pieces.reserve(parts.size());
        for (const c10::IValue &part : parts)
          pieces.push_back(part.toTensor());
        return at::cat(at::TensorList(pieces), rule_.dim);
      }
      return reduced(parts);
    });
  }

  MergeRule rule_;
  PathOf path_;
  llvm::ArrayRef<int64_t> samples_;
  bool foundUnlike_ = false, fitsList_ = false;
};

c10::IValue buildTree(const OutputTree &tree, llvm::ArrayRef<c10::IValue> leaves) {
  if (tree.kind == OutputTree::Kind::Leaf)
    return leaves[tree.leaf];
  Values children;
  for (const OutputTree &child : tree.children)
    children.push_back(buildTree(child, leaves));
  if (tree.kind == OutputTree::Kind::Tuple)
    return c10::ivalue::Tuple::create(std::move(children));
  if (tree.kind == OutputTree::Kind::List)
    return listOf(children);
  bool tensors = llvm::all_of(children, [](const c10::IValue &value) { return value.isTensor(); });
  c10::impl::GenericDict dict(c10::StringType::get(), tensors ? c10::TypePtr(c10::TensorType::get())
                                                              : c10::TypePtr(c10::AnyType::get()));
  for (size_t i = 0; i < children.size(); ++i)
    dict.insert(tree.keys[i], children[i]);
  return dict;
}

llvm::Error flatten(const OutputTree &tree, const std::string &path, const c10::IValue &value,
                    Values &leaves) {
  auto wrongTree = [&](const std::string &expected) {
    return failf(ExitCode::Other, "{}: expected {}, got {}", resultName(leafPath(path)), expected,
                 describedKind(value));
  };
  Values children;
  switch (tree.kind) {
  case OutputTree::Kind::Leaf:
    leaves.at(tree.leaf) = value;
    return llvm::Error::success();
  case OutputTree::Kind::Tuple:
    if (!value.isTuple() || value.toTupleRef().elements().size() != tree.children.size())
      return wrongTree(fmt::format("a tuple of {}", tree.children.size()));
    children = elementsIn(value);
    break;
  case OutputTree::Kind::List:
    if (!value.isList() || value.toListRef().size() != tree.children.size())
      return wrongTree(fmt::format("a list of {}", tree.children.size()));
    children = elementsIn(value);
    break;
  case OutputTree::Kind::Dict:
    if (!value.isGenericDict() || value.toGenericDict().size() != tree.children.size())
      return wrongTree(fmt::format("a dict of {}", tree.children.size()));
    for (const std::string &key : tree.keys) {
      if (!value.toGenericDict().contains(key))
        return wrongTree("a dict with the key " + key);
      children.push_back(value.toGenericDict().at(key));
    }
    break;
  }
  for (size_t i = 0; i < children.size(); ++i)
    if (llvm::Error error =
            flatten(tree.children[i], childPath(path, tree, i), children[i], leaves))
      return error;
  return llvm::Error::success();
}

/// The same number of dimensions as in the example: rows of a micro-batch whose batch dimension is
/// gone would be taken for samples.
llvm::Error checkRanks(const OutputLeaf &leaf, PathOf path, llvm::ArrayRef<c10::IValue> parts,
                       llvm::ArrayRef<int64_t> samples) {
  for (size_t k = 0; k < parts.size() && leaf.tensor.known; ++k)
    if (parts[k].isTensor() && parts[k].toTensor().defined() &&
        parts[k].toTensor().dim() != static_cast<int64_t>(leaf.tensor.shape.size()))
      return makeError(
          ExitCode::Other,
          fmt::format("micro-batch {} of {} gives a tensor of [{}], expected {} as in the example",
                      k, counted(samples[k], "sample"),
                      fmt::join(parts[k].toTensor().sizes(), ", "),
                      counted(leaf.tensor.shape.size(), "dimension")),
          samples[k] == 1 ? "the model drops the dimension of a single sample: run fewer "
                            "micro-batches"
                          : asList(path()));
  return llvm::Error::success();
}

/// Warns of a sum or mean of tensors whose size differs from the example's along a dimension that
/// did not follow the batch. The values decide such a size, so it may differ between the whole
/// batch and its parts.
std::string warningOnSizes(const OutputLeaf &leaf, PathOf path, llvm::ArrayRef<c10::IValue> parts) {
  const std::vector<Dim> &shape = leaf.tensor.shape;
  const bool reduced =
      leaf.merge.kind == MergeRule::Kind::Sum || leaf.merge.kind == MergeRule::Kind::Mean;
  if (!reduced || !leaf.tensor.known || !parts.front().isTensor() ||
      !parts.front().toTensor().defined() ||
      parts.front().toTensor().dim() != static_cast<int64_t>(shape.size()))
    return "";
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t size = parts.front().toTensor().size(static_cast<int64_t>(d));
    if (!shape[d].dynamic && shape[d].perBatch == 0 && shape[d].constant != size)
      return fmt::format("{} has size {} along dimension {}, in the example {}: if values decide "
                         "the size, the {} over micro-batches is not that of the whole batch; "
                         "--merge {}=list gives a value per micro-batch",
                         resultName(path()), size, d, shape[d].constant, toString(leaf.merge),
                         path());
  }
  return "";
}

} // namespace

llvm::Expected<c10::IValue> mergeResult(const OutputLeaf &leaf, PathOf path,
                                        llvm::ArrayRef<c10::IValue> parts,
                                        llvm::ArrayRef<int64_t> samples, bool hasExample,
                                        std::string *warning) {
  const MergeRule &rule = leaf.merge;
  // The model's own result for any rule. A value that is None in all micro-batches is None.
  const bool isNone = llvm::all_of(parts, [](const c10::IValue &part) { return part.isNone(); });
  if (parts.size() == 1 || isNone)
    return parts[0];
  const bool unknown =
      !hasExample && (rule.kind == MergeRule::Kind::List || rule.kind == MergeRule::Kind::Concat);
  if (unknown && areListsOfSamples(parts, samples))
    return joined(parts, 0);
  if (rule.kind == MergeRule::Kind::List)
    return listOf(parts);
  if (rule.kind == MergeRule::Kind::Concat)
    TRY(checkRanks(leaf, path, parts, samples));
  Merger merger(rule, path, samples);
  llvm::Expected<c10::IValue> merged = merger.merge(parts);
  if (!warning)
    return merged;
  if (!merged && merger.fitsList()) {
    *warning =
        fmt::format("{} is a list with a value per micro-batch: {}; --merge {}=list makes it such "
                    "a list for every batch",
                    resultName(path()), firstLineOf(merged.takeError()), path());
    return listOf(parts);
  }
  if (merged && merger.foundUnlike())
    *warning =
        fmt::format("{} has another structure in some micro-batch, so values of it are a list "
                    "with a value per micro-batch; --merge {}=list makes all of it such a list",
                    resultName(path()), path());
  else if (merged)
    *warning = warningOnSizes(leaf, path, parts);
  return merged;
}

llvm::Expected<c10::IValue> mergeOutputs(const Signature &signature,
                                         llvm::ArrayRef<std::vector<c10::IValue>> leaves,
                                         llvm::ArrayRef<int64_t> samples,
                                         std::vector<std::string> *warnings) {
  PIPEC_ASSERT(!leaves.empty() && leaves.size() == samples.size(), "one entry per micro-batch");
  llvm::SmallVector<c10::IValue, 4> merged;
  llvm::SmallVector<c10::IValue, 16> parts; // of one leaf
  parts.reserve(leaves.size());
  for (size_t l = 0; l < signature.leaves.size(); ++l) {
    auto path = [&] { return outputPath(signature, l); };
    parts.clear();
    for (const auto &microBatch : leaves)
      parts.push_back(microBatch.at(l));
    std::string warning;
    auto value = mergeResult(signature.leaves[l], path, parts, samples, signature.batchSize > 0,
                             warnings ? &warning : nullptr);
    if (!value)
      return withContext(value.takeError(), resultName(path()));
    if (!warning.empty())
      warnings->push_back(std::move(warning));
    merged.push_back(std::move(*value));
  }
  return buildTree(signature.outputs, merged);
}

llvm::Expected<std::vector<c10::IValue>> flattenOutputs(const Signature &signature,
                                                        const c10::IValue &result) {
  Values leaves(signature.leaves.size());
  TRY(flatten(signature.outputs, "", result, leaves));
  return leaves;
}

} // namespace pipec
