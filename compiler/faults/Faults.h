// The planted faults, by what they break. Each changes the first place that it finds and returns
// whether there was one.
#pragma once

#include "ir/Model.h"

namespace pipec::faults {

// Operators and constants of a stage's graph.
bool swappedOperands(StagedModel &model);
bool wrongOperator(StagedModel &model);
bool wrongOverload(StagedModel &model);
bool wrongIntConstant(StagedModel &model);
bool wrongFloatConstant(StagedModel &model);
bool wrongBoolConstant(StagedModel &model);
bool wrongAlpha(StagedModel &model);
bool droppedNode(StagedModel &model);
bool extraNode(StagedModel &model);
bool duplicatedRandom(StagedModel &model);
bool reorderedNodes(StagedModel &model);
bool lostWrite(StagedModel &model);
bool writeMadePure(StagedModel &model);
bool droppedRaise(StagedModel &model);
bool droppedBranch(StagedModel &model);
bool lostIterations(StagedModel &model);

// Ports, channels and state.
bool swappedPorts(StagedModel &model);
bool swappedOutputs(StagedModel &model);
bool wrongChannel(StagedModel &model);
bool wrongUserInput(StagedModel &model);
bool swappedLeaves(StagedModel &model);
bool lostState(StagedModel &model);
bool droppedState(StagedModel &model);
bool wrongState(StagedModel &model);

// Weights, their names, memory and owners.
bool wrongWeight(StagedModel &model);
bool wrongUnreadWeight(StagedModel &model);
bool wrongConstantTensor(StagedModel &model);
bool transposedWeight(StagedModel &model);
bool wrongDtype(StagedModel &model);
bool wrongRequiresGrad(StagedModel &model);
bool swappedWeights(StagedModel &model);
bool wrongBias(StagedModel &model);
bool lostWeight(StagedModel &model);
bool lostName(StagedModel &model);
bool wrongKind(StagedModel &model);
bool lostOverlap(StagedModel &model);
bool wrongTie(StagedModel &model);
bool wrongWeightChannel(StagedModel &model);

// What the plan says besides the graphs.
bool wrongRandomKey(StagedModel &model);
bool lostWrittenMark(StagedModel &model);
bool lostRaiseMark(StagedModel &model);
bool wrongOutputTree(StagedModel &model);
bool wrongMerge(StagedModel &model);
bool wrongBatchDim(StagedModel &model);
bool wrongDefault(StagedModel &model);
bool unrecordedRecompute(StagedModel &model);
bool claimedRecompute(StagedModel &model);
bool falseFact(StagedModel &model);
bool lossyPlan(StagedModel &model);

} // namespace pipec::faults
