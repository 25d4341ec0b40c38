// Modules that run in training mode: a model saved without eval().
#pragma once

#include "ir/Model.h"

namespace pipec {

/// A sentence naming the modules whose dropout, batch norm and the like run in training mode; empty
/// if there are none. `infer`: the flags of modules were folded to eval mode, so the remaining ones
/// are constants in the file. Needs the graph in normal form.
std::string noteOnTrainingMode(const Model &model, bool infer);

/// The modules whose batch norms run in training mode, "1, 4"; empty: none. Needs the graph in
/// normal form.
std::string normsInTrainingMode(const Model &model);

} // namespace pipec
