// TorchScript source as a model: the input of tests of the front steps.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Compiles `source` into a module and returns its `method` as a model that still has its `self`.
/// The source is Python's with a few comments that structure it:
///   #! attribute fc.weight parameter float32[8,4] requires_grad data=seed(1)   as in
///   ir/text/AttributeText.h; dots make submodules
///   #! function          free functions follow, which methods call by name
///   #! module fc         methods of submodule fc follow; `#! module .` is the model itself,
///   compiled last
/// Every module has `training`, false unless an attribute line says otherwise. Errors: Unreadable
/// with LibTorch's message, or the errors of attribute lines.
llvm::Expected<Model> modelFromSource(llvm::StringRef source, const std::string &method);

} // namespace pipec
