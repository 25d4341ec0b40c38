// What faults do to the ends of a stage's graph, without LibTorch's headers. Ports are counted as
// the graph counts them. OperatorFaults.cpp has their bodies.
#pragma once

#include "ir/Model.h"

namespace pipec::faults {

/// Graph input of an attribute of a stage.
inline size_t inputOf(const Stage &stage, size_t attribute) {
  return stage.plan.inputs.size() + attribute;
}

/// From the last stage to the first: what is wrong at the end is found only by a proof that looks
/// at everything.
std::vector<torch::jit::Graph *> graphsOf(StagedModel &model);

size_t usesOf(const Stage &stage, size_t input);
bool haveOneType(const Stage &stage, size_t a, size_t b);
/// Each is read where the other was.
void exchangeInputs(Stage &stage, size_t a, size_t b);
/// False when both return one value, which changes nothing, or values of two types.
bool exchangeOutputs(torch::jit::Graph &graph, size_t a, size_t b);
void returnInput(torch::jit::Graph &graph, size_t output, size_t input);
void eraseInput(Stage &stage, size_t input);
void eraseOutput(Stage &stage, size_t output);

} // namespace pipec::faults
