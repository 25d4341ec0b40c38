#include "passes/PassOptions.h"

#include "llvm/ADT/SmallVector.h"

namespace pipec {

std::vector<std::string> listOfOption(llvm::StringRef text) {
  std::vector<std::string> result;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ':', -1, false);
  for (llvm::StringRef part : parts)
    result.push_back(part.str());
  return result;
}

llvm::Expected<size_t> countOfOption(llvm::StringRef name, llvm::StringRef text) {
  size_t value = 0;
  if (text.getAsInteger(10, value))
    return failf(ExitCode::Usage, "option {}: expected a number of 0 or more, got {}", name.str(),
                 text.str());
  return value;
}

llvm::Error noChoice(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> choices,
                     llvm::StringRef text) {
  return failf(ExitCode::Usage, "option {}: expected one of {}, got {}", name.str(),
               llvm::join(choices, ", "), text.str());
}

llvm::Expected<std::shared_ptr<const StepOptions>>
OptionsOfPass::parseOptions(const OptionTexts &texts) const {
  std::vector<std::string> known;
  for (const auto &[form, meaning] : meanings)
    known.push_back(llvm::StringRef(form).split('=').first.str());
  for (const auto &[name, value] : texts)
    if (!llvm::is_contained(known, name))
      return makeError(ExitCode::Usage, "unknown option " + name,
                       known.empty() ? "this pass takes no options"
                                     : "its options are " + llvm::join(known, ", "));
  if (!parse)
    return nullptr;
  return parse(texts);
}

} // namespace pipec
