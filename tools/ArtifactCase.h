// A recorded case: inputs, and what the unsplit model made of them, to hold an artifact to later.
//
//   DIR/case.json    what ran: digest of the source, micro-batches, threads, seed, tolerances
//   DIR/inputs.pt    the whole batch, one value per argument
//   DIR/outputs.pt   the merged outputs of the reference
#pragma once

#include "ir/SourceMode.h"
#include "ir/support/UnfinishedOutputs.h"
#include "ir/values/Values.h"

namespace pipec {

/// case.json.
struct ArtifactCase {
  std::string sourceDigest; // of the model that was recorded
  std::string toolVersion, torchVersion;
  int64_t microBatches = 1;
  int threads = 1;
  int64_t seed = 0;
  std::optional<double> rtol, atol;                         // absent: by dtype; both 0: bit for bit
  std::string inputs = "inputs.pt", outputs = "outputs.pt"; // files beside it
};

/// Errors: IO, Unreadable naming the file and what is wrong with it.
llvm::Expected<ArtifactCase> readCase(const std::string &directory);

/// Runs the artifact on the case and compares. Errors: those of Pipeline, of values files and of
/// bindArguments.
llvm::Expected<Comparison> runCase(const std::string &artifact, const std::string &directory,
                                   const ArtifactCase &case_);

/// What a case is recorded from.
struct CaseSource {
  std::string model;                                     // TorchScript file
  SourceMode mode;                                       // as it was compiled
  std::string inputs;                                    // of one micro-batch, as --inputs has them
  std::vector<std::pair<std::string, MergeRule>> merges; // as --merge has them
};

/// A directory that becomes DIR in one step, or never existed.
class CaseWriter {
public:
  /// Errors: Usage when `directory` exists without `force`, or is no case; IO.
  static llvm::Expected<CaseWriter> create(const std::string &directory, bool force);

  /// Runs the unsplit model as `plan` has it, on the example once per micro-batch, and writes what
  /// it made of it. Errors: those of Reference and of values files.
  llvm::Error record(const Plan &plan, const CaseSource &source);
  llvm::Error publish();

private:
  CaseWriter() = default;
  std::string target_;
  UnfinishedDirectory temporary_;
  bool force_ = false;
};

} // namespace pipec
