// The stages of an artifact linked together again: a model, and its canonical lines, which the
// proof that it is the source compares.
#pragma once

#include "ir/Model.h"
#include "ir/artifact/StageFacts.h"
#include "ir/support/StableBytes.h"

#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <vector>

namespace torch::jit {
struct Value;
}

namespace pipec {

/// What the stage files say, read back.
struct Relinked {
  std::vector<std::string> lines; // as canonicalLines has them for the normalised source
  std::map<std::string, std::string> weights; // attributeLine of each by its name; replicas once
  std::map<std::string, std::string> objects; // contentText by state of those that hold objects
  std::string digest;                         // contentDigest of lines and weights
  std::vector<StageFacts> stages;
  Model model; // one flat graph again, with the weights that the files map; a weight that several
               // stages copy once, by its name
  std::vector<torch::jit::Value *> sent; // in that graph, by channel; null: a weight
};

/// A weight whose contentText is known. A stage's tensor with the same bits is not digested again.
struct KnownWeight {
  c10::IValue value;
  std::string content;
};
using KnownWeights = std::map<std::string, KnownWeight>; // by name

/// Links pipec_forward of all stages in order by the plan's channels. `forward` of each stage is
/// checked to be the same program on the stage's own weights. Replicas of a tied weight must have
/// the same content; a transmitted one has the content that its owner sends. What `stable` says was
/// written there from the memory of a known weight is not read once more but for its ends. Errors:
/// BadArtifact naming stage and what disagrees (a port, a weight, a line of `forward`).
llvm::Expected<Relinked> relink(const std::string &directory, const Plan &plan,
                                const KnownWeights &known = {},
                                const StableBytes *stable = nullptr);

} // namespace pipec
