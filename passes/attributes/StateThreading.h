// Turns assignments to attributes (prim::SetAttr) into values. lower-attributes uses it for
// attributes that the method writes, of modules and of objects that the method makes.
#pragma once

#include "ir/support/Error.h"

#include <map>
#include <string>
#include <unordered_map>

namespace torch::jit {
struct Block;
struct Graph;
struct Value;
} // namespace torch::jit

namespace pipec {

/// The path of each module-typed value.
using ModulePaths = std::unordered_map<torch::jit::Value *, std::string>;

/// Replaces every read and write of the attributes in `current` by data flow: an If returns the
/// values of both branches, a Loop carries them. `current` maps a path to the graph input that
/// carries its value on entry, and on return has the values on exit of the block. Errors:
/// Unsupported if a write is in a fork's body.
llvm::Error threadState(torch::jit::Block &block, const ModulePaths &paths,
                        std::map<std::string, torch::jit::Value *> &current);

/// Replaces objects of TorchScript classes that the method makes by the values of their attributes:
///
///     %box : Box = prim::CreateObject()        %u : int = prim::Uninitialized()
///     prim::SetAttr[name="n"](%box, %two)  =>
///     %n : int = prim::GetAttr[name="n"](%box)  (%two in place of %n)
///
/// Objects that are used beyond their attributes (stored, returned, chosen between, forked) stay.
/// Calls must be inlined. Errors: those of threadState.
llvm::Error lowerLocalObjects(torch::jit::Graph &graph);

/// The path "a.b" of a prim::GetAttr or prim::SetAttr on a module; empty if its object is not a
/// module of the model.
std::string attributePath(torch::jit::Value *object, const std::string &name,
                          const ModulePaths &paths, bool &known);

} // namespace pipec
