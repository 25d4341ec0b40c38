#include "runtime/training/StepNumbers.h"

#include "runtime/training/GradientNorm.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace pipec {

bool isFiniteNumber(const at::Tensor &number) { return std::isfinite(number.item<double>()); }

at::Tensor normOf(const StepNumbers &numbers) {
  std::vector<at::Tensor> norms;
  norms.reserve(numbers.size());
  for (const auto &[number, value] : numbers)
    if (number >= 0)
      norms.push_back(value);
  return totalNorm(norms);
}

at::Tensor allFinite(const StepNumbers &numbers) {
  std::map<at::ScalarType, std::vector<at::Tensor>> byType; // a smaller type could overflow
  for (const auto &[number, value] : numbers)
    byType[value.scalar_type()].push_back(value.reshape({}));
  at::Tensor flag;
  for (const auto &[type, values] : byType) {
    const at::Tensor all = at::isfinite(at::stack(values)).all();
    flag = flag.defined() ? flag.logical_and(all) : all;
  }
  return flag.defined() ? flag : at::ones({}, at::kBool);
}

llvm::Error SkippedSteps::note(bool skipped, int64_t most) {
  inARow_ = skipped ? inARow_ + 1 : 0;
  if (most == 0 || inARow_ < most)
    return llvm::Error::success();
  return makeError(ExitCode::NotFinite,
                   fmt::format("expected fewer than {} steps in a row whose loss or gradients are "
                               "not finite, got {}",
                               most, inARow_),
                   "lower the learning rate, or clip the gradients");
}

namespace {

bool isBad(const StepNumbers::value_type &entry) { return !isFiniteNumber(entry.second); }

/// mayCountNothing: a mean over no elements is 0 / 0.
std::string helpForNotFinite(bool mayDiverge, bool mayCountNothing) {
  std::string help;
  if (mayDiverge)
    help =
        "choose a smaller learning rate, or clip the gradients with --clip-norm: the step before "
        "was finite; ";
  help += "--on-nan skip leaves such a step out";
  if (mayCountNothing)
    help +=
        "; if the loss is a mean and this micro-batch has no element that counts, let the model "
        "return (sum, count), which needs some in the whole batch only";
  return help;
}

} // namespace

llvm::Expected<StepNorm> judge(const StepNumbers &numbers, bool skipsNan,
                               const std::function<std::string(size_t parameter)> &nameOf,
                               std::optional<size_t> lossStage, bool mayDiverge) {
  StepNorm result;
  const auto norms = numbers.lower_bound(0); // before it the losses, the last micro-batch first
  const auto bad = std::find_if(std::make_reverse_iterator(norms), numbers.rend(), isBad);
  const bool isLoss = bad != numbers.rend();
  const auto first = isLoss ? std::prev(bad.base()) : std::find_if(norms, numbers.end(), isBad);
  result.isFinite = first == numbers.end();
  if (!result.isFinite && !skipsNan) {
    const double found = first->second.item<double>();
    const double value = std::isnan(found) ? NAN : found; // without a sign
    return makeError(ExitCode::NotFinite,
                     isLoss ? fmt::format("{}micro-batch {}: expected a finite loss, got {}",
                                          lossStage ? fmt::format("stage {}, ", *lossStage) : "",
                                          -1 - first->first, value)
                            : fmt::format("{}: expected finite gradients, got the norm {}",
                                          nameOf(static_cast<size_t>(first->first)), value),
                     helpForNotFinite(mayDiverge, isLoss && std::isnan(value)));
  }
  result.total = normOf(numbers);
  return result;
}

} // namespace pipec
