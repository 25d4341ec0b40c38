// The content of each stage of a model with cuts: operators, inputs, attributes, and the values
// that cross between stages. Nothing is built yet.
#pragma once

#include "ir/Model.h"
#include "ir/NodeCost.h"

#include <map>
#include <set>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// The type without shapes: a port accepts every size that the model accepts.
c10::TypePtr portType(torch::jit::Value *value);

/// One stage while it is built.
struct StageDraft {
  std::vector<torch::jit::Node *> operators;
  int64_t flops = 0;
  std::set<size_t> userInputs;               // of the signature
  std::set<size_t> attributes;               // of the model
  std::vector<torch::jit::Value *> incoming; // in order of definition
  std::vector<torch::jit::Value *>
      outputs; // in order of definition, then outputs that no operator of the stage makes
};

struct StageDrafts {
  std::vector<StageDraft> stages;
  std::vector<Channel> channels;
  std::map<torch::jit::Value *, size_t> channelOf; // look-ups by pointer only
  std::vector<size_t> leafStage, stateStage;       // the stage that each output leaves from
};

/// Drafts the stages of a lowered model between its boundaries. `costs`: of its operators, or none.
StageDrafts draftStages(const Model &model, const std::vector<NodeCost> &costs);

} // namespace pipec
