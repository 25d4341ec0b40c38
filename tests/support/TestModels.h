// Models that tests make: graphs from graph text, for tests that look at C++ results rather than at
// text, and saved modules. No LibTorch JIT header, so that tests compile fast.
#pragma once

#include "ir/Model.h"

#include <ATen/core/Tensor.h>

#include <iosfwd>

namespace torch::jit {
struct Value;
}

namespace pipec::test {

/// Values keep the names of the text. A node without results is written without `=`.
/// The last `storages.size()` inputs of the graph are attributes with these storage numbers.
Model modelOf(const std::string &text, const std::vector<int64_t> &storages = {});

/// The value of this name; nullptr when there is none.
torch::jit::Value *valueOf(const Model &model, const std::string &name);
/// LibTorch's lint; throws when the graph is broken.
void lint(const Model &model);
/// The graph as LibTorch prints it, for messages.
std::string textOf(const Model &model);

/// How many nodes of this kind there are, those in blocks included.
size_t countNodes(const Model &model, const char *kind);
/// Of each top-level node of this kind, in order: how many results and operands it has.
std::vector<size_t> resultCounts(const Model &model, const char *kind);
std::vector<size_t> operandCounts(const Model &model, const char *kind);
/// Each top-level node of this kind with the kinds of the nodes that made its operands, `depth`
/// levels deep: "aten::add(aten::neg(aten::relu), prim::Constant)".
std::vector<std::string> expressions(const Model &model, const char *kind, unsigned depth);
/// The graph returns this input as this output.
bool returnsInput(const Model &model, size_t output, size_t input);

/// A TorchScript module.
struct SavedModule {
  std::string name; // of its class
  std::vector<std::pair<std::string, at::Tensor>>
      parameters = {},
      buffers = {};        // "block.weight" is in the submodule block
  std::string source = ""; // of its methods
  std::vector<std::pair<std::string, SavedModule>> modules = {}; // with methods of their own
};
/// The file that torch.jit.save makes of it.
std::string bytesOf(const SavedModule &module);
void saveTo(std::ostream &out, const SavedModule &module);
/// torch.jit.load and torch.jit.save, without a file for the result.
void loadAndSave(const std::string &path);

} // namespace pipec::test
