// The stages of an artifact as one ordinary TorchScript model again. No LibTorch.
#pragma once

#include "ir/plan/Plan.h"

#include <string>
#include <vector>

namespace pipec {

/// What a merge made.
struct MergeReport {
  Plan plan;            // of the artifact
  size_t operators = 0; // of the merged method
  size_t weights = 0;   // tensors and other attributes, each once
  int64_t bytes = 0;    // of the file
  std::vector<std::string> warnings;
};

/// Writes the model of the artifact in `directory` to `output`: the method that was compiled, with
/// its arguments, defaults and result tree; every weight under all its names, ties as one tensor;
/// state kept as in the source. The file is read back and compared with the linked stages before it
/// appears, complete or not at all. The same artifact gives the same bytes. Errors:
///   Usage 2        `output` exists without `force`, is a directory, or would lie in an artifact
///   BadArtifact 5  damaged, or not what its plan says
///   Unsupported 4  an argument's type that only its class could describe, and no stage reads it
///   Version 6, IO 8, OutOfMemory 10
///   Internal 70    what was written is not what the stages are
llvm::Expected<MergeReport> mergeArtifact(const std::string &directory, const std::string &output,
                                          bool force = false);

} // namespace pipec
