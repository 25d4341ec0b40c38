// A copy of a model that passes can change without changing the original.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// A copy of the model with its own graph; attributes are shared.
Model withOwnGraph(const Model &model);

} // namespace pipec
