// The graph inputs of a stage: its ports, then its attributes.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// What a plan says of an attribute of the model that a stage holds; its uses are not counted yet.
StageAttribute stageAttribute(const Attribute &attribute);

/// Adds an attribute that no node reads to the stage's plan and graph, before its constants: those
/// stay last. Returns its index.
size_t insertAttribute(Stage &stage, const StageAttribute &entry);

} // namespace pipec
