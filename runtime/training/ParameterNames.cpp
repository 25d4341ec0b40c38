#include "runtime/training/ParameterNames.h"

#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"

namespace pipec {

llvm::Expected<std::vector<bool>> matching(llvm::StringRef pattern, llvm::StringRef option,
                                           const ParameterNames &names) {
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
  if (!glob)
    return failf(ExitCode::Usage, "{}: expected a pattern of names, got {}: {}", option.str(),
                 pattern.str(), llvm::toString(glob.takeError()));
  std::vector<bool> result;
  for (const std::vector<std::string> &all : names)
    result.push_back(llvm::any_of(all, [&](const std::string &name) { return glob->match(name); }));
  if (llvm::is_contained(result, true))
    return result;
  return makeError(ExitCode::Usage,
                   fmt::format("{}: expected names of parameters, got {}", option.str(),
                               pattern.empty() ? "an empty name" : pattern.str()),
                   names.empty() ? "the model has no parameters that are trained"
                                 : "the first parameter is " + names.front().front());
}

llvm::Expected<std::vector<bool>> frozen(const std::vector<std::string> &patterns,
                                         const ParameterNames &names) {
  std::vector<bool> result(names.size(), false);
  for (const std::string &pattern : patterns) {
    std::vector<bool> matched = TRY(matching(pattern, "--freeze", names));
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = result[i] || matched[i];
  }
  return result;
}

llvm::Error checkAnyTrained(const TrainingOptions &options, const std::vector<bool> &isFrozen) {
  if (!options.updates())
    return llvm::Error::success();
  const std::string option = options.makeOptimizer ? "makeOptimizer" : "--optimizer";
  if (isFrozen.empty())
    return makeError(ExitCode::Usage,
                     option + ": expected a parameter to train, got a model without any that has "
                              "gradients",
                     "turn requires_grad of the parameters on before saving the model");
  if (llvm::is_contained(isFrozen, false))
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   fmt::format("--freeze: expected a parameter that is left to train, got all {} "
                               "frozen",
                               isFrozen.size()),
                   "leave " + option + " out for the losses alone, or freeze fewer parameters");
}

} // namespace pipec
