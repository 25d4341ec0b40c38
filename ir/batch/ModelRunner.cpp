#include "ir/batch/ModelRunner.h"

namespace pipec {

llvm::Expected<std::vector<c10::IValue>> runOne(ModelRuns runAll, std::vector<Values> calls) {
  std::vector<std::vector<Values>> one;
  one.push_back(std::move(calls));
  return std::move(runAll(std::move(one), 0).front());
}

std::string firstLineOf(llvm::Error error) {
  const std::string message = describe(std::move(error)).message;
  return llvm::StringRef(message).split('\n').first.str();
}

} // namespace pipec
