#include "ir/FindMergeRule.h"

#include "ir/Values.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

/// Decides the merge rule of one output leaf from its values in all runs.
class RuleFinder {
public:
  explicit RuleFinder(std::optional<int64_t> fixed) : fixed_(fixed) {}

  MergeRule find(llvm::ArrayRef<std::pair<int64_t, c10::IValue>> seen) const {
    std::vector<std::pair<int64_t, c10::IValue>> there;
    llvm::copy_if(seen, std::back_inserter(there),
                  [](const auto &entry) { return !entry.second.isNone(); });
    if (there.empty() || there.size() == seen.size())
      return ofValues(seen);
    // A tensor in some runs and None in others: how it is joined where all micro-batches have one.
    if (!fixed_ &&
        llvm::all_of(there, [&](const auto &entry) { return entry.first == there.front().first; }))
      return {};
    const MergeRule rule = ofValues(there);
    return rule.kind == MergeRule::Kind::Concat ? rule : MergeRule{};
  }

private:
  MergeRule ofValues(llvm::ArrayRef<std::pair<int64_t, c10::IValue>> seen) const {
    std::vector<std::vector<at::Tensor>> tensors;
    for (const auto &[size, value] : seen) {
      tensors.emplace_back();
      forEachTensor(value, [&](const at::Tensor &tensor) { tensors.back().push_back(tensor); });
      if (tensors.back().size() != tensors.front().size())
        return {};
    }
    if (tensors.front().empty())
      return equalEverywhere(seen) ? same() : MergeRule{};
    if (!equalBesideTensors(seen))
      return {};
    std::optional<MergeRule> common;
    for (size_t t = 0; t < tensors.front().size(); ++t) {
      std::vector<std::pair<int64_t, at::Tensor>> column;
      for (size_t r = 0; r < seen.size(); ++r)
        column.emplace_back(seen[r].first, tensors[r][t]);
      MergeRule rule = ofTensor(column);
      if (common && !(*common == rule))
        return {};
      common = rule;
    }
    return *common;
  }

  static MergeRule same() { return {.kind = MergeRule::Kind::Same, .dim = 0}; }
  static MergeRule concat(int64_t dim) {
    return {.kind = MergeRule::Kind::Concat, .dim = static_cast<int64_t>(dim)};
  }

  static bool equalEverywhere(llvm::ArrayRef<std::pair<int64_t, c10::IValue>> seen) {
    return llvm::all_of(seen, [&](const auto &entry) {
      return compare(seen.front().second, entry.second, 0.0, 0.0).equal;
    });
  }

  /// Numbers and strings that stand beside tensors in a container.
  static bool equalBesideTensors(llvm::ArrayRef<std::pair<int64_t, c10::IValue>> seen) {
    std::vector<std::pair<int64_t, c10::IValue>> bare;
    for (const auto &[size, value] : seen)
      bare.emplace_back(size, mapTensors(value, [](const at::Tensor &) { return at::Tensor(); }));
    return equalEverywhere(bare);
  }

  MergeRule ofTensor(llvm::ArrayRef<std::pair<int64_t, at::Tensor>> seen) const {
    const at::Tensor &first = seen.front().second;
    if (llvm::any_of(seen, [](const auto &entry) { return !entry.second.defined(); }))
      return {};
    if (first.dim() == 0 && first.is_floating_point())
      return {.kind = MergeRule::Kind::Mean, .dim = 0};
    if (auto dim = fixed_ ? dimOfBatch(first) : growingDimOver(seen))
      return concat(*dim);
    std::vector<std::pair<int64_t, c10::IValue>> values(seen.begin(), seen.end());
    return equalEverywhere(values) ? same() : MergeRule{};
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

  std::optional<int64_t> fixed_;
};

} // namespace

MergeRule findMergeRule(llvm::ArrayRef<std::pair<int64_t, c10::IValue>> seen,
                        std::optional<int64_t> fixed) {
  return RuleFinder(fixed).find(seen);
}

} // namespace pipec
