// Memory that the tapes of one stage use one after the other.
#pragma once

#include "ir/autograd/GradLeaf.h"
#include "ir/autograd/GraphWalk.h"
#include "ir/autograd/SplitWalk.h"

#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

namespace pipec {

/// What one tape notes of its graph.
struct TapeLists {
  std::vector<GradLeaf> leaves;    // of the tensors of all input ports, one port after the other
  std::vector<size_t> inputs;      // tensors per input port
  torch::autograd::edge_list made; // of the tensors of all output ports
  std::vector<size_t> outputs;     // tensors per output port
  SplitWalk split;
  bool hasSplit = false; // split has begun
};

/// A tape takes its lists and nodes from here and gives them back when it ends, so after the first
/// micro-batches none allocates. What was given back holds no tensor and no graph. One thread at a
/// time.
class TapeMemory {
public:
  TapeLists *takeLists();
  void giveBack(TapeLists *lists);

  /// A list with `size` elements, which are empty.
  std::vector<ValueGradients> takeGradients(size_t size);
  void giveBack(std::vector<ValueGradients> gradients);

  // For one call of a tape at a time, which leaves them empty.
  LeafNodes nodes;
  TensorDoor door;
  std::vector<c10::IValue> uses;
  GraphWalk walk, walkToWeights; // each finds the memory that graphs of its size need
  SplitWalk::Search search;

private:
  size_t tapes_ = 0; // lists that were made
  std::vector<std::unique_ptr<TapeLists>> lists_;
  std::vector<std::vector<ValueGradients>> gradients_;
};

} // namespace pipec
