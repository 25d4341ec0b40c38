// Checkpoints of a training. No LibTorch header.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pipec {

struct CheckpointOptions {
  int64_t keep = 0; // after it is written, only this many of the newest stay; 0: all
  /// Texts of the program, such as its position in the data: a resume returns them.
  std::map<std::string, std::string> program;
};

/// The checkpoint that a resume found.
struct ResumedTraining {
  std::string path;  // of the checkpoint
  int64_t step = 0;  // steps taken: the next one has this number, from 0
  uint64_t seed = 0; // of random operators; it replaces that of the options
  std::map<std::string, std::string> program; // CheckpointOptions::program
  /// For the user: options that are not those of the checkpoint and change numbers.
  std::vector<std::string> differences;
  std::vector<std::string> warnings;   // damaged checkpoints that were passed over, other versions
  std::vector<std::string> passedOver; // their paths
};

} // namespace pipec
