// What the modules of a model cost, by the estimate that automatic cuts use.
#pragma once

#include "ir/support/Error.h"

#include <map>
#include <string>

namespace pipec {

/// Cost of each module that calls an operator, what is in it included, by path ("" is the model),
/// for `method` on `inputs` (as CompileOptions has them). In operations of a matrix product, moved
/// bytes converted to them. Nothing is cut, nothing is written. Errors: as Compiler::compile until
/// there.
llvm::Expected<std::map<std::string, int64_t>>
moduleCosts(const std::string &path, const std::string &method, const std::string &inputs);

} // namespace pipec
