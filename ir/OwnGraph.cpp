#include "ir/OwnGraph.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

Model withOwnGraph(const Model &model) {
  Model copy = model;
  copy.graph = model.graph->copy();
  return copy;
}

} // namespace pipec
