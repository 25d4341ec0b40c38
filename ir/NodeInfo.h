// Facts about one node: where it comes from, for messages and reports (never part of an artifact),
// and whether it draws random numbers.
#pragma once

#include "ir/RandomOps.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/symbol.h>

#include <optional>
#include <string>

namespace torch::jit {
struct Block;
struct Module;
struct Node;
struct Use;
struct Value;
} // namespace torch::jit

namespace pipec {

/// "encoder.layers.3.fc1"; a component called for the k-th time (k > 1) reads "block#2". Empty for
/// nodes of the method itself.
std::string modulePathOf(torch::jit::Node *node);
void setModulePath(torch::jit::Node *node, const std::string &path);

/// "model.py:88", or empty when the file carries no source ranges.
std::string sourceLineOf(torch::jit::Node *node);

/// The attribute of aten::warn that LibTorch renumbers each time it reads a file. It is not part of
/// the program.
bool isWarningNumber(c10::Symbol attribute);

/// "aten::add_ at model.py:88 in encoder.layers.3": how messages name a node. Control flow is "a
/// loop", "a branch" or "an early return".
std::string describeNode(torch::jit::Node *node);

/// The place of the input that the operator's schema calls so, and the input itself; nullopt and
/// null: it has none of this name.
std::optional<size_t> inputIndex(const torch::jit::Node *node, llvm::StringRef name);
torch::jit::Value *inputNamed(torch::jit::Node *node, llvm::StringRef name);

/// Whether the schema of the operator that uses the value says that it writes it.
bool writes(const torch::jit::Use &use);
/// Whether the operator writes the tensors of the list that is this argument, as _foreach_add_
/// does. The list keeps them: append and sort change the list itself.
bool writesElements(const torch::jit::Node *node, size_t argument);
bool writesElements(const torch::jit::Node *node); // of any argument

/// The number that a value is a constant for; nullopt for all other values, and for null.
std::optional<int64_t> constantInt(const torch::jit::Value *value);

/// Whether the operator itself (not its blocks) draws random numbers, as far as constants tell.
Draws drawsOf(torch::jit::Node *node);

/// Whether `holds` is true for any node in the block, including nodes of inner blocks and of forked
/// calls.
bool anyNodeInside(const torch::jit::Block *block,
                   llvm::function_ref<bool(torch::jit::Node *)> holds);

/// The same for all functions of the file that the module was read from, except those that read and
/// write the state of objects.
bool anyNodeInside(const torch::jit::Module &module,
                   llvm::function_ref<bool(torch::jit::Node *)> holds);

/// A node of the block or the module, as of anyNodeInside(), that walks back through a graph:
/// torch.autograd.grad, or backward(). Described as by describeNode(); empty: there is none.
std::string innerGradientIn(const torch::jit::Block *block);
std::string innerGradientIn(const torch::jit::Module &module);

/// An operator of the block or the module whose number of random draws depends on the values of its
/// input (see drawCountFollowsValues). Described as by describeNode(); empty: there is none.
std::string valueDependentDrawIn(const torch::jit::Block *block);
std::string valueDependentDrawIn(const torch::jit::Module &module);

/// An operator of the block or the module that counts or lists the different values of a tensor,
/// such as torch.unique: its result has as many entries as they ask for. Described as by
/// describeNode(); empty: there is none.
std::string listsValuesIn(const torch::jit::Block *block);
std::string listsValuesIn(const torch::jit::Module &module);

/// Whether the node may draw from LibTorch's generator, which all threads share. True for unknown
/// code: an operator of a library, or a method of an object.
bool mayUseGenerator(torch::jit::Node *node);
/// Converts a value to the form that drawsWith takes.
Argument argumentOf(const c10::IValue &value);

} // namespace pipec
