// A TorchScript graph as text that LibTorch's own parser reads: one canonical form, numbered
// values, no source comments.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/jit_type_base.h>

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
}
namespace torch::jit {
struct Graph;
struct Node;
} // namespace torch::jit

namespace pipec {

/// Prints `graph(...): ... return (...)`, each line after `indent` blanks. Graph inputs have the
/// names of `inputNames`, or their own if `inputNames` is shorter (characters other than letters,
/// digits and _ become _). Every other value has a number in program order, so
/// print(parse(print(g))) == print(g). Constants that LibTorch's parser does not read are written
/// as `prim::Constant[json="..."]`. With `scopes` each node of a module ends in a comment with its
/// module path, `  # in enc.fc1`, which parseGraph reads.
void printGraph(const torch::jit::Graph &graph, llvm::raw_ostream &os, unsigned indent = 0,
                bool scopes = false, const std::vector<std::string> &inputNames = {});

/// Parses the output of printGraph. `firstLine` is the line number of the text's first line in its
/// file. Errors: Unreadable with LibTorch's message and the line; Unsupported for class and
/// NamedTuple types, which text cannot define.
llvm::Expected<std::shared_ptr<torch::jit::Graph>> parseGraph(llvm::StringRef text,
                                                              size_t firstLine = 1);

/// Name and type of each input of a graph, and type of each output. Types are written as in
/// TorchScript source.
struct GraphEnds {
  std::vector<std::pair<std::string, std::string>> inputs;
  std::vector<std::string> outputs;
};
GraphEnds endsOf(const torch::jit::Graph &graph);

/// Parses a type as TorchScript source writes it ("List[Tensor]"). Errors: Unreadable.
llvm::Expected<c10::TypePtr> typeFromText(llvm::StringRef text);

} // namespace pipec
