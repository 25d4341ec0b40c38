// The work of an artifact's stages in LibTorch's own calls, without pipec's runtime: what a
// pipeline that loses nothing would do.
#pragma once

#include "ir/artifact/ArtifactReader.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <string>
#include <vector>

namespace pipec::bench {

/// One stage file as torch::jit::load reads it, with its inputs of every micro-batch. The settings
/// of the calling thread count: gradients are on for train() and off for infer().
class BareStage {
public:
  BareStage(const std::string &path, const StagePlan &plan,
            std::vector<std::vector<c10::IValue>> inputs);

  /// F of all micro-batches, by the interpreter. Throws LibTorch's exceptions.
  void infer() const;

  /// F by the interpreter, and whole B by the autograd engine, of all micro-batches; at most
  /// `inFlight` (at least 1) have had their F and not their B. The engine adds the gradients of the
  /// weights, those of an earlier call are dropped first. Throws LibTorch's exceptions.
  void train(size_t inFlight);

private:
  torch::jit::Stack call(const std::vector<c10::IValue> &inputs) const;
  torch::autograd::edge_list forward(size_t microBatch);

  torch::jit::Module module_;
  torch::jit::Code code_;                        // of pipec_forward
  std::vector<c10::IValue> weights_;             // one per use
  std::vector<at::Tensor> trained_;              // those with gradients
  std::vector<bool> isSent_;                     // per input: another stage wants its gradient
  std::vector<std::vector<c10::IValue>> inputs_; // [micro-batch][port]
  torch::autograd::variable_list seeds_;         // of one B
};

/// All stages of an artifact, with the inputs that they have for `batch`, which takes one value per
/// input of the signature. Fails the program for tied weights that are sent, and for a batch that
/// is not cut.
std::vector<BareStage> bareStages(const Artifact &artifact, const std::vector<c10::IValue> &batch,
                                  int64_t microBatches);

} // namespace pipec::bench
