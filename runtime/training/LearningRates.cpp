#include "runtime/training/LearningRates.h"

#include "ir/support/Try.h"

#include <algorithm>
#include <cmath>

namespace pipec {

llvm::Expected<LearningRates> LearningRates::parse(llvm::StringRef text, int64_t runSteps) {
  static const std::vector<SettingsRow> rows = {
      {"constant", {{"warmup", 0}}},
      {"cosine", {{"warmup", 0}, {"steps", 0}, {"floor", 0}}},
      {"linear", {{"warmup", 0}, {"steps", 0}, {"floor", 0}}},
      {"step", {{"warmup", 0}, {"every", 0}, {"gamma", 0.1}}}};
  LearningRates rates;
  if (text.empty())
    return rates;
  NamedSettings parsed = TRY(parseSettings(text, "--lr-schedule", rows));
  if (parsed.name == "step" && !text.contains("every"))
    return makeError(ExitCode::Usage,
                     "--lr-schedule: step: expected every=N with it, the steps after which the "
                     "rate is multiplied by gamma, got none",
                     "write step,every=N, or step,every=N,gamma=0.1");
  for (auto &[key, value] : parsed.settings) {
    if (key == "steps" && value == 0)
      value = static_cast<double>(runSteps);
    const bool whole = key == "warmup" || key == "steps" || key == "every";
    const double least = key == "steps" || key == "every" ? 1 : 0;
    if (value < least || (whole && value != std::floor(value)))
      return failf(ExitCode::Usage, "--lr-schedule: {}: expected {} of at least {}, got {}", key,
                   whole ? "a whole number" : "a number", least, value);
  }
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
