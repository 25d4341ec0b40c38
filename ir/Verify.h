// The invariants that every pass may rely on: checks that a model or a staged model is as
// ir/Model.h describes it.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// A model that still has its `self` is checked as the front steps need it, any other as a lowered
/// model. Errors: Unreadable with the first problem, naming the entity and both numbers.
llvm::Error verify(const Model &model);

/// Checks ports, channels, attributes, ties and graphs of all stages. Errors: as above.
llvm::Error verify(const StagedModel &model);

} // namespace pipec
