// Arguments of a user as values of a signature.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"
#include "ir/values/Arguments.h"

namespace pipec {

/// Returns one value per input of the signature, in order: positional first, then keywords, then
/// defaults. Each is converted to the declared type (a generic list becomes List[Tensor], a dict
/// Dict[str, Tensor]). `types` has the declared type of each input. Errors: Usage naming the
/// argument (too many, unknown keyword, missing, wrong type: expected <x>, got <y>).
llvm::Expected<std::vector<c10::IValue>> bindArguments(const Signature &signature,
                                                       llvm::ArrayRef<c10::TypePtr> types,
                                                       const Arguments &arguments);

/// "x, target", or "no arguments".
std::string listArguments(llvm::ArrayRef<InputSpec> inputs);

/// The value as a declared type has it: a generic list becomes List[Tensor]. Nothing: it has
/// another type.
std::optional<c10::IValue> asDeclared(const c10::IValue &value, const c10::TypePtr &type);

} // namespace pipec
