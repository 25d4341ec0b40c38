// An artifact of three hand-written stages and the unsplit model that it must equal, for tests of
// the runtime that need no compiler.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace pipec {

/// What may be changed about the model below.
struct SmallModel {
  size_t ranks = 3;          // 3, 2 (stages 0 and 1 together) or 1
  bool failInStage1 = false; // raises when an input holds a number above 1000
  std::string startOfStage0; // statements; they see x
  std::string startOfStage1; // they see e, scale and bias
  bool countInPlace = false; // stage 2 adds to its state, and does not replace it
  std::string methodOfStage2 = "pipec_forward";
  void (*editPlan)(Plan &plan) = nullptr;
};

/// The model, as a function of x [batch, 8] and scale (default 2):
///   stage 0: e = x @ w.t(); early = e.sum(1)            -> channel 0 (e, to stage 1), channel 1
///   (e.t(), skips to stage 2), leaf 0 stage 1: h = dropout(relu(e + bias) * scale)        ->
///   channel 2 stage 2: out = dropout(h + skip.t()) @ w, n = steps -> leaves 1, 2; w is tied: it is
///   sent from stage 0
///            `steps` counts the micro-batches in the stage's state
/// Result: {"early": Tensor, "rest": (Tensor, Tensor)}.
Plan smallPlan(const SmallModel &model);

/// Writes the artifact `directory` (which must not exist) / the file `path`.
void writeSmallArtifact(const std::string &directory, const SmallModel &model = {});
void writeSmallModel(const std::string &path);

/// A path in the test's own temporary directory, removed before use.
std::string scratchPath(const std::string &name);

/// Bit for bit, with strides.
bool sameBits(const c10::IValue &a, const c10::IValue &b);

} // namespace pipec
