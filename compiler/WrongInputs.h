// Errors of example inputs that do not fit the model, with what would.
#pragma once

#include "compiler/CompileOptions.h"
#include "ir/Model.h"
#include "ir/batch/ModelRunner.h"
#include "ir/values/BindArguments.h"

namespace pipec {

/// The error of inputs for a model that takes fewer. The targets of a loss may be among them, which
/// `options` lack.
llvm::Error tooManyArguments(const Model &model, const Arguments &arguments,
                             const CompileOptions &options);

/// Adds a help to an error of running the model on an input whose dtype is not that of the weights.
llvm::Error withDtypeHelp(llvm::Error error, const Model &model, const Values &inputs);

/// For a model joined with a loss: adds to an error of arguments that do not fit which arguments
/// are the model's and which are targets. `path`: of the model without its loss. Errors: those of
/// reading the file.
llvm::Error withTargets(llvm::Error error, const Signature &joined, const std::string &path,
                        const CompileOptions &options);

} // namespace pipec
