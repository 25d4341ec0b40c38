// The stages of an artifact linked together again, as canonical lines: the proof that they are the
// source compares these.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <vector>

namespace pipec {

/// What a stage file shows besides its program.
struct StageFacts {
  std::vector<int64_t> storages; // per attribute of the plan, equal where memory is shared in the
                                 // file; -1: no tensor, or sent by another stage
  int64_t randomOps = 0;         // operators that draw random numbers, those in blocks included
  bool prints = false, raises = false;
  std::map<std::string, int64_t> wholeNumberOps; // of pipec_forward, by kind: those that may be
                                                 // repeated in several stages
};

/// What the stage files say, read back.
struct Relinked {
  std::vector<std::string> lines;          // as canonicalLines has them for the normalised source
  std::vector<std::string> attributeLines; // attributeLine of every weight; replicas once
  std::string digest;                      // contentDigest of both
  std::vector<StageFacts> stages;
};

/// A weight whose contentText is known. A stage's tensor with the same bits is not digested again.
struct KnownWeight {
  c10::IValue value;
  std::string content;
};
using KnownWeights = std::map<std::string, KnownWeight>; // by name

/// Links pipec_forward of all stages in order by the plan's channels. `forward` of each stage is
/// checked to be the same program on the stage's own weights. Replicas of a tied weight must have
/// the same content; a transmitted one has the content that its owner sends. Errors: BadArtifact
/// naming stage and what disagrees (a port, a weight, a line of `forward`).
llvm::Expected<Relinked> relink(const std::string &directory, const Plan &plan,
                                const KnownWeights &known = {});

/// The first line that differs, in words; empty when equal. `expected` is the source.
std::string firstDifference(const std::vector<std::string> &expected,
                            const std::vector<std::string> &actual);

} // namespace pipec
