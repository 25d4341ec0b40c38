// A recorded case: inputs, and the unsplit model's results for them, for later comparison with an
// artifact.
//
//   DIR/case.json    what ran: digest of the source, micro-batches, threads, seed, tolerances
//   DIR/inputs.pt    the whole batch, one value per argument
//   DIR/outputs.pt   the merged outputs of the reference
#pragma once

#include "ir/SourceMode.h"
#include "ir/plan/Plan.h"
#include "ir/support/UnfinishedOutputs.h"
#include "ir/values/CompareValues.h"

namespace pipec {

/// The content of case.json.
struct ArtifactCase {
  std::string sourceDigest; // of the recorded model
  std::string toolVersion, torchVersion;
  int64_t microBatches = 1;
  int threads = 1;
  int64_t seed = 0;
  std::optional<double> rtol, atol;                         // absent: by dtype; both 0: bit for bit
  std::string inputs = "inputs.pt", outputs = "outputs.pt"; // files beside it
};

/// Errors: IO, Unreadable naming the file and the problem.
llvm::Expected<ArtifactCase> readCase(const std::string &directory);

/// Runs the artifact on the case and compares the results. Errors: those of Pipeline, of values
/// files and of bindArguments.
llvm::Expected<Comparison> runCase(const std::string &artifact, const std::string &directory,
                                   const ArtifactCase &case_);

/// The source of a recorded case.
struct CaseSource {
  std::string model;                                     // TorchScript file
  SourceMode mode;                                       // as it was compiled
  std::string inputs;                                    // of one micro-batch, in the form of
                                                         // --inputs
  std::vector<std::pair<std::string, MergeRule>> merges; // in the form of --merge
};

/// A directory that becomes DIR in one step, or never exists.
class CaseWriter {
public:
  /// Errors: Usage if `directory` exists without `force`, or is no case; IO.
  static llvm::Expected<CaseWriter> create(const std::string &directory, bool force);

  /// Runs the unsplit model with the settings of `plan`, on the example once per micro-batch, and
  /// writes its results. Errors: those of Reference and of values files.
  llvm::Error record(const Plan &plan, const CaseSource &source);
  llvm::Error publish();

private:
  CaseWriter() = default;
  std::string target_;
  UnfinishedDirectory temporary_;
  bool force_ = false;
};

} // namespace pipec
