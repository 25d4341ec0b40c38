// How a pipeline or a reference trains. No LibTorch header.
#pragma once

#include "runtime/ParameterOptimizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// How the losses of micro-batches become the loss of a step, and so what their gradients count.
enum class LossReduction {
  Mean, // weighted by samples: the loss of a micro-batch is a mean over its samples
  Sum,  // added: the loss of a micro-batch is a sum over its samples
};

/// The reaction to a loss or a gradient that is not finite.
enum class OnNan {
  Stop, // the step fails with exit code 11
  Skip, // the weights stay as they are in this step
};

/// When batch norms update their running statistics. They normalise each micro-batch by its own
/// statistics either way.
enum class BatchNorm {
  PerMicroBatch, // in each micro-batch, in order, as the unsplit model does
  Deferred,      // once per step, from all its micro-batches together
};

/// The precision in which operators compute. Weights, gradients and optimizer are float32 either
/// way.
enum class Precision {
  Full, // the model's own dtypes
  Bf16, // bfloat16 where LibTorch's autocast of the device has it
};

struct TrainingOptions {
  /// A name and settings that differ from PyTorch's defaults: "adamw,lr=1e-3,weight_decay=0.1".
  /// docs/training.md lists them. Empty: gradients only, the weights stay as they are.
  std::string optimizer;
  /// Makes optimizers of the user's own in place of `optimizer`, one per parameter. Null: none.
  OptimizerFactory makeOptimizer;
  /// Parameters whose settings differ: "*.bias,weight_decay=0" is a pattern of names, in which *
  /// stands for any characters, and what differs from `optimizer`. A parameter belongs to the first
  /// group that matches it. A learning rate follows `learningRates`, too.
  std::vector<std::string> groups;
  /// "cosine,warmup=100,steps=1000": see docs/training.md. Empty: constant.
  std::string learningRates;
  /// The gradients are scaled so that their norm is at most this, as torch.nn.utils.clip_grad_norm_
  /// does. 0: no clipping.
  double clipNorm = 0;
  int64_t steps = 0; // of the run, for learning rates that end with it; 0: they must say it
  bool keepGradients = false; // gradients() has those before clipping
  std::vector<std::string>
      freeze; // names of parameters that are not trained; * stands for any characters
  /// Absent: Mean. A loss that is a pair (sum, count) is weighted by its counts and takes none.
  std::optional<LossReduction> reduction;
  Precision precision = Precision::Full;
  BatchNorm batchNorm = BatchNorm::PerMicroBatch;
  OnNan onNan = OnNan::Stop;
  /// Of a pipeline: before the first step, its first micro-batch shows that I and W give the
  /// gradients of B in each stage. See checkSplitBackwards().
  bool verifySplit = false;
  int64_t mostSkipped = 0; // OnNan::Skip: this many steps in a row fail; 0: no limit
  std::string lossOutput; // of a reference: the path of the loss, or of sum and count with a comma,
                          // in the model's result; empty: the only one, or a pair
  /// Of a pipeline, for evaluate(): the directory of the trained artifact itself, if it was
  /// compiled with --evaluation, or of another one of the same model that was compiled with
  /// --infer. Its stages read the weights of the training; memory holds them once.
  std::string evaluation;

  /// Whether weights change.
  bool updates() const { return !optimizer.empty() || makeOptimizer; }
};

/// The results of one training step.
struct TrainedStep {
  double loss = 0;         // of the whole batch
  double gradientNorm = 0; // of all gradients together, before clipping
  double learningRate = 0; // 0: no optimizer
  bool skipped = false;    // OnNan::Skip: something was not finite
};

} // namespace pipec
