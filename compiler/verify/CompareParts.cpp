#include "compiler/verify/CompareParts.h"

#include "ir/batch/discovery/CutTrial.h"
#include "ir/batch/discovery/DiscoveryNotes.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipec {

namespace {

constexpr int64_t kMostBytesOfParts = int64_t(1) << 30; // three times its gradients are kept
constexpr double kEqualLosses = 1e-4;
constexpr double kPartsOff = 1e-3;   // rounding is far below, but for dtypes of two bytes
constexpr double kPartsNoise = 1e-5; // of the norm of all gradients

at::Tensor wideForm(const at::Tensor &gradient) {
  const at::Tensor dense =
      gradient.layout() == at::kStrided ? gradient : gradient.to_dense(); // embedding(sparse=True)
  return dense.to(dense.is_complex() ? at::kComplexDouble : at::kDouble);
}

/// The gradient of a parameter in a whole batch and in its parts.
struct PartsOfGradient {
  std::string name;
  double whole = 0, parts = 0, off = 0; // norms; off: of the difference
};

PartsOfGradient partsOf(const NamedGradient &whole, size_t number,
                        llvm::ArrayRef<SourceStep> parts) {
  PartsOfGradient result{whole.names.front()};
  at::Tensor sum;
  for (const SourceStep &part : parts)
    if (const at::Tensor &gradient = part.gradients[number].gradient; gradient.defined())
      sum = sum.defined() ? sum.add(wideForm(gradient)) : wideForm(gradient);
  const at::Tensor all = whole.gradient.defined() ? wideForm(whole.gradient) : at::Tensor();
  if (all.defined())
    result.whole = all.abs().norm().item<double>();
  if (sum.defined())
    result.parts = sum.abs().norm().item<double>();
  result.off = all.defined() && sum.defined() ? all.sub(sum).abs().norm().item<double>()
                                              : std::max(result.whole, result.parts);
  return result;
}

/// Empty: the gradients of the parts add up to that of the whole.
std::string warningOf(const SourceStep &whole, llvm::ArrayRef<SourceStep> parts,
                      const std::string &norms) {
  const at::NoGradGuard noGrad;
  std::vector<PartsOfGradient> all;
  double total = 0;
  for (size_t i = 0; i < whole.gradients.size(); ++i) {
    const at::Tensor &gradient = whole.gradients[i].gradient;
    if (gradient.defined() && gradient.element_size() < 4)
      continue;
    all.push_back(partsOf(whole.gradients[i], i, parts));
    total = std::hypot(total, all.back().whole);
  }
  const PartsOfGradient *worst = nullptr;
  for (const PartsOfGradient &one : all)
    if (one.off > kPartsOff * one.whole && one.off > kPartsNoise * total &&
        (!worst || one.off > worst->off))
      worst = &one;
  if (!worst)
    return "";
  return fmt::format(
      "gradients of a step depend on the number of micro-batches, although the loss does not: that "
      "of {} differs by {:.3g} % between a batch of {} samples and micro-batches of {} and {} (its "
      "norm is {:.3g} and {:.3g}){}",
      worst->name, 100 * worst->off / std::max(worst->whole, worst->parts), kWholeSamples,
      kPartSamples[0], kPartSamples[1], worst->whole, worst->parts,
      norms.empty()
          ? ", as where a term is made from means over the batch and the loss hardly shows "
            "it, a term is divided by a detached value, or "
            "embedding(scale_grad_by_freq=True) counts in one call"
          : "; " + causeOfNorms(norms));
}

/// Of a step with the calls of the run as micro-batches; of a pair, the sum.
double lossOf(const ExampleRun &run, const LossLeaves &leaves) {
  double total = 0;
  for (size_t c = 0; c < run.calls.size(); ++c) {
    const at::Tensor &loss = run.leaves[c][leaves.loss].toTensor();
    total += loss.item<double>() * rootScale(run, c, leaves.count.has_value(), loss).item<double>();
  }
  return total;
}

} // namespace

std::string warningOnParts(
    llvm::ArrayRef<ExampleRun> runs, const Plan &plan, const LossLeaves &loss,
    const std::string &norms,
    llvm::function_ref<llvm::Expected<std::vector<SourceStep>>(const ExampleRun &run)> train) {
  const auto parts = llvm::find_if(runs, [](const ExampleRun &run) {
    return !run.otherSizes && llvm::ArrayRef<int64_t>(run.batch).equals(kPartSamples);
  });
  if (parts == runs.begin() || parts == runs.end() || parameterBytes(plan) > kMostBytesOfParts)
    return "";
  const ExampleRun &whole = *std::prev(parts);
  if (whole.otherSizes || whole.batch != std::vector<int64_t>{kWholeSamples})
    return "";
  const double ofBatch = lossOf(whole, loss);
  if (!(std::abs(lossOf(*parts, loss) - ofBatch) <= kEqualLosses * std::abs(ofBatch)))
    return ""; // also for NaN
  llvm::Expected<std::vector<SourceStep>> ofWhole = train(whole);
  llvm::Expected<std::vector<SourceStep>> ofParts = train(*parts);
  if (!ofWhole || !ofParts) { // what was asked for has been compared
    llvm::consumeError(ofWhole.takeError());
    llvm::consumeError(ofParts.takeError());
    return "";
  }
  return warningOf(ofWhole->front(), *ofParts, norms);
}

} // namespace pipec
