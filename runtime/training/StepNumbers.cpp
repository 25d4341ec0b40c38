#include "runtime/training/StepNumbers.h"

#include "llvm/ADT/STLExtras.h"
#include "runtime/training/GradientNorm.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <map>

namespace pipec {

bool isFiniteNumber(const at::Tensor &number) { return std::isfinite(number.item<double>()); }

StepNumbers::StepNumbers(std::initializer_list<std::pair<int64_t, at::Tensor>> all) {
  for (const auto &[number, value] : all)
    (*this)[number] = value;
}

at::Tensor &StepNumbers::operator[](int64_t number) {
  const auto at = llvm::lower_bound(numbers_, number);
  const auto value = values_.begin() + (at - numbers_.begin());
  if (at != numbers_.end() && *at == number)
    return *value;
  numbers_.insert(at, number);
  return *values_.emplace(value);
}

void StepNumbers::clear() {
  numbers_.clear();
  values_.clear();
}

size_t StepNumbers::losses() const {
  return static_cast<size_t>(llvm::lower_bound(numbers_, 0) - numbers_.begin());
}

at::Tensor allFinite(const StepNumbers &numbers) {
  std::map<at::ScalarType, std::vector<at::Tensor>> byType; // a smaller type could overflow
  for (const at::Tensor &value : numbers.values())
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

/// The place of the first number that is not finite: the losses first, by micro-batch.
std::optional<size_t> firstBad(const StepNumbers &numbers) {
  const llvm::ArrayRef<at::Tensor> values = numbers.values();
  for (size_t i = numbers.losses(); i-- > 0;)
    if (!isFiniteNumber(values[i]))
      return i;
  for (size_t i = numbers.losses(); i < values.size(); ++i)
    if (!isFiniteNumber(values[i]))
      return i;
  return std::nullopt;
}

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
  const std::optional<size_t> bad = firstBad(numbers);
  result.isFinite = !bad;
  if (bad && !skipsNan) {
    const int64_t number = numbers.numbers()[*bad];
    const bool isLoss = number < 0;
    const double found = numbers.values()[*bad].item<double>();
    const double value = std::isnan(found) ? NAN : found; // without a sign
    return makeError(ExitCode::NotFinite,
                     isLoss ? fmt::format("{}micro-batch {}: expected a finite loss, got {}",
                                          lossStage ? fmt::format("stage {}, ", *lossStage) : "",
                                          -1 - number, value)
                            : fmt::format("{}: expected gradients with a finite norm, got {}",
                                          nameOf(static_cast<size_t>(number)), value),
                     helpForNotFinite(mayDiverge, isLoss && std::isnan(value)));
  }
  result.total = totalNorm(numbers.norms());
  return result;
}

} // namespace pipec
