// The memory of weights and its readers. Weights in lists count like any others: graphs of scripted
// recurrent modules read theirs as one list.
#pragma once

#include "compiler/cost/OperatorGraph.h"

#include <set>

namespace pipec {

struct WeightStorage {
  std::string name;           // of its first attribute; in a list with the index: "weights.2"
  int64_t bytes = 0;          // of all its tensors that operators read; overlaps count once
  bool trained = false;       // one of its tensors requires a gradient
  std::set<uint32_t> readers; // operators
};

/// The storages that top-level operators read, in order of the model's attributes.
std::vector<WeightStorage> weightStorages(const Model &model, const OperatorGraph &graph);

/// Whether a tensor of the attribute requires a gradient.
bool isTrained(const Attribute &attribute);

/// The attribute's `value` with trained tensors replaced by new leaves, which collect gradients.
c10::IValue withLeaves(const Attribute &attribute, const c10::IValue &value);

} // namespace pipec
