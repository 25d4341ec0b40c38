// The tensors of one stage as they are saved: memory shared inside the stage stays shared, and no
// memory beyond it is written.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// The value to save for each attribute of the stage, in its order. Tensors of one storage id are
/// rebuilt over one storage that spans exactly their elements; no element is copied. They keep the
/// source's memory alive.
std::vector<c10::IValue> stageWeights(const StagedModel &model, size_t stage);

} // namespace pipec
