// The program of one rank with all names resolved: the interpreter's input.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Program.h"

namespace pipec {

/// The index of no slot.
constexpr size_t kNoSlot = ~size_t(0);

/// Of a forward: the source of an input, an argument of the model or a slot. `last`: no later step
/// reads the slot, so it is emptied. Of a backward: the slot of the input's gradient. It holds what
/// later stages found for the same value, and then the sum with this stage's; kNoSlot: no gradient
/// is wanted.
struct InputSource {
  bool userInput = false;
  size_t index = 0;
  bool last = false;
};

/// Of a forward: the targets of an output, leaves of the model's result, and slots that later steps
/// of this rank read. Of a backward: the slots whose sum, in this order, is the output's gradient.
struct OutputTarget {
  std::vector<size_t> leaves;
  std::vector<size_t> slots;
  bool noGradient = false; // Forward, of a training: no channel of it brings a gradient back
};

/// An op with indices instead of names. Send and Take use `slot`, `lane`, `channel`, `message` and
/// `last`, and `from`; Post uses lane and message; collectives use `group`, Reduce also `stage`,
/// TieReduce `tie`. Weights have no slot: they are the stages' own.
struct Step {
  OpKind kind = OpKind::Forward;
  Payload payload = Payload::Activation;
  size_t stage = 0; // Forward: runs it; Send: made the value; Take: reads it first. On this rank.
  int64_t microBatch = 0;
  std::vector<InputSource> inputs;
  std::vector<OutputTarget> outputs;
  size_t slot = 0, lane = 0, channel = 0, group = 0, tie = 0;
  size_t from = 0;    // the rank that sends it
  size_t message = 0; // of its lane: a number per channel and, of gradients, stage that sends it
  bool last = false;
  bool recompute = false; // Forward: before its backward
};

/// A slot holds the value of one channel of one micro-batch on this rank, or its gradient.
struct RankProgram {
  std::vector<Step> steps;
  size_t slots = 0;
  std::vector<size_t> stages; // the stages of this rank, ascending
};

/// Consecutive micro-batches: with replicas each has its own.
struct MicroBatchRange {
  int64_t first = 0;
  int64_t number = 0;
};

/// Resolves rank `rank` of a program that check() accepts, for inference or training. Errors:
/// Internal if a step reads a value that no earlier step provides.
llvm::Expected<RankProgram> resolve(const Program &program, size_t rank, const Plan &plan,
                                    int64_t microBatches);

} // namespace pipec
