#include "runtime/training/OptimizerText.h"

#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace pipec {

double NamedSettings::operator[](llvm::StringRef key) const {
  const auto found = llvm::find_if(settings, [&](const auto &entry) { return entry.first == key; });
  PIPEC_ASSERT(found != settings.end(), "a setting of this name");
  return found->second;
}

namespace {

std::vector<std::string> namesOf(const std::vector<SettingsRow> &rows) {
  std::vector<std::string> names;
  for (const SettingsRow &row : rows)
    names.push_back(row.name);
  return names;
}

std::vector<std::string> keysOf(const NamedSettings &settings) {
  std::vector<std::string> keys;
  for (const auto &entry : settings.settings)
    keys.push_back(entry.first);
  return keys;
}

/// Reads "key=number" into one of the settings.
llvm::Error readSetting(llvm::StringRef word, llvm::StringRef option, NamedSettings &result) {
  auto [key, number] = word.split('=');
  std::string wanted = key.trim().str();
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  const auto entry =
      llvm::find_if(result.settings, [&](const auto &each) { return each.first == wanted; });
  if (entry == result.settings.end())
    return makeError(ExitCode::Usage,
                     fmt::format("{}: expected settings of {}: {}, got \"{}\"", option.str(),
                                 result.name, llvm::join(keysOf(result), ", "), word.trim().str()),
                     didYouMean(wanted, keysOf(result)));
  if (number.trim().getAsDouble(entry->second) || !std::isfinite(entry->second))
    return failf(ExitCode::Usage, "{}: expected a number for {}, got \"{}\"", option.str(), wanted,
                 number.trim().str());
  return llvm::Error::success();
}

/// Errors: Usage for a setting that is given twice.
llvm::Error checkOnce(llvm::iterator_range<const llvm::StringRef *> words, llvm::StringRef option) {
  std::set<std::string> seen;
  for (llvm::StringRef word : words) {
    std::string key = word.split('=').first.trim().str();
    std::replace(key.begin(), key.end(), '-', '_');
    if (!seen.insert(key).second)
      return failf(ExitCode::Usage, "{}: {}: expected it once, got it twice", option.str(), key);
  }
  return llvm::Error::success();
}

/// Errors: Usage for a number that the optimizer does not accept.
llvm::Error checkOptimizer(const NamedSettings &settings, llvm::StringRef option) {
  for (const auto &[key, value] : settings.settings) {
    const bool isBeta = key == "beta1" || key == "beta2";
    const bool isFlag = key == "nesterov" || key == "amsgrad" || key == "centered";
    const bool isPart = key == "alpha"; // more makes a mean of squares negative
    if (value < 0 || (isBeta && value >= 1) || (isPart && value > 1) ||
        (isFlag && value != 0 && value != 1))
      return failf(ExitCode::Usage, "{}: {}: expected {}, got {}", option.str(), key,
                   isBeta   ? "at least 0 and less than 1"
                   : isPart ? "at least 0 and at most 1"
                   : isFlag ? "0 or 1"
                            : "at least 0",
                   value);
  }
  if (settings.name == "sgd" && settings["nesterov"] == 1 &&
      (settings["momentum"] == 0 || settings["dampening"] != 0))
    return makeError(ExitCode::Usage,
                     option.str() + ": nesterov=1: expected a momentum and no dampening",
                     "write sgd,lr=0.1,momentum=0.9,nesterov=1");
  return llvm::Error::success();
}

} // namespace

llvm::Expected<NamedSettings> parseSettings(llvm::StringRef text, llvm::StringRef option,
                                            const std::vector<SettingsRow> &rows) {
  llvm::SmallVector<llvm::StringRef, 8> words;
  text.split(words, ',');
  const std::string name = words.front().trim().lower();
  const auto row = llvm::find_if(rows, [&](const SettingsRow &each) { return each.name == name; });
  if (row == rows.end())
    return makeError(ExitCode::Usage,
                     fmt::format("{}: expected one of {}, got \"{}\"", option.str(),
                                 llvm::join(namesOf(rows), ", "), name),
                     didYouMean(name, namesOf(rows)));
  NamedSettings result{name, row->defaults};
  for (llvm::StringRef word : llvm::drop_begin(words))
    TRY(readSetting(word, option, result));
  TRY(checkOnce(llvm::drop_begin(words), option));
  return result;
}

std::string toString(const NamedSettings &settings) {
  std::string text = settings.name;
  for (const auto &[key, value] : settings.settings)
    text += fmt::format(",{}={}", key, value);
  return text;
}

const std::vector<SettingsRow> &optimizerRows() {
  static const std::vector<SettingsRow> rows = {
      {"sgd",
       {{"lr", 1e-3}, {"momentum", 0}, {"dampening", 0}, {"weight_decay", 0}, {"nesterov", 0}}},
      {"adam",
       {{"lr", 1e-3},
        {"beta1", 0.9},
        {"beta2", 0.999},
        {"eps", 1e-8},
        {"weight_decay", 0},
        {"amsgrad", 0}}},
      {"adamw",
       {{"lr", 1e-3},
        {"beta1", 0.9},
        {"beta2", 0.999},
        {"eps", 1e-8},
        {"weight_decay", 1e-2},
        {"amsgrad", 0}}},
      {"rmsprop",
       {{"lr", 1e-2},
        {"alpha", 0.99},
        {"eps", 1e-8},
        {"weight_decay", 0},
        {"momentum", 0},
        {"centered", 0}}},
      {"adagrad",
       {{"lr", 1e-2},
        {"lr_decay", 0},
        {"weight_decay", 0},
        {"initial_accumulator_value", 0},
        {"eps", 1e-10}}}};
  return rows;
}

llvm::Expected<NamedSettings> parseOptimizer(llvm::StringRef text) {
  llvm::Expected<NamedSettings> parsed = parseSettings(text, "--optimizer", optimizerRows());
  if (parsed)
    TRY(checkOptimizer(*parsed, "--optimizer"));
  return parsed;
}

llvm::Expected<NamedSettings> changedOptimizer(const NamedSettings &settings,
                                               llvm::StringRef changes, llvm::StringRef option) {
  NamedSettings result = settings;
  llvm::SmallVector<llvm::StringRef, 8> words;
  changes.split(words, ',');
  for (llvm::StringRef word : words)
    TRY(readSetting(word, option, result));
  TRY(checkOptimizer(result, option));
  return result;
}

} // namespace pipec
