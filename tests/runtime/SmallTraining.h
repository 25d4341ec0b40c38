// A small model that is compiled and trained, for tests of the runtime.
#pragma once

#include "compiler/planner/RecomputeWish.h"
#include "ir/plan/Plan.h"
#include "runtime/Pipeline.h"

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace pipec {

/// Four stages: one per rank under 1f1b and zb-h1, else two.
struct Training {
  std::string schedule;
  std::vector<std::string> devices;
  Tie::Mode tied = Tie::Mode::Transmit;
  RecomputeChoice recompute = RecomputeChoice::Never;
  std::string optimizer = "adamw,lr=0.01";
  int64_t replicas = 1;     // which share four micro-batches
  bool writesState = true;  // replicas need a model that does not
  bool sharesWeight = true; // w0 is in the first stage and in the last; else the last one has w6
};

std::vector<c10::IValue> trainingBatch();

/// Writes the model and the artifact; returns the artifact's path, and the model's as `model`.
std::string compileTrained(const Training &how, std::string *model = nullptr);
PipelineOptions runTrained(const Training &how);

/// Three steps; the first error. `trained` gets a pair: weights, and the gradients of the last
/// step.
llvm::Error train(const Training &how, c10::IValue *trained = nullptr);

/// The optimizer's state in the newest checkpoint of a directory: by the first name of each
/// parameter a dict with PyTorch's keys, as "exp_avg" and "step". Parameters without one are left
/// out.
ValueTree optimizerStateIn(const std::string &checkpoints);

} // namespace pipec
