// A part of verify(Plan): attributes of stages, and ties. Only for ir/plan.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec::planparts {

/// Checks the attributes of the stages and the stages' effects on them. Needs valid indices of
/// channels in attributes only.
llvm::Error verifyWeights(const Plan &plan);

/// Checks which stages hold and which receive an attribute that several stages use. Needs valid
/// channels.
llvm::Error verifyTies(const Plan &plan);

} // namespace pipec::planparts
