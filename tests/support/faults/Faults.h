// The planted faults, by what they break. Each changes the first place that it finds and returns
// whether there was one.
#pragma once

#include "ir/Model.h"

namespace pipec::faults {

using Graphs = llvm::ArrayRef<torch::jit::Graph *>;

// Operators and constants of a graph: a stage's, or the model's between two passes.
bool swappedOperands(Graphs graphs);
bool wrongOperator(Graphs graphs);
bool wrongOverload(Graphs graphs);
bool wrongIntConstant(Graphs graphs);
bool wrongFloatConstant(Graphs graphs);
bool wrongBoolConstant(Graphs graphs);
bool wrongAlpha(Graphs graphs);
bool droppedNode(Graphs graphs);
bool extraNode(Graphs graphs);
bool duplicatedRandom(Graphs graphs);
bool reorderedNodes(Graphs graphs);
bool lostWrite(Graphs graphs);
bool writeMadePure(Graphs graphs);
bool droppedRaise(Graphs graphs);
bool droppedBranch(Graphs graphs);
bool lostIterations(Graphs graphs);
bool wrongValue(Graphs graphs);
bool wrongNumber(Graphs graphs);
bool swappedElements(Graphs graphs);

// The model between two passes.
bool wrongModule(Model &model);
bool lostBoundary(Model &model);
bool tornWrite(Model &model);
bool swappedResults(Model &model);
bool keptState(Model &model);
bool swappedAttributes(Model &model);

// The backward: forwards are as they were.
bool lostGradient(StagedModel &model);
bool doubledGradient(StagedModel &model);

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
bool swappedObjects(StagedModel &model);
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
