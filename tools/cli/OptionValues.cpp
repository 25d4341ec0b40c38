#include "tools/cli/OptionValues.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/Units.h"

#include <algorithm>

namespace pipec {
namespace {

/// The message of one of our parsers about a value; read once llvm::cl has returned.
std::string &valueError() {
  static std::string error;
  return error;
}

bool reject(llvm::StringRef option, const std::string &message) {
  if (valueError().empty())
    valueError() = spelledOption(option) + ": " + message;
  return true;
}

} // namespace

llvm::Expected<size_t> chooseByName(llvm::StringRef option, llvm::StringRef value,
                                    llvm::ArrayRef<llvm::StringRef> names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == value)
      return i;
  return failf(ExitCode::Usage, "{}: expected one of {}, got \"{}\"", spelledOption(option),
               llvm::join(names, ", "), value.str());
}

llvm::Expected<RecomputeWish> recomputeFromText(llvm::StringRef text) {
  static constexpr std::pair<const char *, RecomputeChoice> kChoices[] = {
      {"never", RecomputeChoice::Never},
      {"always", RecomputeChoice::Always},
      {"except-last", RecomputeChoice::ExceptLast},
      {"auto", RecomputeChoice::Auto}};
  for (const auto &[name, choice] : kChoices)
    if (text == name)
      return RecomputeWish(choice);
  std::vector<size_t> stages;
  llvm::SmallVector<llvm::StringRef, 8> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts)
    if (size_t stage = 0; part.getAsInteger(10, stage))
      return failf(ExitCode::Usage,
                   "--recompute: expected never, always, except-last, auto or stages such as 0,2, "
                   "got \"{}\"",
                   text.str());
    else
      stages.push_back(stage);
  llvm::sort(stages);
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return RecomputeWish(std::move(stages));
}

bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, IntegerValue &value) {
  return text.getAsInteger(10, value.value) &&
         reject(name, fmt::format("expected a whole number, got \"{}\"", text.str()));
}

bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, NumberValue &value) {
  return text.getAsDouble(value.value) &&
         reject(name, fmt::format("expected a number, got \"{}\"", text.str()));
}

bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, SizeValue &value) {
  llvm::Expected<int64_t> size = parseSize(text);
  if (!size)
    return reject(name, describe(size.takeError()).message);
  value = *size;
  return false;
}

bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, DurationValue &value) {
  llvm::Expected<int64_t> duration = parseDuration(text);
  if (!duration)
    return reject(name, describe(duration.takeError()).message);
  value = *duration;
  return false;
}

std::string takeValueError() { return std::exchange(valueError(), ""); }

} // namespace pipec
