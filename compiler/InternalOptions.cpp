#include "compiler/InternalOptions.h"

namespace pipec {

llvm::Expected<Compiler> loadWith(const std::string &modelPath, InternalOptions internal) {
  return Compiler(modelPath, std::move(internal));
}

} // namespace pipec
