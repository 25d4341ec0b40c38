// checkpoint.json: what a checkpoint holds, without the numbers. No LibTorch.
#pragma once

#include "ir/plan/Plan.h"

#include <map>
#include <string>
#include <vector>

namespace pipec {

constexpr const char *kCheckpointTextName = "checkpoint.json";

/// A parameter, a buffer or another value that the model writes, with its optimizer's state.
struct CheckpointEntry {
  std::string name; // the model's first
  std::vector<std::string> otherNames;
  AttributeKind kind = AttributeKind::Parameter; // Parameter, Buffer or Value
  /// Whether a step of the unsplit model has given it a gradient; of a stage, always true.
  bool used = true;
  std::string dtype;                  // PyTorch's name; empty: of a Value
  std::vector<int64_t> shape;         // empty, too
  std::vector<std::string> optimizer; // ascending: "exp_avg", "step"

  bool operator==(const CheckpointEntry &) const = default;
};

/// One file: what the ranks' owner of one stage saved.
struct CheckpointFile {
  std::string name; // "stage-0.pt"
  std::vector<CheckpointEntry> entries;

  bool operator==(const CheckpointFile &) const = default;
};

struct CheckpointText {
  static constexpr int64_t kMajor = 1, kMinor = 0;

  int64_t major = kMajor, minor = kMinor;
  std::vector<std::string> requiredFeatures; // none exist yet
  std::string toolVersion, torchVersion;
  int64_t step = 0;          // steps taken
  uint64_t seed = 0;         // random operators draw by (seed, step, micro-batch, ordinal)
  int64_t skippedInARow = 0; // steps that were not finite, up to this one
  /// Options of the training, by their names: "optimizer", "microbatches", ...
  std::map<std::string, std::string> settings;
  /// Data of the program, such as its position in the samples.
  std::map<std::string, std::string> program;
  std::vector<CheckpointFile> files;

  bool operator==(const CheckpointText &) const = default;
};

/// Keys sorted, a final newline: as toJson of a plan.
std::string toJson(const CheckpointText &checkpoint);

/// Errors: BadArtifact with the path of the problem (unknown or missing key, wrong type, a number
/// out of range, a file name with a path, a name twice); Version for another major or an unknown
/// feature. Unknown keys of a newer minor are appended to `warnings`.
llvm::Expected<CheckpointText> checkpointFromJson(llvm::StringRef text,
                                                  std::vector<std::string> &warnings);

} // namespace pipec
