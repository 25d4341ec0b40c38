// How a pipeline or a reference trains. No LibTorch header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipec {

/// How the losses of micro-batches become the loss of a step, and so what their gradients count.
enum class LossReduction {
  Mean, // weighted by samples: the loss of a micro-batch is a mean over its samples
  Sum,  // added: the loss of a micro-batch is a sum over its samples
};

/// What happens if a loss or a gradient is not finite.
enum class OnNan {
  Stop, // the step fails with exit code 11
  Skip, // the weights stay as they are in this step
};

struct TrainingOptions {
  /// A name and settings that differ from PyTorch's defaults: "adamw,lr=1e-3,weight_decay=0.1".
  /// docs/training.md lists them. Empty: gradients only, the weights stay as they are.
  std::string optimizer;
  /// "cosine,warmup=100,steps=1000": see docs/training.md. Empty: constant.
  std::string learningRates;
  /// The gradients are scaled so that their norm is at most this, as torch.nn.utils.clip_grad_norm_
  /// does. 0: no clipping.
  double clipNorm = 0;
  int64_t steps = 0; // of the run, for learning rates that end with it; 0: they must say it
  bool keepGradients = false;      // gradients() has those before clipping
  std::vector<std::string> freeze; // names of parameters that are not trained; may end in *
  LossReduction reduction = LossReduction::Mean;
  OnNan onNan = OnNan::Stop;
  int64_t mostSkipped = 0; // OnNan::Skip: this many steps in a row fail; 0: no limit
  std::string lossOutput;  // of a reference: the path of the loss in the model's result
  /// Of a pipeline, for evaluate(): the directory of an artifact of the same model that was
  /// compiled with --infer. Its stages read the weights of the training; memory holds them once.
  std::string evaluation;
};

/// What one step of a training did.
struct TrainedStep {
  double loss = 0;         // of the whole batch
  double gradientNorm = 0; // of all gradients together, before clipping
  double learningRate = 0; // 0: no optimizer
  bool skipped = false;    // OnNan::Skip: something was not finite
};

} // namespace pipec
