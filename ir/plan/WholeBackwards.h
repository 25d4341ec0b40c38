// Why the backwards of stages are not split into I and W, as reports say it.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// In TrainingPlan::whyWhole of every stage, if the user wants no backward to be split.
constexpr const char *kWholeAsAsked = "asked by --split-backward off";

/// "stage 1 cannot split its backward: ...", one sentence per stage that cannot; one for all of
/// them if that was asked for. Empty for a plan without a training.
std::vector<std::string> wholeBackwards(const Plan &plan);

} // namespace pipec
