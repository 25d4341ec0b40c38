#include "ir/SamplesThatMix.h"

#include "ir/Values.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>

namespace pipec {

namespace {

constexpr double kRounding = 1e-3; // of the largest number: another batch size, other kernels
constexpr double kRoundings = 64;  // of the type, where that is more

std::vector<at::Tensor> tensorsOf(const c10::IValue &value) {
  std::vector<at::Tensor> tensors;
  forEachTensor(value, [&](const at::Tensor &tensor) { tensors.push_back(tensor); });
  return tensors;
}

bool hasFractions(const at::Tensor &tensor) {
  return tensor.defined() && tensor.is_floating_point() && !tensor.is_quantized() &&
         tensor.layout() == at::kStrided;
}

double roundingOf(at::ScalarType type) {
  const double epsilon = type == at::kBFloat16 ? 0x1p-8 : type == at::kHalf ? 0x1p-11 : 0x1p-24;
  return std::max(kRounding, kRoundings * epsilon);
}

/// Where the samples stand along a dimension of a result.
struct Rows {
  int64_t dim, begin, count; // those that are compared: `count` from `begin` of the whole
  int64_t perSample;
};

/// The rows from `begin` of `whole` against the first rows of `part`.
std::string difference(const at::Tensor &whole, const at::Tensor &part, const Rows &rows) {
  const auto &[dim, begin, count, perSample] = rows;
  if (!hasFractions(whole) || !hasFractions(part) || dim >= whole.dim() ||
      whole.dim() != part.dim() || whole.size(dim) < begin + count || part.size(dim) < count)
    return "";
  const at::Tensor with = whole.narrow(dim, begin, count).to(at::kDouble).transpose(0, dim),
                   without = part.narrow(dim, 0, count).to(at::kDouble).transpose(0, dim);
  if (with.sizes() != without.sizes() || with.numel() == 0)
    return "";
  const at::Tensor apart = with.sub(without).abs().contiguous().view(-1);
  const double largest =
      std::max(with.abs().max().item<double>(), without.abs().max().item<double>());
  const int64_t at = apart.argmax().item<int64_t>();
  // What is not a number on either side tells nothing.
  if (!(apart[at].item<double>() > roundingOf(whole.scalar_type()) * largest))
    return "";
  return fmt::format("of sample {}: {:.4g} with the others, {:.4g} without",
                     (begin + at / (with.numel() / count)) / perSample,
                     with.reshape(-1)[at].item<double>(), without.reshape(-1)[at].item<double>());
}

/// A result may have several rows for each sample, as of beams or of tokens; rows that belong to
/// none leave open which are whose.
std::optional<int64_t> rowsPerSample(const OutputLeaf &leaf) {
  const size_t dim = static_cast<size_t>(leaf.merge.dim);
  if (dim >= leaf.tensor.shape.size()) // of a list of tensors: a row each
    return 1;
  const Dim &size = leaf.tensor.shape[dim];
  return !size.dynamic && size.constant == 0 && size.perBatch > 0 ? std::optional(size.perBatch)
                                                                  : std::nullopt;
}

} // namespace

std::string samplesThatMix(const Signature &signature, llvm::ArrayRef<c10::IValue> whole,
                           llvm::ArrayRef<c10::IValue> part, int64_t begin, int64_t count) {
  at::NoGradGuard noGrad;
  for (size_t l = 0; l < signature.leaves.size(); ++l) {
    const MergeRule &rule = signature.leaves[l].merge;
    const std::vector<at::Tensor> with = tensorsOf(whole[l]), without = tensorsOf(part[l]);
    const std::optional<int64_t> each = rowsPerSample(signature.leaves[l]);
    if (rule.kind != MergeRule::Kind::Concat || with.size() != without.size() || !each)
      continue;
    const Rows rows{rule.dim, begin * *each, count * *each, *each};
    for (size_t t = 0; t < with.size(); ++t)
      if (std::string text = difference(with[t], without[t], rows); !text.empty())
        return fmt::format("output {} {}", l, text);
  }
  return "";
}

} // namespace pipec
