#include "ir/batch/discovery/MergeRules.h"

#include "ir/batch/TensorSpecs.h"
#include "ir/batch/discovery/CutTrial.h"
#include "ir/batch/discovery/Rounding.h"
#include "ir/plan/MergeBySizes.h"
#include "ir/values/CompareValues.h"
#include "ir/values/Elements.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>

namespace pipec {

namespace {

using Seen = llvm::ArrayRef<std::pair<int64_t, c10::IValue>>;
using Kind = MergeRule::Kind;

constexpr int64_t kDeepestJoin = 2; // lists below two containers

MergeRule ruleOf(Kind kind, int64_t dim = 0) { return {.kind = kind, .dim = dim}; }

bool equalEverywhere(Seen seen) {
  return llvm::all_of(seen, [&](const auto &entry) {
    return compare(seen.front().second, entry.second, 0.0, 0.0).equal;
  });
}

/// Numbers and strings beside tensors in a container.
bool equalBesideTensors(Seen seen) {
  std::vector<std::pair<int64_t, c10::IValue>> bare;
  for (const auto &[size, value] : seen)
    bare.emplace_back(size, mapTensors(value, [](const at::Tensor &) { return at::Tensor(); }));
  return equalEverywhere(bare);
}

/// A number, a tensor of numbers, or a container of single numbers as doubles; nothing for all
/// else.
std::optional<at::Tensor> numbersOf(const c10::IValue &value) {
  if (isContainer(value)) {
    std::vector<at::Tensor> numbers;
    for (const c10::IValue &element : elementsIn(value)) {
      const std::optional<at::Tensor> inner =
          element.isTensor() ? std::nullopt : numbersOf(element);
      if (!inner)
        return std::nullopt;
      numbers.push_back(inner->reshape({-1}));
    }
    return numbers.empty() ? std::nullopt : std::optional(at::cat(numbers));
  }
  if (value.isTensor()) {
    const at::Tensor &tensor = value.toTensor();
    const bool isNumbers = tensor.defined() && tensor.layout() == at::kStrided &&
                           !tensor.is_quantized() && tensor.scalar_type() != at::kBool &&
                           !tensor.is_complex();
    return isNumbers ? std::optional(tensor.detach().to(at::kCPU, at::kDouble)) : std::nullopt;
  }
  if (value.isDouble() || value.isInt())
    return at::scalar_tensor(
        value.isDouble() ? value.toDouble() : static_cast<double>(value.toInt()), at::kDouble);
  return std::nullopt;
}

bool isFraction(const c10::IValue &value) {
  if (isContainer(value))
    return llvm::any_of(elementsIn(value), isFraction);
  return value.isDouble() || (value.isTensor() && value.toTensor().is_floating_point());
}

/// A value of all samples that is one number, or numbers with a size that does not follow the
/// batch.
class Reduction {
public:
  explicit Reduction(const LeafEvidence &evidence) : random_(evidence.drawsRandom) {
    if (evidence.whole.empty() || evidence.parts.size() != 2)
      return;
    whole_ = numbersOf(evidence.whole.front());
    first_ = numbersOf(evidence.parts[0]);
    second_ = numbersOf(evidence.parts[1]);
    known_ = whole_ && first_ && second_ && whole_->sizes() == first_->sizes() &&
             whole_->sizes() == second_->sizes() && whole_->numel() > 0;
    fraction_ = isFraction(evidence.whole.front());
    if (evidence.whole.front().isTensor())
      rounding_ = reducedRoundingOf(evidence.whole.front().toTensor().scalar_type());
  }

  std::optional<MergeRule> find() const {
    if (!known_)
      return std::nullopt;
    const double sum = apart(first_->add(*second_)),
                 mean = apart(first_->mul(kPartSamples[0])
                                  .add(second_->mul(kPartSamples[1]))
                                  .div(kWholeSamples));
    const double allowed = random_ ? kDrawn : rounding_;
    if (fraction_ && mean <= allowed && mean <= sum)
      return ruleOf(Kind::Mean);
    if (sum <= (fraction_ ? allowed : 0.0))
      return ruleOf(Kind::Sum);
    return std::nullopt;
  }

private:
  static constexpr double kDrawn = 0.3; // a sum of twice as many samples is twice as large

  /// The largest difference from the whole, relative to its largest number.
  double apart(const at::Tensor &merged) const {
    const double largest = whole_->abs().max().item<double>();
    const double difference = merged.sub(*whole_).abs().max().item<double>();
    return difference == 0 ? 0 : largest > 0 ? difference / largest : 1.0 / 0.0;
  }

  std::optional<at::Tensor> whole_, first_, second_;
  bool known_ = false, fraction_ = false, random_ = false;
  double rounding_ = kReducedRounding;
};

/// Decides the merge rule of one output leaf from its values in all runs.
class RuleFinder {
public:
  RuleFinder(const LeafEvidence &evidence, std::optional<int64_t> fixed)
      : evidence_(evidence), fixed_(fixed) {}

  MergeRule find() const {
    std::vector<std::pair<int64_t, c10::IValue>> there;
    llvm::copy_if(evidence_.seen, std::back_inserter(there),
                  [](const auto &entry) { return !entry.second.isNone(); });
    if (there.empty() || there.size() == evidence_.seen.size())
      return ofValues(evidence_.seen);
    // A tensor in some runs and None in others: the rule for the case that all micro-batches have
    // one.
    if (!fixed_ &&
        llvm::all_of(there, [&](const auto &entry) { return entry.first == there.front().first; }))
      return {};
    const MergeRule rule = ofValues(there);
    return rule.kind == Kind::Concat ? rule : MergeRule{};
  }

private:
  MergeRule ofValues(Seen seen) const {
    if (llvm::all_of(seen, [](const auto &entry) { return isZeroOrEmpty(entry.second); }) &&
        equalEverywhere(seen))
      return ofNothing(seen.front().second);
    if (!fixed_)
      if (std::optional<int64_t> depth = depthOfJoin(seen))
        return ruleOf(Kind::Join, *depth);
    const MergeRule rule = ofElements(seen);
    if (rule.kind == Kind::List && fixed_)
      if (std::optional<int64_t> depth = depthOfJoin(seen))
        return ruleOf(Kind::Join, *depth);
    return rule;
  }

  static MergeRule ofNothing(const c10::IValue &value) {
    if (value.isList() && value.toListRef().empty())
      return ruleOf(Kind::Join);
    const bool isFloat = isFraction(value) && (!value.isTensor() || value.toTensor().dim() == 0);
    return ruleOf(isFloat ? Kind::Mean : Kind::Sum);
  }

  /// The depth of lists whose length follows the samples: the values themselves, or all lists
  /// inside them.
  std::optional<int64_t> depthOfJoin(Seen seen) const {
    for (int64_t depth = 0; depth <= kDeepestJoin; ++depth) {
      std::vector<std::pair<int64_t, int64_t>> lengths; // samples, entries
      for (const auto &[samples, value] : seen)
        if (!collectLengths(value, depth, samples, lengths))
          return std::nullopt;
      if (follow(lengths))
        return depth;
    }
    return std::nullopt;
  }

  /// Returns false if there is something other than a container, or nothing.
  static bool collectLengths(const c10::IValue &value, int64_t depth, int64_t samples,
                             std::vector<std::pair<int64_t, int64_t>> &lengths) {
    if (depth == 0) {
      // Dicts and tuples are searched; lists may follow the batch.
      lengths.emplace_back(samples,
                           value.isList() ? static_cast<int64_t>(value.toListRef().size()) : -1);
      return isContainer(value);
    }
    auto inner = [&](const c10::IValue &child) {
      return collectLengths(child, depth - 1, samples, lengths);
    };
    return isContainer(value) && llvm::all_of(elementsIn(value), inner);
  }

  bool follow(llvm::ArrayRef<std::pair<int64_t, int64_t>> lengths) const {
    if (lengths.empty() || lengths.front().second < lengths.front().first)
      return false;
    const int64_t perSample = lengths.front().second / lengths.front().first;
    bool several = fixed_.has_value(); // sizes
    for (const auto &[samples, length] : lengths) {
      if (length != perSample * samples)
        return false;
      several = several || samples != lengths.front().first;
    }
    return several;
  }

  /// The rule for values that are tensors or hold tensors.
  MergeRule ofElements(Seen seen) const {
    std::vector<std::vector<at::Tensor>> tensors;
    for (const auto &[size, value] : seen) {
      tensors.push_back(tensorsIn(value));
      if (tensors.back().size() != tensors.front().size())
        return {};
    }
    if (tensors.front().empty())
      return ofNumbers(seen);
    if (!equalBesideTensors(seen))
      return {};
    std::optional<MergeRule> common;
    for (size_t t = 0; t < tensors.front().size(); ++t) {
      std::vector<std::pair<int64_t, at::Tensor>> column;
      for (size_t r = 0; r < seen.size(); ++r)
        column.emplace_back(seen[r].first, tensors[r][t]);
      MergeRule rule = ofTensor(column, seen.front().second.isTensor());
      if (common && !(*common == rule))
        return {};
      common = rule;
    }
    return *common;
  }

  MergeRule ofNumbers(Seen seen) const {
    if (equalEverywhere(seen))
      return ruleOf(Kind::Same);
    return Reduction(evidence_).find().value_or(MergeRule{});
  }

  MergeRule ofTensor(llvm::ArrayRef<std::pair<int64_t, at::Tensor>> seen, bool isLeaf) const {
    const at::Tensor &first = seen.front().second;
    if (llvm::any_of(seen, [](const auto &entry) { return !entry.second.defined(); }))
      return {};
    const std::optional<MergeRule> reduction = isLeaf ? Reduction(evidence_).find() : std::nullopt;
    if (first.dim() == 0 && first.is_floating_point()) // a loss, most often
      return reduction.value_or(ruleOf(Kind::Mean));
    if (auto dim = fixed_ ? dimOfBatch(first) : growingDimOver(seen))
      return ruleOf(Kind::Concat, *dim);
    std::vector<std::pair<int64_t, c10::IValue>> values(seen.begin(), seen.end());
    return equalEverywhere(values) ? ruleOf(Kind::Same) : reduction.value_or(MergeRule{});
  }

  static std::optional<int64_t>
  growingDimOver(llvm::ArrayRef<std::pair<int64_t, at::Tensor>> seen) {
    std::vector<std::pair<int64_t, TensorSpec>> specs;
    for (const auto &[size, tensor] : seen)
      specs.emplace_back(size, specOf(tensor));
    return growingDim(fitSpec(specs));
  }

  std::optional<int64_t> dimOfBatch(const at::Tensor &tensor) const {
    for (size_t d = 0; d < static_cast<size_t>(tensor.dim()); ++d)
      if (*fixed_ > 0 && tensor.size(static_cast<int64_t>(d)) == *fixed_)
        return d;
    return std::nullopt;
  }

  const LeafEvidence &evidence_;
  std::optional<int64_t> fixed_;
};

} // namespace

bool isZeroOrEmpty(const c10::IValue &value) {
  if (value.isList() && value.toListRef().empty())
    return true;
  const std::optional<at::Tensor> numbers = numbersOf(value);
  return numbers && numbers->numel() > 0 && numbers->eq(0).all().item<bool>();
}

static bool isWhole(const c10::IValue &value) {
  if (value.isBool() || value.isString())
    return true;
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().scalar_type() == at::kBool)
    return true;
  const std::optional<at::Tensor> numbers = numbersOf(value);
  return numbers && numbers->numel() > 0 && numbers->eq(numbers->round()).all().item<bool>();
}

static bool isOneNumber(const c10::IValue &value) {
  return value.isTensor() ? value.toTensor().defined() && value.toTensor().numel() == 1
                          : value.isInt() || value.isBool() || value.isDouble() || value.isString();
}

bool isDoubtful(const LeafEvidence &evidence, const MergeRule &rule) {
  const bool isSame = rule.kind == Kind::Same;
  if ((rule.kind != Kind::Sum && rule.kind != Kind::Mean && !isSame) || evidence.drawsRandom ||
      !llvm::all_of(evidence.seen, [](const auto &entry) { return isWhole(entry.second); }))
    return false;
  if (isSame)
    return isOneNumber(evidence.seen.front().second);
  auto perSample = [](const std::pair<int64_t, c10::IValue> &entry) {
    const std::optional<at::Tensor> numbers = numbersOf(entry.second);
    return numbers ? numbers->div(entry.first) : at::Tensor();
  };
  const at::Tensor first = perSample(evidence.seen.front());
  return !llvm::all_of(evidence.seen, [&](const auto &entry) {
    const at::Tensor other = perSample(entry);
    return first.defined() && other.defined() && first.equal(other);
  });
}

MergeRule findMergeRule(const LeafEvidence &evidence, std::optional<int64_t> fixed) {
  return RuleFinder(evidence, fixed).find();
}

} // namespace pipec
