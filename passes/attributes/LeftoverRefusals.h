// The refusals of lower-attributes after it has replaced all it can.
#pragma once

#include "ir/Model.h"
#include "passes/attributes/StateThreading.h"

namespace pipec {

class TupleClasses;

/// Refuses remaining reads and writes of attributes: their object is more than its attributes.
/// `paths` has the attributes that stand for the model's objects. Errors: Unsupported.
llvm::Error refuseObjects(torch::jit::Block &block, const ModulePaths &paths,
                          const TupleClasses &tuples);

/// Refuses a module that is still used. Errors: Unsupported naming the operator that uses it.
llvm::Error refuseModuleAsValue(torch::jit::Value *module);

/// Refuses attributes that no stage file can hold. Errors: Unsupported.
llvm::Error refuseAttributes(const std::vector<Attribute> &attributes);

} // namespace pipec
