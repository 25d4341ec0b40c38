// Results of expensive operators, for further runs of nearly the same graph on the same inputs.
#pragma once

#include <ATen/core/stack.h>

#include <optional>
#include <vector>

namespace torch::jit {
struct Node;
}

namespace pipec {

/// An operator that gets arguments with the same bits gives the same bits again. Holds up to 256
/// MiB of activations. One thread at a time.
class OperatorMemo {
public:
  /// Whether the node is one operator whose results depend on its inputs alone.
  static bool suits(torch::jit::Node *node);

  /// The results of an operator that ran on the same inputs. Nothing if it is not known, or if what
  /// it read or gave was written since.
  std::optional<torch::jit::Stack> recall(torch::jit::Node *node,
                                          const std::vector<c10::IValue> &inputs) const;

  /// Keeps the results of a run that took `ns`, if that is long. The node writes nothing.
  void keep(torch::jit::Node *node, std::vector<c10::IValue> inputs,
            const torch::jit::Stack &results, int64_t ns);

private:
  struct Entry {
    std::string op; // its schema
    std::vector<c10::IValue> inputs, results;
    std::vector<uint32_t> versions; // of their tensors
  };
  std::vector<Entry> entries_;
  int64_t bytes_ = 0;
};

} // namespace pipec
