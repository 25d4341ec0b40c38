// The model between the passes: one flat graph, a table of attributes, a signature.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

namespace torch::jit {
struct Graph;
}

namespace pipec {

/// Anything the module held that the graph reads as an input: a parameter, buffer, tensor constant,
/// written value or object.
struct Attribute {
  std::string name;                    // the path by which the graph reads it; unique
  std::vector<std::string> otherNames; // paths of the very same tensor that the graph does not read
  /// Those of its names that are neither parameters nor buffers of the model, as `self.mask =
  /// torch.tril(...)` makes them; no state dict has them.
  std::vector<std::string> plainNames;
  AttributeKind kind = AttributeKind::Parameter;
  int64_t storage = -1; // tensors whose memory overlaps have the same number, in order of first
                        // encounter; -1: no tensor
  bool requiresGrad = false;
  bool written = false; // by an in-place operator or an assignment in the method
  c10::IValue value;    // tensors are views of the mapped source file: valid while the model lives

  std::vector<std::string> allNames() const {
    std::vector<std::string> names{name};
    names.insert(names.end(), otherNames.begin(), otherNames.end());
    return names;
  }
};

/// Graph inputs: signature.inputs.size() arguments of the method, then one input per attribute in
/// order (an unread attribute's input has no uses). Graph outputs: one per output leaf, then one
/// per entry of stateOutputs. No prim::GetAttr, SetAttr, CallMethod or CallFunction is left once
/// lower-attributes has run. Before that (import to inline) the graph's first input is `self` and
/// attributes are empty.
struct Model {
  std::shared_ptr<torch::jit::Graph> graph;
  std::vector<Attribute> attributes;
  std::vector<size_t> stateOutputs; // attribute index of each state output
  Signature signature;
  std::vector<Obligation> obligations;
  std::string sourceDigest;
  Mode mode = Mode::Infer;
  c10::IValue self; // the module object, from import to lower-attributes; None afterwards

  size_t argumentCount() const { return signature.inputs.size(); }
};

/// One stage of a staged model: a graph with flat ports.
/// Graph inputs: plan.inputs, then one input per plan.attributes (unread ones included).
/// Graph outputs: plan.outputs.
struct Stage {
  StagePlan plan;
  std::shared_ptr<torch::jit::Graph> graph;
};

/// A model after insert-transfers: one graph per stage. Attributes are shared with the model
/// they came from.
struct StagedModel {
  std::vector<Stage> stages;
  std::vector<Channel> channels;
  std::vector<Tie> ties;
  std::vector<Attribute> attributes;
  Signature signature;
  std::vector<Obligation> obligations;
  std::string sourceDigest;
  Mode mode = Mode::Infer;

  /// The plan without tool versions and schedule, which the emitter adds.
  Plan plan() const;
};

} // namespace pipec
