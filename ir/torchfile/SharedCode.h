// Whether modules with values of their own can share one code: a run of one must not change what a
// run of another computes.
#pragma once

#include <ATen/core/ivalue.h>

namespace torch::jit {
struct Module;
}

namespace pipec {

/// A number, a text, a device, an enum, None, or a tuple of these: no run can write into it.
bool neverChanges(const c10::IValue &value);

/// Whether no function of the file that the module was read from may write into a value that the
/// code itself holds: a constant, or the default of an argument of the module's methods. Numbers
/// and texts never change. A list of them may be a constant that only operators read. Tensors and
/// objects count as written. Also false if the file has functions that set the state of objects
/// when it is read.
bool canShareCode(const torch::jit::Module &module);

} // namespace pipec
