// Where a node comes from, for people: its module path and the author's source line. Never part of
// an artifact.
#pragma once

#include <ATen/core/symbol.h>

#include <string>

namespace torch::jit {
struct Node;
}

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

} // namespace pipec
