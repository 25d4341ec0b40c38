#include "runtime/training/Freeze.h"

#include "ir/support/Llvm.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

llvm::Expected<std::vector<bool>> frozen(const std::vector<std::string> &patterns,
                                         const std::vector<std::vector<std::string>> &names) {
  std::vector<bool> result(names.size(), false);
  for (const std::string &pattern : patterns) {
    const bool isPrefix = !pattern.empty() && pattern.back() == '*';
    const llvm::StringRef text = llvm::StringRef(pattern).drop_back(isPrefix ? 1 : 0);
    bool any = false;
    for (size_t i = 0; i < names.size(); ++i)
      if (llvm::any_of(names[i], [&](const std::string &name) {
            return isPrefix ? startsWith(name, text) : name == text;
          }))
        result[i] = any = true;
    if (!any)
      return makeError(ExitCode::Usage,
                       fmt::format("--freeze: expected names of parameters, got {}", pattern),
                       names.empty() ? "the model has no parameters that are trained"
                                     : "the first parameter is " + names.front().front());
  }
  return result;
}

} // namespace pipec
