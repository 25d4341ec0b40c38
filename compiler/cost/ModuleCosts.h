// The costs of a model's modules, by the estimate that automatic cuts use.
#pragma once

#include "ir/support/Error.h"

#include <map>
#include <string>

namespace pipec {

/// Cost of each module that calls an operator, including its submodules, by path ("" is the model),
/// for `method` on `inputs` (in the form of CompileOptions). The unit is an operation of a matrix
/// product; moved bytes are converted. Nothing is cut or written. Errors: those of the same steps
/// of Compiler::compile.
llvm::Expected<std::map<std::string, int64_t>>
moduleCosts(const std::string &path, const std::string &method, const std::string &inputs);

} // namespace pipec
