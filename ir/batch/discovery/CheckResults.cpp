#include "ir/batch/discovery/CheckResults.h"

#include "ir/batch/MergeOutputs.h"
#include "ir/batch/ModelRunner.h"
#include "ir/batch/discovery/MergeRules.h"
#include "ir/batch/discovery/Rounding.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/text/TensorText.h"
#include "ir/values/CompareValues.h"
#include "ir/values/MapTensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>

namespace pipec {

namespace {

using Kind = MergeRule::Kind;

bool isEmptyList(const c10::IValue &value) { return value.isList() && value.toListRef().empty(); }

/// A tensor by dtype and sizes, other values by value or kind.
std::string briefText(const c10::IValue &value) {
  if (value.isTensor() && value.toTensor().defined())
    return tensorHeadText(value.toTensor());
  if (value.isInt())
    return fmt::format("{}", value.toInt());
  if (value.isDouble())
    return fmt::format("{}", value.toDouble());
  if (value.isBool())
    return value.toBool() ? "True" : "False";
  if (value.isList())
    return fmt::format("a list of {}", value.toListRef().size());
  return value.tagKind();
}

/// Whether the elements show their order: there are some, and they are not all equal.
bool showsOrder(const c10::IValue &value) {
  if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().is_quantized() ||
      value.toTensor().layout() != at::kStrided || value.toTensor().numel() < 2)
    return false;
  const at::Tensor flat = value.toTensor().flatten();
  return !flat.eq(flat[0]).all().item<bool>();
}

std::string pathOfResult() { return "result"; }

/// Of a list with a value per micro-batch: a concatenation that equals the whole batch. Masked
/// selections (h[h > 0]) have sizes of their own, so only values show it.
std::string concatThatFits(const OutputLeaf &leaf, const c10::IValue &whole,
                           llvm::ArrayRef<c10::IValue> parts, llvm::ArrayRef<int64_t> samples) {
  if (!showsOrder(whole) || !llvm::all_of(parts, [](const c10::IValue &part) {
        return part.isTensor() && part.toTensor().defined() && part.toTensor().numel() > 0;
      }))
    return "";
  OutputLeaf tried = leaf;
  for (int64_t dim = 0; dim < whole.toTensor().dim(); ++dim) {
    tried.merge = {Kind::Concat, dim};
    llvm::Expected<c10::IValue> merged =
        mergeResult(tried, pathOfResult, parts, samples, /*hasExample=*/true);
    if (!merged) { // sizes that do not fit along this dimension
      llvm::consumeError(merged.takeError());
      continue;
    }
    if (compare(whole, *merged, 0.0, toleranceFor(whole)).equal)
      return toString(tried.merge);
  }
  return "";
}

ResultCheck checkList(const OutputLeaf &leaf, const c10::IValue &whole,
                      llvm::ArrayRef<c10::IValue> parts, llvm::ArrayRef<int64_t> samples) {
  std::vector<std::string> texts;
  for (const c10::IValue &part : parts)
    texts.push_back(briefText(part));
  return {ResultCheck::Equal::No,
          fmt::format("{} for the whole batch, a list of {} for micro-batches", briefText(whole),
                      fmt::join(texts, " and ")),
          concatThatFits(leaf, whole, parts, samples)};
}

/// Whether it holds fractions, and none of them is finite: several rules give the same infinity.
bool isNowhereFinite(const c10::IValue &value) {
  bool any = false, finite = false;
  value.visit([&](const c10::IValue &inner) {
    if (inner.isDouble()) {
      any = true;
      finite = finite || std::isfinite(inner.toDouble());
    }
    return false;
  });
  forEachTensor(value, [&](const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.numel() == 0)
      return;
    const bool hasFractions = tensor.layout() == at::kStrided && !tensor.is_quantized() &&
                              (tensor.is_floating_point() || tensor.is_complex());
    any = any || hasFractions;
    finite = finite || !hasFractions || tensor.isfinite().any().item<bool>();
  });
  return any && !finite;
}

/// The terms of a sum near 0 may be much larger than the sum, and so are their roundings.
double toleranceOfReduced(const c10::IValue &whole, llvm::ArrayRef<c10::IValue> parts) {
  constexpr double kOfTerms = 4e-3; // of kRounding: 64 roundings of float32
  double tolerance = toleranceFor(whole) * (kReducedRounding / kRounding);
  for (const c10::IValue &part : parts)
    tolerance = std::max(tolerance, toleranceFor(part) * kOfTerms);
  return tolerance;
}

ResultCheck checkLeaf(const OutputLeaf &leaf, const c10::IValue &whole,
                      llvm::ArrayRef<c10::IValue> parts, llvm::ArrayRef<int64_t> samples) {
  using Equal = ResultCheck::Equal;
  llvm::Expected<c10::IValue> merged =
      mergeResult(leaf, pathOfResult, parts, samples, /*hasExample=*/true);
  if (!merged)
    return {Equal::No, firstLineOf(merged.takeError())};
  if (leaf.merge.kind == Kind::List && !whole.isNone())
    return checkList(leaf, whole, parts, samples);
  auto areAll = [&](bool (*holds)(const c10::IValue &)) {
    return holds(whole) && llvm::all_of(parts, holds);
  };
  // A list of zeros that is joined shows its rule: its length follows the batch.
  const bool reduced = leaf.merge.kind == Kind::Sum || leaf.merge.kind == Kind::Mean;
  if ((leaf.merge.kind == Kind::Join && areAll(isEmptyList)) || (reduced && areAll(isZeroOrEmpty)))
    return {Equal::NotTried, fmt::format("{} in every test run, which several rules would give",
                                         isEmptyList(whole) ? "empty"
                                         : whole.isList()   ? "all 0"
                                                            : "0")};
  const Comparison comparison = compare(
      whole, *merged, 0.0, reduced ? toleranceOfReduced(whole, parts) : toleranceFor(whole));
  if (comparison.equal && isNowhereFinite(whole))
    return {Equal::NotTried, "not finite in the test runs, which several rules would give"};
  if (comparison.equal)
    return {Equal::Yes, ""};
  return {Equal::No, fmt::format("{}{} for the whole batch, {} for micro-batches",
                                 comparison.where.empty() || comparison.where == "[]"
                                     ? ""
                                     : "at " + comparison.where + " ",
                                 comparison.expected, comparison.actual)};
}

/// Whether nothing but rounding is left of a result beside the numbers of all results: a sum of
/// terms that cancel shows no rule.
bool isRounding(const c10::IValue &whole, llvm::ArrayRef<c10::IValue> parts, const Values &all) {
  constexpr double kMost = 1e-5, kOfAll = 64 * 0x1p-24;
  auto largestIn = [](const c10::IValue &value) {
    double largest =
        value.isDouble() && std::isfinite(value.toDouble()) ? std::abs(value.toDouble()) : 0;
    forEachTensor(value, [&](const at::Tensor &tensor) {
      largest = std::max(largest, largestFinite(tensor));
    });
    return largest;
  };
  double scale = 0, largest = largestIn(whole);
  for (const c10::IValue &other : all)
    scale = std::max(scale, largestIn(other));
  for (const c10::IValue &part : parts)
    largest = std::max(largest, largestIn(part));
  return largest > 0 && largest <= std::min(kMost, kOfAll * scale);
}

/// A reduced result that is no single float, as a loss is, may have an entry per different value,
/// or be their number.
bool mayListValues(const OutputLeaf &leaf) {
  const bool isOne =
      leaf.tensor.known && leaf.tensor.shape.empty() && isDifferentiable(leaf.tensor.dtype);
  return (leaf.merge.kind == Kind::Sum || leaf.merge.kind == Kind::Mean ||
          leaf.merge.kind == Kind::Same) &&
         !isOne && leaf.type != "float";
}

/// Values of the first kVariedSamples samples before and after one of them changed.
class Poked {
public:
  explicit Poked(const OutputLeaf &leaf) : leaf_(leaf) {}

  std::string find(const c10::IValue &before, const c10::IValue &after) const {
    if (leaf_.merge.kind == Kind::Join)
      return ofEntries(before, after, leaf_.merge.dim);
    if (leaf_.merge.kind != Kind::Concat)
      return "";
    const std::vector<at::Tensor> calm = tensorsIn(before), poked = tensorsIn(after);
    for (size_t t = 0; t < calm.size() && calm.size() == poked.size(); ++t)
      if (std::string text = ofRows(calm[t], poked[t]); !text.empty())
        return text;
    return "";
  }

private:
  /// A result may have several rows per sample, for beams or tokens. Rows that belong to no sample
  /// make it unknown which rows belong to which.
  std::optional<int64_t> rowsPerSample(const at::Tensor &tensor) const {
    const int64_t rows = tensor.size(leaf_.merge.dim);
    return rows > 0 && rows % kVariedSamples == 0 ? std::optional(rows / kVariedSamples)
                                                  : std::nullopt;
  }

  std::string ofRows(const at::Tensor &before, const at::Tensor &after) const {
    const int64_t dim = leaf_.merge.dim;
    if (!before.defined() || !after.defined() || dim >= before.dim() ||
        before.sizes() != after.sizes())
      return "";
    const std::optional<int64_t> rows = rowsPerSample(before);
    if (!rows || (*rows > 1 && onlyOnePerRound(before, after)))
      return "";
    for (int64_t sample : {int64_t(0), kVariedSamples - 1}) {
      const at::Tensor calm = before.narrow(dim, sample * *rows, *rows),
                       poked = after.narrow(dim, sample * *rows, *rows);
      if (std::string text = difference(calm, poked, sample); !text.empty())
        return text;
    }
    return "";
  }

  /// Whether rows are in rounds over the samples, as h.repeat(2, 1) has them, and only the rows of
  /// the sample that changed differ.
  bool onlyOnePerRound(const at::Tensor &before, const at::Tensor &after) const {
    for (int64_t row = 0; row < before.size(leaf_.merge.dim); ++row)
      if (row % kVariedSamples != kPokedSample &&
          !difference(before.select(leaf_.merge.dim, row), after.select(leaf_.merge.dim, row), 0)
               .empty())
        return false;
    return true;
  }

  std::string ofEntries(const c10::IValue &before, const c10::IValue &after, int64_t depth) const {
    if (depth > 0 || !before.isList() || !after.isList() ||
        before.toListRef().size() != after.toListRef().size() ||
        before.toListRef().size() % kVariedSamples != 0)
      return "";
    const size_t each = before.toListRef().size() / kVariedSamples;
    for (int64_t sample : {int64_t(0), kVariedSamples - 1})
      for (size_t e = static_cast<size_t>(sample) * each; e < (sample + 1) * each; ++e)
        if (std::string text = difference(before.toListRef()[e], after.toListRef()[e], sample);
            !text.empty())
          return text;
    return "";
  }

  /// Equal sizes run the same kernels, so a difference above their rounding is another number.
  static std::string difference(const c10::IValue &before, const c10::IValue &after,
                                int64_t sample) {
    const Comparison comparison = compare(before, after, 0.0, toleranceFor(before) * kOfRounding);
    return comparison.equal
               ? ""
               : fmt::format("of sample {} changes from {} to {} if only sample {} changes", sample,
                             comparison.expected, comparison.actual, kPokedSample);
  }

  static constexpr double kOfRounding = 1e-2;
  const OutputLeaf &leaf_;
};

} // namespace

std::vector<ResultCheck> checkResults(const Signature &signature, const TrialLeaves &leaves,
                                      const std::string &notTried,
                                      llvm::ArrayRef<int64_t> samples) {
  at::NoGradGuard noGrad;
  std::vector<ResultCheck> checks(signature.leaves.size());
  for (size_t l = 0; l < checks.size(); ++l) {
    if (!notTried.empty()) {
      checks[l].reason = notTried;
      continue;
    }
    Values parts;
    for (const Values &part : leaves.parts)
      parts.push_back(part[l]);
    const Values &whole = leaves.whole.front();
    checks[l] = checkLeaf(signature.leaves[l], whole[l], parts, samples);
    const Kind rule = signature.leaves[l].merge.kind;
    if (checks[l].equal == ResultCheck::Equal::No && (rule == Kind::Sum || rule == Kind::Mean) &&
        isRounding(whole[l], parts, whole))
      checks[l] = {ResultCheck::Equal::NotTried, "0 up to rounding in the test runs"};
  }
  return checks;
}

void doubtSums(std::vector<ResultCheck> &checks, const Signature &signature,
               llvm::ArrayRef<size_t> doubtful, const std::string &why) {
  for (size_t l : doubtful)
    if (!why.empty() && checks[l].equal == ResultCheck::Equal::Yes &&
        signature.leaves[l].merge.kind == Kind::Sum)
      checks[l] = {ResultCheck::Equal::NotTried, why};
}

bool contradict(const Signature &signature, llvm::ArrayRef<ResultCheck> ofExample,
                llvm::ArrayRef<ResultCheck> ofAll, const std::vector<bool> &given) {
  for (size_t l = 0; l < ofAll.size(); ++l) {
    const Kind rule = signature.leaves[l].merge.kind;
    if ((rule == Kind::Sum || rule == Kind::Same) && !given[l] &&
        ofExample[l].equal != ResultCheck::Equal::No && ofAll[l].equal == ResultCheck::Equal::No)
      return true;
  }
  return false;
}

void doubtListedValues(std::vector<ResultCheck> &checks, const Signature &signature,
                       const std::string &listsValues) {
  for (size_t l = 0; l < checks.size() && !listsValues.empty(); ++l)
    if (checks[l].equal == ResultCheck::Equal::Yes && mayListValues(signature.leaves[l]))
      checks[l] = {ResultCheck::Equal::NotTried,
                   listsValues + " gives an entry per different value, and other values may give "
                                 "more"};
}

std::string crossTalk(const Signature &signature, const TrialLeaves &leaves,
                      llvm::ArrayRef<std::string> paths) {
  at::NoGradGuard noGrad;
  if (leaves.poked.empty() || leaves.varied.empty())
    return "";
  for (size_t l = 0; l < signature.leaves.size(); ++l)
    if (std::string text =
            Poked(signature.leaves[l]).find(leaves.varied.front()[l], leaves.poked.front()[l]);
        !text.empty())
      return resultName(paths[l]) + " " + text;
  return "";
}

} // namespace pipec
