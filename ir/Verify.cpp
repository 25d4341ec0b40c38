#include "ir/Verify.h"

#include "ir/GraphVerify.h"
#include "ir/plan/OutputPath.h"
#include "ir/support/Try.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace pipec {
namespace {

/// An Unreadable error: the form of a verifier's report.
template <typename... Args>
llvm::Error invalid(fmt::format_string<Args...> format, Args &&...args) {
  return makeError(ExitCode::Unreadable, fmt::format(format, std::forward<Args>(args)...));
}

llvm::Error verifyTree(const OutputTree &tree, const std::string &path, size_t &next) {
  if (tree.kind == OutputTree::Kind::Leaf) {
    if (tree.leaf != next)
      return invalid("outputs: output {}: expected number {}, got {}", leafPath(path), next,
                     tree.leaf);
    ++next;
    return llvm::Error::success();
  }
  if (tree.kind == OutputTree::Kind::Dict && tree.keys.size() != tree.children.size())
    return invalid("outputs: expected {} keys of a dict, got {}", tree.children.size(),
                   tree.keys.size());
  for (size_t i = 0; i < tree.children.size(); ++i)
    TRY(verifyTree(tree.children[i], childPath(path, tree, i), next));
  return llvm::Error::success();
}

/// Names are unique, other names included. Storage numbers are dense, in order of first encounter.
llvm::Error verifyAttributes(const std::vector<Attribute> &attributes) {
  llvm::StringSet<> names;
  int64_t next = 0;
  for (const Attribute &attribute : attributes) {
    if (!names.insert(attribute.name).second)
      return invalid("attribute {}: this name appears twice", attribute.name);
    for (const std::string &other : attribute.otherNames)
      if (!names.insert(other).second)
        return invalid("attribute {}: its other name {} appears twice", attribute.name, other);
    const bool isTensor = attribute.value.isTensor() && attribute.value.toTensor().defined();
    if (!isTensor && attribute.storage != -1)
      return invalid("attribute {}: expected storage -1 for a value that is not a tensor, got {}",
                     attribute.name, attribute.storage);
    if (isTensor && (attribute.storage < 0 || attribute.storage > next))
      return invalid("attribute {}: storages are numbered in order: expected at most {}, got {}",
                     attribute.name, next, attribute.storage);
    next += isTensor && attribute.storage == next ? 1 : 0;
  }
  return llvm::Error::success();
}

/// Leaves of the tree are 0, 1, 2, ... in depth-first order, as many as listed. Dicts have a key
/// per child.
llvm::Error verifySignature(const Signature &signature) {
  size_t leaves = 0;
  TRY(verifyTree(signature.outputs, "", leaves));
  if (leaves != signature.leaves.size())
    return invalid("outputs: expected {} in the tree, got {}", signature.leaves.size(), leaves);
  llvm::StringSet<> names;
  for (const InputSpec &input : signature.inputs)
    if (!names.insert(input.name).second)
      return invalid("input {}: this name appears twice", input.name);
  return llvm::Error::success();
}

/// Before lower-attributes the graph is still a method: `self`, then the arguments.
llvm::Error verifyFront(const Model &model) {
  const GraphFace face = faceOf(*model.graph);
  if (face.inputUses.size() != model.signature.inputs.size() + 1)
    return invalid("graph: expected self and {} arguments, got {} inputs",
                   model.signature.inputs.size(), face.inputUses.size());
  if (!face.firstInputIsModule)
    return invalid("graph: expected the module as first input, got {}", face.firstInputType);
  if (!model.attributes.empty())
    return invalid("expected no attributes before lower-attributes, got {}",
                   model.attributes.size());
  return verifyGraph(*model.graph, /*lowered=*/false);
}

/// Matches the ports of one stage with the channels, leaves and attributes of the whole.
class StageVerifier {
public:
  StageVerifier(const StagedModel &model, const llvm::StringSet<> &names, size_t index)
      : model_(model), names_(names), stage_(model.stages[index]), index_(index) {}

  llvm::Error run(std::vector<size_t> &leafCounts);

private:
  llvm::Error inputs();
  llvm::Error attributes();
  llvm::Error outputs(std::vector<size_t> &leafCounts);

  const StagedModel &model_;
  const llvm::StringSet<> &names_; // of the model's attributes
  const Stage &stage_;
  const size_t index_;
  GraphFace face_;
};

llvm::Error StageVerifier::run(std::vector<size_t> &leafCounts) {
  const StagePlan &plan = stage_.plan;
  if (!stage_.graph)
    return invalid("stage {}: it has no graph", index_);
  face_ = faceOf(*stage_.graph);
  const size_t ports = plan.inputs.size() + plan.attributes.size();
  if (face_.inputUses.size() != ports)
    return invalid("stage {}: expected {} graph inputs ({} ports, {} attributes), got {}", index_,
                   ports, plan.inputs.size(), plan.attributes.size(), face_.inputUses.size());
  if (face_.outputs != plan.outputs.size())
    return invalid("stage {}: expected {} graph outputs, got {}", index_, plan.outputs.size(),
                   face_.outputs);
  if (llvm::Error error = verifyGraph(*stage_.graph, /*lowered=*/true))
    return withContext(std::move(error), fmt::format("stage {}", index_));
  TRY(inputs());
  TRY(attributes());
  return outputs(leafCounts);
}

llvm::Error StageVerifier::inputs() {
  for (size_t i = 0; i < stage_.plan.inputs.size(); ++i) {
    const StageInput &input = stage_.plan.inputs[i];
    const bool user = input.kind == StageInput::Kind::UserInput;
    const size_t limit = user ? model_.signature.inputs.size() : model_.channels.size();
    if (input.index >= limit)
      return invalid("stage {}: input {}: expected {} below {}, got {}", index_, input.name,
                     user ? "a user input" : "a channel", limit, input.index);
    const std::string &type =
        user ? model_.signature.inputs[input.index].type : model_.channels[input.index].type;
    if (input.type != type)
      return invalid("stage {}: input {}: expected type {}, got {}", index_, input.name, type,
                     input.type);
    if (!user && !llvm::is_contained(model_.channels[input.index].to, PortRef{index_, i}))
      return invalid("stage {}: input {}: channel {} does not lead to it", index_, input.name,
                     model_.channels[input.index].name);
  }
  return llvm::Error::success();
}

llvm::Error StageVerifier::attributes() {
  const StagePlan &plan = stage_.plan;
  for (size_t i = 0; i < plan.attributes.size(); ++i) {
    const StageAttribute &attribute = plan.attributes[i];
    if (!names_.contains(attribute.name))
      return invalid("stage {}: uses {}: the model has no such attribute", index_, attribute.name);
    const size_t reads = face_.inputUses[plan.inputs.size() + i];
    const size_t least = reads == 0 ? 0 : 1, most = std::max<size_t>(reads, 1);
    if (attribute.uses < least || attribute.uses > most)
      return invalid("stage {}: uses {}: the graph reads it {} times, got uses={}", index_,
                     attribute.name, reads, attribute.uses);
    if (!attribute.channel)
      continue;
    if (*attribute.channel >= model_.channels.size() ||
        model_.channels[*attribute.channel].kind != Channel::Kind::Weight)
      return invalid("stage {}: uses {}: channel {} is not a weight channel", index_,
                     attribute.name, *attribute.channel);
    if (!llvm::is_contained(model_.channels[*attribute.channel].to, PortRef{index_, i}))
      return invalid("stage {}: uses {}: channel {} does not lead to it", index_, attribute.name,
                     model_.channels[*attribute.channel].name);
  }
  return llvm::Error::success();
}

llvm::Error StageVerifier::outputs(std::vector<size_t> &leafCounts) {
  for (size_t i = 0; i < stage_.plan.outputs.size(); ++i) {
    const StageOutput &output = stage_.plan.outputs[i];
    for (const size_t channel : output.channels) {
      if (channel >= model_.channels.size())
        return invalid("stage {}: output {}: expected a channel below {}, got {}", index_,
                       output.name, model_.channels.size(), channel);
      const Channel &target = model_.channels[channel];
      if (target.kind != Channel::Kind::Activation || target.from != PortRef{index_, i})
        return invalid("stage {}: output {}: channel {} starts elsewhere", index_, output.name,
                       target.name);
      if (target.type != output.type)
        return invalid("stage {}: output {}: channel {} has type {}, got {}", index_, output.name,
                       target.name, target.type, output.type);
    }
    for (const size_t leaf : output.leaves) {
      if (leaf >= leafCounts.size())
        return invalid("stage {}: output {}: expected an output of the model below {}, got {}",
                       index_, output.name, leafCounts.size(), leaf);
      ++leafCounts[leaf];
    }
    if (output.state && *output.state >= stage_.plan.attributes.size())
      return invalid("stage {}: output {}: expected the state of an attribute below {}, got {}",
                     index_, output.name, stage_.plan.attributes.size(), *output.state);
    if (output.channels.empty() && output.leaves.empty() && !output.state)
      return invalid("stage {}: output {}: nothing reads it", index_, output.name);
  }
  return llvm::Error::success();
}

/// Whether the channel starts at the port that the stage's plan lists.
bool startsAt(const Channel &channel, size_t index, const Stage &stage) {
  if (channel.kind == Channel::Kind::Weight)
    return channel.from.port < stage.plan.attributes.size();
  return channel.from.port < stage.plan.outputs.size() &&
         llvm::is_contained(stage.plan.outputs[channel.from.port].channels, index);
}

bool endsAt(const Channel &channel, size_t index, const PortRef &port, const Stage &stage) {
  if (channel.kind == Channel::Kind::Weight)
    return port.port < stage.plan.attributes.size() &&
           stage.plan.attributes[port.port].channel == index;
  return port.port < stage.plan.inputs.size() &&
         stage.plan.inputs[port.port].kind == StageInput::Kind::Channel &&
         stage.plan.inputs[port.port].index == index;
}

/// `names`: of the channels before it.
llvm::Error verifyChannel(const StagedModel &model, size_t index, llvm::StringSet<> &names) {
  const Channel &channel = model.channels[index];
  const size_t stages = model.stages.size();
  if (channel.from.stage >= stages || !startsAt(channel, index, model.stages[channel.from.stage]))
    return invalid("channel {}: port {}:{} does not send it", channel.name, channel.from.stage,
                   channel.from.port);
  if (channel.to.empty())
    return invalid("channel {}: it has no consumer", channel.name);
  size_t last = channel.from.stage;
  bool skip = false;
  for (const PortRef &port : channel.to) {
    if (port.stage >= stages || !endsAt(channel, index, port, model.stages[port.stage]))
      return invalid("channel {}: port {}:{} does not receive it", channel.name, port.stage,
                     port.port);
    // Transmitted weights may flow from any owner; activations only forward.
    if (channel.kind == Channel::Kind::Activation && port.stage <= channel.from.stage)
      return invalid("channel {}: stage {} sends to stage {}: values flow forward only",
                     channel.name, channel.from.stage, port.stage);
    if (&port != &channel.to.front() && port.stage <= last)
      return invalid("channel {}: consumers ascend by stage, one port each: got {} after {}",
                     channel.name, port.stage, last);
    last = port.stage;
    skip |= port.stage != channel.from.stage + 1;
  }
  if (channel.kind == Channel::Kind::Activation && channel.skip != skip)
    return invalid("channel {}: expected skip={}, got skip={}", channel.name, skip, channel.skip);
  if (!names.insert(channel.name).second)
    return invalid("channel {}: this name appears twice", channel.name);
  return llvm::Error::success();
}

/// `names`: all of the model's attributes, the other names included.
llvm::Error verifyTie(const StagedModel &model, const Tie &tie, const llvm::StringSet<> &names) {
  const std::string name = tie.names.empty() ? "" : tie.names.front();
  for (const std::string &member : tie.names)
    if (!names.contains(member))
      return invalid("tie {}: the model has no attribute {}", name, member);
  if (tie.names.empty() || tie.stages.size() < 2)
    return invalid("tie {}: expected names and at least 2 stages, got {} and {}", name,
                   tie.names.size(), tie.stages.size());
  for (size_t i = 0; i < tie.stages.size(); ++i)
    if (tie.stages[i] >= model.stages.size() || (i > 0 && tie.stages[i] <= tie.stages[i - 1]))
      return invalid("tie {}: stages ascend and are below {}, got {}", name, model.stages.size(),
                     tie.stages[i]);
  if (!llvm::is_contained(tie.stages, tie.owner))
    return invalid("tie {}: its owner {} is none of its stages", name, tie.owner);
  return llvm::Error::success();
}

} // namespace

llvm::Error verify(const Model &model) {
  if (!model.graph)
    return invalid("the model has no graph");
  TRY(verifySignature(model.signature));
  if (!model.self.isNone())
    return verifyFront(model);
  TRY(verifyAttributes(model.attributes));
  const size_t arguments = model.signature.inputs.size(), attributes = model.attributes.size();
  const GraphFace face = faceOf(*model.graph);
  if (face.inputUses.size() != arguments + attributes)
    return invalid("graph: expected {} inputs ({} arguments, {} attributes), got {}",
                   arguments + attributes, arguments, attributes, face.inputUses.size());
  const size_t leaves = model.signature.leaves.size(), states = model.stateOutputs.size();
  if (face.outputs != leaves + states)
    return invalid("graph: expected {} outputs ({} results, {} states), got {}", leaves + states,
                   leaves, states, face.outputs);
  for (size_t i = 0; i < states; ++i) {
    if (model.stateOutputs[i] >= attributes)
      return invalid("state output {}: expected an attribute below {}, got {}", i, attributes,
                     model.stateOutputs[i]);
    const auto before = llvm::ArrayRef<size_t>(model.stateOutputs).take_front(i);
    if (llvm::is_contained(before, model.stateOutputs[i]))
      return invalid("state output {}: attribute {} appears twice", i,
                     model.attributes[model.stateOutputs[i]].name);
  }
  return verifyGraph(*model.graph, /*lowered=*/true);
}

llvm::Error verify(const StagedModel &model) {
  if (model.stages.empty())
    return invalid("the staged model has no stage");
  TRY(verifySignature(model.signature));
  TRY(verifyAttributes(model.attributes));
  llvm::StringSet<> attributeNames, allNames, channelNames;
  for (const Attribute &attribute : model.attributes) {
    attributeNames.insert(attribute.name);
    allNames.insert(attribute.name);
    for (const std::string &other : attribute.otherNames)
      allNames.insert(other);
  }
  std::vector<size_t> leafCounts(model.signature.leaves.size());
  for (size_t i = 0; i < model.stages.size(); ++i)
    TRY(StageVerifier(model, attributeNames, i).run(leafCounts));
  for (size_t i = 0; i < model.channels.size(); ++i)
    TRY(verifyChannel(model, i, channelNames));
  for (const Tie &tie : model.ties)
    TRY(verifyTie(model, tie, allNames));
  for (size_t i = 0; i < leafCounts.size(); ++i)
    if (leafCounts[i] != 1)
      return invalid("output {}: expected one stage to produce it, got {}",
                     outputPath(model.signature, i), leafCounts[i]);
  return llvm::Error::success();
}

} // namespace pipec
