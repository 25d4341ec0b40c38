// What goes into each stage of a model that is cut: operators, inputs, attributes, and what crosses
// from one to the other. Nothing is built yet.
#pragma once

#include "ir/Model.h"

#include <map>
#include <set>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Without shapes: a port accepts every size that the model accepts.
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
  std::map<torch::jit::Value *, size_t> channelOf; // looked up by pointer only
  std::vector<size_t> leafStage, stateStage;       // that each output leaves from
};

/// Of one lowered model, by its boundaries.
StageDrafts draftStages(const Model &model);

} // namespace pipec
