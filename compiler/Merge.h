// Merges the stages of an artifact into one ordinary TorchScript model. No LibTorch.
#pragma once

#include "ir/plan/Plan.h"

#include <string>
#include <vector>

namespace pipec {

/// The result of a merge.
struct MergeReport {
  Plan plan;            // of the artifact
  size_t operators = 0; // of the merged method
  size_t weights = 0;   // tensors and other attributes, each once
  int64_t bytes = 0;    // of the file
  std::vector<std::string> warnings;
};

/// Writes the model of the artifact in `directory` to `output`: the compiled method, with its
/// arguments, defaults and result tree; every weight under all its names, ties as one tensor; state
/// as in the source. `checkpoint`: empty, or the weights and state of one of this artifact, or of
/// the newest good one in a directory, in place of the artifact's. The file appears complete or not
/// at all: before it appears, it is read back and compared with the linked stages. The same
/// artifact gives the same bytes. Errors:
///   Usage 2        `output` exists without `force`, is a directory, or would lie in an artifact;
///                  the checkpoint is of another model
///   BadArtifact 5  damaged, or not what its plan says
///   Unsupported 4  an argument that no stage reads has a type that only its class could describe
///   Version 6, IO 8, OutOfMemory 10
///   Internal 70    the written file differs from the stages
llvm::Expected<MergeReport> mergeArtifact(const std::string &directory, const std::string &output,
                                          bool force = false, const std::string &checkpoint = "");

} // namespace pipec
