// Faults in the model between two passes, besides its graph: results, state and attributes.
#include "tests/support/faults/Faults.h"
#include "tests/support/faults/GraphEdits.h"

#include <ATen/core/Tensor.h>

namespace pipec::faults {

bool swappedResults(Model &model) {
  for (size_t a = 0; a < model.signature.leaves.size(); ++a)
    for (size_t b = a + 1; b < model.signature.leaves.size(); ++b)
      if (exchangeOutputs(*model.graph, a, b))
        return true;
  return false;
}

bool keptState(Model &model) {
  if (model.stateOutputs.empty())
    return false;
  returnInput(*model.graph, model.signature.leaves.size(),
              model.argumentCount() + model.stateOutputs[0]);
  return true;
}

bool swappedAttributes(Model &model) {
  for (Attribute &a : model.attributes)
    for (Attribute &b : model.attributes)
      if (a.value.isTensor() && b.value.isTensor() && a.storage != b.storage &&
          a.value.toTensor().sizes() == b.value.toTensor().sizes()) {
        std::swap(a.value, b.value);
        std::swap(a.storage, b.storage);
        return true;
      }
  return false;
}

} // namespace pipec::faults
