// The program of one rank with all names resolved: the interpreter's input.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Program.h"

namespace pipec {

/// The source of an input of a forward: an argument of the model, or a slot. `last`: no later step
/// reads the slot, so it is emptied.
struct InputSource {
  bool userInput = false;
  size_t index = 0;
  bool last = false;
};

/// The targets of an output of a forward: leaves of the model's result, and slots that later steps
/// of this rank read.
struct OutputTarget {
  std::vector<size_t> leaves;
  std::vector<size_t> slots;
};

/// An op with indices instead of names. Send and Take use `slot`, `lane`, `channel` and `last`;
/// Post uses lane and channel.
struct Step {
  OpKind kind = OpKind::Forward;
  size_t stage = 0; // Forward: runs it; Send: made the value; Take: reads it first
  int64_t microBatch = 0;
  std::vector<InputSource> inputs;
  std::vector<OutputTarget> outputs;
  size_t slot = 0, lane = 0, channel = 0;
  bool last = false;
};

/// A slot holds the value of one channel of one micro-batch on this rank.
struct RankProgram {
  std::vector<Step> steps;
  size_t slots = 0;
  std::vector<size_t> stages; // the stages of this rank, ascending
};

/// Resolves rank `rank` of a program that check() accepts. Errors: Internal if a step reads a value
/// that no earlier step provides.
llvm::Expected<RankProgram> resolve(const Program &program, size_t rank, const Plan &plan,
                                    int64_t microBatches);

} // namespace pipec
