// The program of one rank with everything looked up beforehand: what the interpreter really walks
// over.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Program.h"

namespace pipec {

/// Where an input of a forward comes from: an argument of the model, or a slot. `last`: nothing
/// later reads the slot, so it is emptied.
struct InputSource {
  bool userInput = false;
  size_t index = 0;
  bool last = false;
};

/// Where an output of a forward goes: leaves of the model's result, and slots that later steps of
/// this rank read.
struct OutputTarget {
  std::vector<size_t> leaves;
  std::vector<size_t> slots;
};

/// An op with indices instead of names. `slot`, `lane`, `channel` and `last` are of Send and Take
/// (Post: lane and channel).
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
  std::vector<size_t> stages; // that this rank runs, ascending
};

/// Resolves rank `rank` of a program that check() accepts. Errors: Internal when a step reads what
/// no earlier step brought.
llvm::Expected<RankProgram> resolve(const Program &program, size_t rank, const Plan &plan,
                                    int64_t microBatches);

} // namespace pipec
