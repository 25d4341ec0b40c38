// Links the stages of an artifact together again. The result is a model and its canonical lines;
// the proof compares these with those of the source.
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

/// The content of the stage files, read back.
struct Relinked {
  std::vector<std::string> lines; // in the form of canonicalLines of the normalised source
  std::map<std::string, std::string> weights; // attributeLine of each, by name; replicas once
  std::map<std::string, std::string> objects; // contentText by state of those that hold objects
  std::string digest;                         // contentDigest of lines and weights
  std::vector<StageFacts> stages;
  Model model; // one flat graph again, with the weights that the files map; a weight that several
               // stages copy is there once, by its name
  std::vector<torch::jit::Value *> sent; // in that graph, by channel; null: a weight
};

/// A weight with a known contentText. A stage's tensor with the same bits is not hashed again.
struct KnownWeight {
  c10::IValue value;
  std::string content;
};
using KnownWeights = std::map<std::string, KnownWeight>; // by name

/// Links pipec_forward of all stages, in order, by the plan's channels. The `forward` of each stage
/// must be the same program on the stage's own weights. Replicas of a tied weight must have the
/// same content. A transmitted weight has the content that its owner sends. Of bytes that `stable`
/// records as written from the memory of a known weight, only the ends are read. Errors:
/// BadArtifact naming the stage and what disagrees (a port, a weight, a line of `forward`).
llvm::Expected<Relinked> relink(const std::string &directory, const Plan &plan,
                                const KnownWeights &known = {},
                                const StableBytes *stable = nullptr);

} // namespace pipec
