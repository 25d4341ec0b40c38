#include "ir/artifact/ArgumentNames.h"

#include "llvm/ADT/StringExtras.h"

namespace pipec {

std::string ArgumentNames::next(llvm::StringRef name) {
  std::string base;
  for (char c : name)
    base += llvm::isAlnum(c) ? c : '_';
  if (base.empty() || llvm::isDigit(base[0]))
    base = "_" + base;
  std::string unique = base;
  for (int i = 1; !taken_.insert(unique).second; ++i)
    unique = base + "_use" + std::to_string(i);
  return unique;
}

std::vector<std::string> argumentNames(const StagePlan &stage) {
  ArgumentNames names;
  std::vector<std::string> result;
  for (const StageInput &input : stage.inputs)
    result.push_back(names.next(input.name));
  for (const StageAttribute &attribute : stage.attributes)
    for (size_t use = 0; use < attribute.uses; ++use)
      result.push_back(names.next(attribute.name));
  return result;
}

} // namespace pipec
