#include "runtime/training/LearningRates.h"

#include "ir/support/Try.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pipec {

namespace {

constexpr double kNotGiven = std::numeric_limits<double>::quiet_NaN(); // no text reads as NaN

bool isWholeNumber(llvm::StringRef key) {
  return key == "warmup" || key == "steps" || key == "every";
}

llvm::Error checkRates(const NamedSettings &rates) {
  for (const auto &[key, value] : rates.settings) {
    const double least = key == "steps" || key == "every" ? 1 : 0;
    if (value < least || (isWholeNumber(key) && value != std::floor(value)))
      return failf(ExitCode::Usage, "--lr-schedule: {}: expected {} of at least {}, got {}", key,
                   isWholeNumber(key) ? "a whole number" : "a number", least, value);
    if (key == "floor" && value > 1)
      return makeError(ExitCode::Usage,
                       fmt::format("--lr-schedule: floor: expected at most 1, the factor after the "
                                   "warmup, got {}",
                                   value),
                       "the floor is a part of the optimizer's learning rate: floor=0.1");
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<LearningRates> LearningRates::parse(llvm::StringRef text, int64_t runSteps) {
  static const std::vector<SettingsRow> rows = {
      {"constant", {{"warmup", 0}}},
      {"cosine", {{"warmup", 0}, {"steps", kNotGiven}, {"floor", 0}}},
      {"linear", {{"warmup", 0}, {"steps", kNotGiven}, {"floor", 0}}},
      {"step", {{"warmup", 0}, {"every", kNotGiven}, {"gamma", 0.1}}}};
  LearningRates rates;
  if (text.empty())
    return rates;
  NamedSettings parsed = TRY(parseSettings(text, "--lr-schedule", rows));
  bool hasSteps = false;
  for (auto &[key, value] : parsed.settings) {
    if (key == "every" && std::isnan(value))
      return makeError(ExitCode::Usage,
                       "--lr-schedule: step: expected every=N with it, the steps after which the "
                       "rate is multiplied by gamma, got none",
                       "write step,every=N, or step,every=N,gamma=0.1");
    if (key != "steps")
      continue;
    hasSteps = !std::isnan(value);
    if (!hasSteps)
      value = static_cast<double>(runSteps);
  }
  TRY(checkRates(parsed));
  // A run that is shorter than the warmup may be a trial.
  if (hasSteps && parsed["warmup"] > parsed["steps"])
    return makeError(ExitCode::Usage,
                     fmt::format("--lr-schedule: warmup: expected at most {}, its steps, got {}",
                                 parsed["steps"], parsed["warmup"]),
                     "steps counts those of the warmup, too");
  rates.settings_ = std::move(parsed);
  return rates;
}

double LearningRates::factorAt(int64_t step) const {
  const double warmup = settings_["warmup"], now = static_cast<double>(step);
  if (now < warmup)
    return (now + 1) / (warmup + 1);
  if (settings_.name == "constant")
    return 1;
  if (settings_.name == "step")
    return std::pow(settings_["gamma"], std::floor(now / settings_["every"]));
  const double floor = settings_["floor"];
  const double length = std::max(1.0, settings_["steps"] - warmup);
  const double part = std::min(1.0, (now - warmup) / length);
  const double left = settings_.name == "linear" ? 1 - part : (1 + std::cos(M_PI * part)) / 2;
  return floor + (1 - floor) * left;
}

llvm::Error StepRates::set(llvm::StringRef text, int64_t runSteps) {
  rates = TRY(LearningRates::parse(text, runSteps));
  return llvm::Error::success();
}

} // namespace pipec
