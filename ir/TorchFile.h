// TorchScript files read through a memory mapping: weights stay in the file, nothing is copied.
#pragma once

#include "ir/SourceMode.h"
#include "ir/plan/Error.h"

#include <torch/csrc/jit/api/module.h>

namespace pipec {

/// Maps `path` privately (copy on write) and builds its module with tensors that point into the
/// mapping, which lives as long as any of them. Records that are compressed or badly aligned are
/// copied. Source ranges come along. Errors: IO (cannot open), Unreadable (not a zip, truncated, no
/// TorchScript archive, an unregistered operator), each naming the path. Thread: any; the module is
/// the caller's.
llvm::Expected<torch::jit::Module> loadMapped(const std::string &path);

/// The same with the training flags of `mode` set. Errors: those of loadMapped; Usage for a name of
/// keepEval that is no module, with the nearest one.
llvm::Expected<torch::jit::Module> loadSource(const std::string &path, const SourceMode &mode);

/// --keep-eval names something that is not among `modules`. Here so that whoever folds training
/// flags says the same.
llvm::Error noSuchModuleToKeep(const std::string &name, const std::vector<std::string> &modules);

} // namespace pipec
