// State of a model that no gradient reaches.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Whether the node reads an attribute of the model that gets no graph: a buffer, a frozen weight,
/// a list of these, or None. The model still has `self`.
bool readsBareState(torch::jit::Node *node, const Model &model);

} // namespace pipec
