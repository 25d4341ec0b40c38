// Modules that compute as in training: a model saved without eval().
#pragma once

#include "ir/Model.h"

namespace pipec {

/// A sentence naming the modules whose dropout, batch norm and the like run in training mode; empty
/// where there are none. `infer`: the flags of modules were folded to eval mode, so that what is
/// left stands in the file as a constant. Needs the graph in normal form.
std::string noteOnTrainingMode(const Model &model, bool infer);

} // namespace pipec
