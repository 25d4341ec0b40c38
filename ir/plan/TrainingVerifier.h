// A part of verify(Plan): loss, parameters and stages of a training. Only for ir/plan.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec::planparts {

/// Checks loss, parameters and stages of a training. Needs valid leaves and attributes.
llvm::Error verifyTraining(const Plan &plan);

} // namespace pipec::planparts
