// The memory that weights lie in, and who reads it. Weights in lists count like any others: the
// graphs of scripted recurrent modules read theirs as one list.
#pragma once

#include "compiler/cost/EvaluateGraph.h"

#include <set>

namespace pipec {

struct WeightStorage {
  std::string name;           // the first attribute's in it; in a list with the place: "weights.2"
  int64_t bytes = 0;          // of all tensors in it that operators read; overlaps count once
  bool trained = false;       // one of them requires a gradient
  std::set<uint32_t> readers; // operators
};

/// Those that operators of the top level read, in order of the model's attributes.
std::vector<WeightStorage> weightStorages(const Model &model, const OperatorGraph &graph);

/// Some tensor of the attribute requires a gradient.
bool isTrained(const Attribute &attribute);

/// `value`, the attribute's, with leaves of their own for trained tensors: they collect gradients.
c10::IValue withLeaves(const Attribute &attribute, const c10::IValue &value);

} // namespace pipec
