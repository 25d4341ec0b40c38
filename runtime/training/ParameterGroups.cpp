#include "runtime/training/ParameterGroups.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/training/UserOptimizer.h"

#include <ATen/MemoryOverlap.h>

namespace pipec {

namespace {

/// Gives the parameters that the group matches, and no earlier one has, their settings.
llvm::Error addGroup(llvm::StringRef group, const ParameterNames &names, std::vector<bool> &isTaken,
                     OptimizerSettings &settings) {
  const auto [pattern, changes] = group.split(',');
  NamedSettings changed = TRY(changedOptimizer(*settings.common, changes, "--group"));
  std::vector<bool> matched = TRY(matching(pattern, "--group", names));
  bool hasAny = false;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!matched[i] || isTaken[i])
      continue;
    isTaken[i] = hasAny = true;
    settings.each[i] = changed;
  }
  return hasAny ? llvm::Error::success()
                : makeError(ExitCode::Usage,
                            fmt::format("--group: expected a parameter of its own for {}, got none",
                                        pattern.str()),
                            "a parameter belongs to the first group that matches it, and earlier "
                            "groups have all that match this one");
}

} // namespace

llvm::Expected<OwnedParameter> ownedParameter(const OptimizerSettings &settings,
                                              const NamedSettings &of, const std::string &name,
                                              at::Tensor tensor) {
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    return makeError(
        ExitCode::Usage,
        fmt::format("parameter {}: expected memory of its own for each element, which an optimizer "
                    "can update, got an expanded tensor",
                    name),
        "store a copy, as nn.Parameter(x.expand(8, 8).clone()), or keep it as it is with --freeze");
  OwnedParameter parameter{std::move(tensor), of["lr"], nullptr};
  if (!settings.own) {
    parameter.optimizer = makeTensorOptimizer(of);
    return parameter;
  }
  std::unique_ptr<ParameterOptimizer> own;
  TRY(guardTorchVoid(ExitCode::Other, "makeOptimizer", [&] { own = settings.own(name); }));
  if (!own)
    return makeError(ExitCode::Usage,
                     "makeOptimizer: expected an optimizer for parameter " + name + ", got none",
                     "freeze a parameter that is not to be updated");
  parameter.optimizer = std::make_unique<UserOptimizer>(std::move(own));
  return parameter;
}

llvm::Expected<OptimizerSettings> optimizerSettings(const TrainingOptions &options,
                                                    const ParameterNames &names) {
  OptimizerSettings settings;
  if (options.makeOptimizer) {
    if (!options.optimizer.empty() || !options.groups.empty())
      return makeError(ExitCode::Usage,
                       "makeOptimizer: expected neither optimizer nor groups beside it, got " +
                           (options.optimizer.empty() ? options.groups.front() : options.optimizer),
                       "the function makes the optimizer of each parameter by its name");
    settings.common = {kUserOptimizer, {{"lr", 1}}};
    settings.each.assign(names.size(), *settings.common);
    settings.own = options.makeOptimizer;
    return settings;
  }
  if (options.optimizer.empty()) {
    if (!options.groups.empty())
      return makeError(ExitCode::Usage, "--group: expected --optimizer with it, got none");
    return settings;
  }
  NamedSettings common = TRY(parseOptimizer(options.optimizer));
  settings.common = common;
  settings.each.assign(names.size(), common);
  std::vector<bool> isTaken(names.size(), false);
  for (const std::string &group : options.groups)
    TRY(addGroup(group, names, isTaken, settings));
  return settings;
}

} // namespace pipec
