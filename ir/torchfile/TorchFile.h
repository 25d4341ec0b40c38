// TorchScript files read through a memory mapping: weights stay in the file, nothing is copied.
#pragma once

#include "ir/SourceMode.h"
#include "ir/support/Error.h"
#include "ir/torchfile/JoinLoss.h"

#include <torch/csrc/jit/api/module.h>

#include <set>

namespace pipec {

/// Maps `path` privately (copy on write) and builds its module with tensors that point into the
/// mapping, which lives as long as any of them. Records that are compressed or badly aligned are
/// copied. Source ranges come along. Errors: IO (cannot open), Unreadable (not a zip, truncated, no
/// TorchScript archive, an unregistered operator), each naming the path. Thread: any; the module is
/// the caller's. fewReads: as of TorchArchive::open.
llvm::Expected<torch::jit::Module> loadMapped(const std::string &path, bool fewReads = false);

/// Whether the operator writes for people: print() or warnings.warn().
bool isPrint(const torch::jit::Node *node);
/// Removes these operators and nothing else, for runs whose text is not shown.
void removePrints(torch::jit::Block *block);
void removePrints(const torch::jit::Module &module);

/// loadMapped, with the loss of `mode` joined. In training mode only parameters require gradients.
/// Errors: those of loadMapped, methodOf and joinLoss.
llvm::Expected<SourceModule> loadJoined(const std::string &path, const SourceMode &mode);

/// loadJoined with the training flags of `mode` set, and with these checks. Errors: those of
/// loadJoined; Usage for a name of keepEval that is no module, with the nearest one.
llvm::Expected<SourceModule> loadSource(const std::string &path, const SourceMode &mode);

/// The method to compile or to run. Errors: Unreadable when it is forward and there is none, Usage
/// for another name, naming those that exist; Unsupported when its result has no plain form.
llvm::Expected<torch::jit::Method> methodOf(const torch::jit::Module &module,
                                            const std::string &path, const std::string &name);

/// Every path of the modules in `names` and of all that is in them; a module may have several.
/// Errors: Usage for a name that is no module.
llvm::Expected<std::set<std::string>> keptModules(const torch::jit::Module &module,
                                                  const std::vector<std::string> &names);

} // namespace pipec
