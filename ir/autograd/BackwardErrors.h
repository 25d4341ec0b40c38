// LibTorch's errors of a backward, in terms of the commands: its advice is for Python.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace torch::jit {
struct Module;
}

namespace pipec {

/// The name, without its namespace, of the operator that LibTorch's message says has no derivative:
/// "aminmax". Empty: the message says something else.
std::string operatorWithoutDerivative(llvm::StringRef message);

/// Drops LibTorch's advice, and adds pipec's own, to the error of a backward that lacks a
/// derivative, or a value that the model has written over. Adds the place of the operator that the
/// message names, if `model` is given and has one such operator. A backward that walked into that
/// of an earlier micro-batch, because the state of `model` led there, is a refusal that names the
/// state. Returns success and other errors unchanged.
llvm::Error explainBackward(llvm::Error error, const torch::jit::Module *model = nullptr);

} // namespace pipec
