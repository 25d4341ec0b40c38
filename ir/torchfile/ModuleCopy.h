// Copies of a module that was read from a file, without reading its code again. For runs that each
// start from the state in the file.
#pragma once

#include "ir/support/Error.h"

#include <torch/csrc/jit/api/module.h>

namespace pipec {

/// Whether copyOf() can make copies whose runs do not affect each other: the code can be shared,
/// and the module holds nothing but modules, objects, lists, dicts, tuples, tensors with plain
/// memory and values that never change.
bool canBeCopied(const torch::jit::Module &module);

/// A module of the same classes with values of its own; the module can be copied. Objects, lists,
/// dicts and tensors that the module holds several times are one in the copy, too, and views of one
/// memory are views of one memory. Tensors in a mapped file are in another mapping of it, so a copy
/// needs memory only for what its runs write. The module must not have run: the copy has what is in
/// the file. Thread: any, several at once. Errors: those of MappedFile::again().
llvm::Expected<torch::jit::Module> copyOf(const torch::jit::Module &module);

} // namespace pipec
