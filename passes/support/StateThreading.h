// Assignments to attributes (prim::SetAttr) as values: what lower-attributes uses for attributes
// that the method writes, of modules and of objects that it makes.
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

/// Path of each module-typed value, and of nothing else.
using ModulePaths = std::unordered_map<torch::jit::Value *, std::string>;

/// Replaces every read and write of the attributes in `current` (path -> the graph input that
/// carries its value on entry) by data flow: an If returns the values of both branches, a Loop
/// carries them. On return `current` has the values on exit of the block. Errors: Unsupported when
/// a write sits in a fork's body.
llvm::Error threadState(torch::jit::Block &block, const ModulePaths &paths,
                        std::map<std::string, torch::jit::Value *> &current);

/// Replaces objects of TorchScript classes that the method makes by the values of their attributes:
///
///     %box : Box = prim::CreateObject()        %u : int = prim::Uninitialized()
///     prim::SetAttr[name="n"](%box, %two)  =>
///     %n : int = prim::GetAttr[name="n"](%box)  (%two in place of %n)
///
/// Objects of which more than attributes is asked (stored, returned, chosen between, forked) stay.
/// Calls must be inlined. Errors: those of threadState.
llvm::Error lowerLocalObjects(torch::jit::Graph &graph);

/// "a.b" of a prim::GetAttr or prim::SetAttr on a module; empty when its object is no module of the
/// model.
std::string attributePath(torch::jit::Value *object, const std::string &name,
                          const ModulePaths &paths, bool &known);

} // namespace pipec
