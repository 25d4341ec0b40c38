// Copies of models.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// A copy of the model with its own graph; attributes are shared.
Model withOwnGraph(const Model &model);

} // namespace pipec
