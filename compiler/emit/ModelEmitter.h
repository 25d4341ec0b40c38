// Turns a whole flat model into a module with its own method again.
#pragma once

#include "ir/support/Error.h"

namespace torch::jit {
struct Module;
}

namespace pipec {

struct Model;

/// The module's method has the arguments, defaults and result tree of the signature. State is
/// stored where the source keeps it. Call it under guardTorch. Errors: those of lintGraph and
/// bindArguments.
llvm::Expected<torch::jit::Module> moduleOf(const Model &model);

} // namespace pipec
