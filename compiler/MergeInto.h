// Puts weights back into the author's own file. No LibTorch.
#pragma once

#include "ir/support/Failure.h"

#include <string>
#include <vector>

namespace pipec {

struct MergeIntoReport {
  size_t tensors = 0;              // that were replaced; one with several names counts once
  std::vector<std::string> kept;   // parameters and buffers of the file that are as they were
  std::vector<std::string> ofLoss; // weights of a joined loss, which the file has no place for
  /// What a training changes and a state file does not hold: it is as in the author's file.
  std::vector<std::string> unsaved;
  int64_t bytes = 0; // of the new file
  std::vector<std::string> warnings;
};

/// Writes `model`, the author's file, to `output` with other weights: those of `state`, a dict by
/// name as pipe-run --train --output writes it, or with an empty `state` those of the artifact in
/// `directory`. With both, the dict must have all weights of the artifact. Methods, training flags,
/// names and all else are the author's. Weights of a loss that --loss joined are left out. The file
/// appears complete or not at all. Errors:
///   Usage 2        `output` exists without `force`, is a directory, or would lie in an artifact; a
///                  tensor of another shape or dtype, or with a name that the model does not have;
///                  different values for two names of one tensor
///   Unreadable 3   `model` is no TorchScript, `state` no dict of tensors
///   BadArtifact 5, Version 6, IO 8
llvm::Expected<MergeIntoReport> mergeInto(const std::string &directory, const std::string &state,
                                          const std::string &model, const std::string &output,
                                          bool force = false);

/// The same with the weights and the state of a checkpoint: one, or the newest good one of a
/// directory, which the report's warnings say. Errors: those of mergeInto; BadArtifact for a
/// damaged checkpoint. directory: an artifact, all of whose weights the checkpoint must have;
/// empty: none.
llvm::Expected<MergeIntoReport> mergeCheckpointInto(const std::string &directory,
                                                    const std::string &path,
                                                    const std::string &model,
                                                    const std::string &output, bool force = false);

} // namespace pipec
