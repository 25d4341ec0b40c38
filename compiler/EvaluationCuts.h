// Where a model in eval mode is cut so that its stages fit those of a training.
#pragma once

#include "compiler/Pipelines.h"
#include "ir/Model.h"

namespace pipec {

struct EvaluationCuts {
  PlannedCuts cuts;
  std::vector<size_t> stageOf; // per evaluating stage: the training's stage that it begins with
};

/// Cuts `evaluation` before the operators with which the stages of `training` begin. An operator
/// that eval mode does not have, such as a dropout, is replaced by the next one of its stage that
/// it has, and a place that is not legal by the nearest one that is. Stages that then begin at one
/// place become one stage.
EvaluationCuts cutsLike(const StagedModel &training, const Model &evaluation);

} // namespace pipec
