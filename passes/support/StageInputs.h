// The graph inputs of a stage: its ports, then its attributes.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// The plan's entry for an attribute of the model that a stage holds. Its uses are not counted yet.
StageAttribute stageAttribute(const Attribute &attribute);

/// Adds an attribute that no node reads to the stage's plan and graph, before its constants, which
/// stay last. Returns its index.
size_t insertAttribute(Stage &stage, const StageAttribute &entry);

} // namespace pipec
