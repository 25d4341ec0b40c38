// TorchScript source as a model: what tests of the front steps read.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Compiles `source` into a module and takes `method` of it as a model that still has its `self`.
/// The source is Python's with a few comments that structure it:
///   #! attribute fc.weight parameter float32[8,4] requires_grad data=seed(1)   as
///   ir/text/AttributeText.h has it; dots make submodules
///   #! function          what follows are free functions, which methods call by name
///   #! module fc         what follows are methods of submodule fc; `#! module .` is the model
///   itself, compiled last
/// Every module has `training`, false unless an attribute line says otherwise.
/// Errors: Unreadable with LibTorch's message, or as attributes have.
llvm::Expected<Model> modelFromSource(llvm::StringRef source, const std::string &method);

} // namespace pipec
