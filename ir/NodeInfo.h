// What a node says of itself: where it comes from, for people (never part of an artifact), and
// whether it draws random numbers.
#pragma once

#include "ir/RandomOps.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/symbol.h>

#include <string>

namespace torch::jit {
struct Block;
struct Module;
struct Node;
} // namespace torch::jit

namespace pipec {

/// "encoder.layers.3.fc1"; a component called for the k-th time (k > 1) reads "block#2". Empty for
/// nodes of the method itself.
std::string modulePathOf(torch::jit::Node *node);
void setModulePath(torch::jit::Node *node, const std::string &path);

/// "model.py:88", or empty when the file carries no source ranges.
std::string sourceLineOf(torch::jit::Node *node);

/// The attribute of aten::warn that LibTorch numbers anew each time it reads a file: no part of the
/// program.
bool isWarningNumber(c10::Symbol attribute);

/// "aten::add_ at model.py:88 in encoder.layers.3": what messages call a node.
std::string describeNode(torch::jit::Node *node);

/// Whether the operator itself (not its blocks) draws random numbers, as far as constants tell.
Draws drawsOf(torch::jit::Node *node);

/// Whether `holds` of any node in the block, those in inner blocks and in forked calls included.
bool anyNodeInside(const torch::jit::Block *block,
                   llvm::function_ref<bool(torch::jit::Node *)> holds);

/// The same of all functions of the file that the module was read from, but for those that read and
/// write objects.
bool anyNodeInside(const torch::jit::Module &module,
                   llvm::function_ref<bool(torch::jit::Node *)> holds);

/// Whether it may draw from LibTorch's generator, which is one for all threads: also where nothing
/// is known of it, as of an operator that is not LibTorch's own or a method of an object.
bool mayUseGenerator(torch::jit::Node *node);
/// A value as drawsWith takes it.
Argument argumentOf(const c10::IValue &value);

} // namespace pipec
