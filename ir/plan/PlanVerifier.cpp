// Checks the consistency of a plan: every rule that the runtime relies on without checking again.
#include "ir/plan/PlanVerifier.h"

#include "ir/plan/Chain.h"
#include "ir/plan/Faults.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/plan/SignatureVerifier.h"
#include "ir/plan/TrainingVerifier.h"
#include "ir/plan/WeightVerifier.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

namespace pipec {

using namespace planparts;

namespace {

/// A file name that cannot leave its directory and that MANIFEST can hold on one line.
bool isPlainFileName(llvm::StringRef name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' && llvm::all_of(name, [](char c) {
    return llvm::isAlnum(c) || c == '.' || c == '-' || c == '_';
  });
}

bool isScheduleName(llvm::StringRef name) {
  return !name.empty() && llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '-'; });
}

class Verifier {
public:
  explicit Verifier(const Plan &plan) : plan_(plan), stages_(plan.stages.size()) {}

  llvm::Error run() {
    TRY(header());
    TRY(verifySignature(plan_));
    TRY(features());
    faults_.note(ranks());
    faults_.note(files());
    stagePorts();
    verifyWeights(plan_, faults_);
    channels();
    // The others look up what indices name.
    if (indicesExist()) {
      faults_.note(leaves());
      verifyTies(plan_, faults_);
      verifyTraining(plan_, faults_);
      faults_.note(chain());
    }
    faults_.note(verifyObligations(plan_));
    return faults_.take();
  }

private:
  std::string input(size_t stage, size_t port) const {
    return fmt::format("stage {}, input {} ({})", stage, port,
                       plan_.stages[stage].inputs[port].name);
  }
  std::string output(size_t stage, size_t port) const {
    return fmt::format("stage {}, output {} ({})", stage, port,
                       plan_.stages[stage].outputs[port].name);
  }
  std::string attribute(size_t stage, size_t index) const {
    return attributeName(plan_, stage, index);
  }
  std::string path(size_t leaf) const { return outputPath(plan_.signature, leaf); }
  std::string channel(size_t index) const { return channelName(plan_, index); }

  llvm::Error header() {
    llvm::StringRef digest = plan_.sourceDigest;
    bool digestOk = digest.consume_front("sha256:") && digest.size() == 64 &&
                    digest.find_first_not_of("0123456789abcdef") == llvm::StringRef::npos;
    if (!digestOk)
      return bad("source digest: expected sha256: and 64 lower-case hex digits, got \"{}\"",
                 plan_.sourceDigest);
    if (stages_ == 0)
      return bad("expected at least one stage, got none");
    if (plan_.microBatches < 1)
      return bad("micro-batches: expected at least 1, got {}", plan_.microBatches);
    // A training has any generated schedule, whose table is in schedule.csv.
    const bool isTraining = plan_.training && isScheduleName(plan_.scheduleName);
    if (!isTraining && !llvm::is_contained(scheduleNames(), llvm::StringRef(plan_.scheduleName)))
      return bad("schedule: expected {}, got \"{}\"", llvm::join(scheduleNames(), " or "),
                 plan_.scheduleName);
    return llvm::Error::success();
  }

  /// After the signature, because a contradiction inside the signature gives the better message.
  llvm::Error features() {
    if (const std::vector<std::string> needed = featuresOf(plan_); plan_.requiredFeatures != needed)
      return bad("required features: expected [{}] as signature, schedule and obligations say, got "
                 "[{}]",
                 llvm::join(needed, ", "), llvm::join(plan_.requiredFeatures, ", "));
    return llvm::Error::success();
  }

  llvm::Error ranks() {
    std::set<size_t> used;
    for (size_t s = 0; s < stages_; ++s) {
      if (plan_.stages[s].rank >= plan_.ranks)
        return bad("stage {}: on rank {}, but the plan has {} ranks", s, plan_.stages[s].rank,
                   plan_.ranks);
      used.insert(plan_.stages[s].rank);
    }
    for (size_t r = 0; r < plan_.ranks; ++r)
      if (!used.count(r))
        return bad("rank {}: has no stage", r);
    return llvm::Error::success();
  }

  llvm::Error files() {
    std::set<std::string> seen = {"MANIFEST", "plan.json", "schedule.csv"};
    for (size_t s = 0; s < stages_; ++s) {
      const std::string &file = plan_.stages[s].file;
      if (!isPlainFileName(file))
        return bad("stage {}: \"{}\" is not a plain file name", s, file);
      if (!seen.insert(file).second)
        return bad("stage {}: file {} is used twice", s, file);
    }
    return llvm::Error::success();
  }

  /// Whether every index of a port, an attribute and a channel is in range of the list that it is
  /// for. One that is not has been noted with its place.
  bool indicesExist() const {
    const size_t channels = plan_.channels.size();
    for (const StagePlan &stage : plan_.stages) {
      for (const StageInput &port : stage.inputs)
        if (port.index >=
            (port.kind == StageInput::Kind::Channel ? channels : plan_.signature.inputs.size()))
          return false;
      for (const StageOutput &port : stage.outputs)
        if (llvm::any_of(port.channels, [&](size_t c) { return c >= channels; }) ||
            llvm::any_of(port.leaves, [&](size_t l) { return l >= plan_.signature.leaves.size(); }))
          return false;
      for (const StageAttribute &attribute : stage.attributes)
        if (attribute.channel && (*attribute.channel >= channels ||
                                  plan_.channels[*attribute.channel].kind != Channel::Kind::Weight))
          return false;
    }
    return llvm::all_of(plan_.channels, [&](const Channel &it) {
      return it.from.stage < stages_ &&
             it.from.port < (it.kind == Channel::Kind::Weight
                                 ? plan_.stages[it.from.stage].attributes.size()
                                 : plan_.stages[it.from.stage].outputs.size());
    });
  }

  void stagePorts() {
    for (size_t s = 0; s < stages_; ++s) {
      const StagePlan &stage = plan_.stages[s];
      for (size_t p = 0; p < stage.inputs.size(); ++p)
        faults_.note(inputPort(s, p));
      for (size_t p = 0; p < stage.outputs.size(); ++p)
        faults_.note(outputPort(s, p));
    }
  }

  llvm::Error inputPort(size_t s, size_t p) {
    const StageInput &port = plan_.stages[s].inputs[p];
    if (port.kind == StageInput::Kind::UserInput)
      return userInput(s, p);
    if (port.index >= plan_.channels.size())
      return badAt(input(s, p), "channel {} does not exist", port.index);
    const Channel &from = plan_.channels[port.index];
    if (from.kind != Channel::Kind::Activation || !llvm::is_contained(from.to, PortRef{s, p}))
      return badAt(input(s, p), "{} does not lead here", channel(port.index));
    if (from.type != port.type)
      return badAt(input(s, p), "type: expected {} as {}, got {}", from.type, channel(port.index),
                   port.type);
    if (from.name != port.name)
      return badAt(input(s, p), "name: expected {} as {}", from.name, channel(port.index));
    return llvm::Error::success();
  }

  llvm::Error userInput(size_t s, size_t p) {
    const StageInput &port = plan_.stages[s].inputs[p];
    if (port.index >= plan_.signature.inputs.size())
      return badAt(input(s, p), "model input {} does not exist", port.index);
    const InputSpec &argument = plan_.signature.inputs[port.index];
    if (argument.name != port.name)
      return badAt(input(s, p), "name: expected {} as model input {}", argument.name, port.index);
    if (argument.type != port.type)
      return badAt(input(s, p), "type: expected {} as model input {}, got {}", argument.type,
                   port.index, port.type);
    for (size_t other = 0; other < p; ++other)
      if (const StageInput &before = plan_.stages[s].inputs[other];
          before.kind == port.kind && before.index == port.index)
        return badAt(input(s, p), "model input {} is given to the stage twice", port.index);
    return llvm::Error::success();
  }

  llvm::Error outputPort(size_t s, size_t p) {
    const StageOutput &port = plan_.stages[s].outputs[p];
    std::set<size_t> once;
    for (size_t c : port.channels) {
      if (c >= plan_.channels.size())
        return badAt(output(s, p), "channel {} does not exist", c);
      const Channel &out = plan_.channels[c];
      if (out.kind != Channel::Kind::Activation || !(out.from == PortRef{s, p}) ||
          !once.insert(c).second)
        return badAt(output(s, p), "{} does not start here", channel(c));
      if (out.type != port.type)
        return badAt(output(s, p), "type: expected {} as {}, got {}", out.type, channel(c),
                     port.type);
      if (port.channels.size() == 1 && out.name != port.name)
        return badAt(output(s, p), "name: expected {} as {}", out.name, channel(c));
    }
    for (size_t leaf : port.leaves)
      if (leaf >= plan_.signature.leaves.size())
        return badAt(output(s, p), "output {} does not exist", leaf);
    if (!std::is_sorted(port.leaves.begin(), port.leaves.end()))
      return badAt(output(s, p), "its outputs are not in ascending order");
    if (port.state && *port.state >= plan_.stages[s].attributes.size())
      return badAt(output(s, p), "attribute {} does not exist", *port.state);
    if (port.state && !plan_.stages[s].attributes[*port.state].written)
      return badAt(output(s, p), "writes {}, which is not marked as written",
                   attribute(s, *port.state));
    if (port.state && plan_.stages[s].attributes[*port.state].name != port.name)
      return badAt(output(s, p), "name: expected {} as the attribute whose new value it is",
                   plan_.stages[s].attributes[*port.state].name);
    // `forward` of the stage file writes the state itself and does not return it.
    if (port.state && (!port.channels.empty() || !port.leaves.empty()))
      return badAt(output(s, p), "is the new value of an attribute and something else as well");
    return llvm::Error::success();
  }

  void channels() {
    std::set<std::string> names;
    for (size_t c = 0; c < plan_.channels.size(); ++c)
      faults_.note(channelOf(c, names));
  }

  llvm::Error channelOf(size_t c, std::set<std::string> &names) {
    const Channel &it = plan_.channels[c];
    if (it.name.empty() || !names.insert(it.name).second)
      return badAt(channel(c), "expected a name of its own");
    TRY(verifyTensor(plan_, channel(c), it.tensor));
    if (it.kind == Channel::Kind::Weight && it.type != "Tensor")
      return badAt(channel(c), "type: expected Tensor for a weight, got {}", it.type);
    if (it.tensor.known && holdsNoTensor(it.type))
      return badAt(channel(c), "type {} is not a tensor, but a tensor is described", it.type);
    TRY(producer(c));
    if (it.kind == Channel::Kind::Weight && it.tensor.known)
      TRY(sentWeight(c));
    return consumers(c);
  }

  /// A weight has one shape, whatever the batch.
  llvm::Error sentWeight(size_t c) {
    const TensorSpec &sent = plan_.channels[c].tensor;
    const PortRef &from = plan_.channels[c].from;
    const StageAttribute &owned = plan_.stages[from.stage].attributes[from.port];
    for (const std::vector<Dim> *dims : {&sent.shape, &sent.strides})
      for (const Dim &dim : *dims)
        if (dim.dynamic || dim.perBatch != 0)
          return badAt(channel(c), "expected a weight of constant sizes, got {}", toString(dim));
    if (sent.bytes != owned.bytes)
      return badAt(channel(c), "bytes: expected {} as {} has, got {}", owned.bytes,
                   attribute(from.stage, from.port), sent.bytes);
    if (sent.requiresGrad != owned.requiresGrad)
      return badAt(channel(c), "requires_grad: expected {} as {} has it, got {}",
                   owned.requiresGrad, attribute(from.stage, from.port), sent.requiresGrad);
    return llvm::Error::success();
  }

  llvm::Error producer(size_t c) {
    const Channel &it = plan_.channels[c];
    if (it.from.stage >= stages_)
      return badAt(channel(c), "starts at stage {}, but there are {} stages", it.from.stage,
                   stages_);
    const StagePlan &stage = plan_.stages[it.from.stage];
    bool weight = it.kind == Channel::Kind::Weight;
    size_t ports = weight ? stage.attributes.size() : stage.outputs.size();
    if (it.from.port >= ports)
      return badAt(channel(c), "starts at port {} of stage {}, which has {}", it.from.port,
                   it.from.stage, ports);
    const std::vector<size_t> &listed =
        weight ? stage.weightChannelsOut : stage.outputs[it.from.port].channels;
    if (!llvm::is_contained(listed, c))
      return badAt(channel(c), "stage {}, port {} does not list it", it.from.stage, it.from.port);
    if (weight && stage.attributes[it.from.port].channel)
      return badAt(channel(c), "{} does not own what it sends",
                   attribute(it.from.stage, it.from.port));
    return llvm::Error::success();
  }

  llvm::Error consumers(size_t c) {
    const Channel &it = plan_.channels[c];
    if (it.to.empty())
      return badAt(channel(c), "leads nowhere");
    bool skip = false;
    for (size_t i = 0; i < it.to.size(); ++i) {
      const PortRef &to = it.to[i];
      if (to.stage >= stages_)
        return badAt(channel(c), "leads to stage {}, but there are {} stages", to.stage, stages_);
      if (to.stage <= it.from.stage)
        return badAt(channel(c), "goes backwards from stage {} to stage {}", it.from.stage,
                     to.stage);
      if (i > 0 && std::pair(it.to[i - 1].stage, it.to[i - 1].port) >= std::pair(to.stage, to.port))
        return badAt(channel(c), "its consumers are not in ascending order");
      const StagePlan &stage = plan_.stages[to.stage];
      bool listed =
          it.kind == Channel::Kind::Weight
              ? to.port < stage.attributes.size() && stage.attributes[to.port].channel == c
              : to.port < stage.inputs.size() &&
                    stage.inputs[to.port].kind == StageInput::Kind::Channel &&
                    stage.inputs[to.port].index == c;
      if (!listed)
        return badAt(channel(c), "stage {}, port {} does not read it", to.stage, to.port);
      skip |= to.stage != it.from.stage + 1;
    }
    if (skip != it.skip)
      return badAt(channel(c), "skip: expected {}, got {}", skip, it.skip);
    return llvm::Error::success();
  }

  llvm::Error leaves() {
    std::vector<std::string> producers(plan_.signature.leaves.size());
    for (size_t s = 0; s < stages_; ++s)
      for (size_t p = 0; p < plan_.stages[s].outputs.size(); ++p)
        for (size_t leaf : plan_.stages[s].outputs[p].leaves) {
          if (!producers[leaf].empty())
            return bad("output {}: made by {} and by {}", path(leaf), producers[leaf],
                       output(s, p));
          if (plan_.signature.leaves[leaf].type != plan_.stages[s].outputs[p].type)
            return badAt(output(s, p), "type: expected {} as output {}, got {}",
                         plan_.signature.leaves[leaf].type, path(leaf),
                         plan_.stages[s].outputs[p].type);
          producers[leaf] = output(s, p);
          for (size_t c : plan_.stages[s].outputs[p].channels)
            if (!alike(plan_.signature.leaves[leaf].tensor, plan_.channels[c].tensor))
              return badAt(output(s, p),
                           "output {} is {}, but other sizes or another dtype are described",
                           path(leaf), channel(c));
        }
    for (size_t leaf = 0; leaf < producers.size(); ++leaf)
      if (producers[leaf].empty())
        return bad("output {}: no stage makes it", path(leaf));
    return llvm::Error::success();
  }

  /// Whether two descriptions of one value agree, as far as both know it. If only one batch size
  /// runs, one of them may include another size that failed later.
  bool alike(const TensorSpec &a, const TensorSpec &b) const {
    if (!a.known || !b.known || !plan_.signature.batchSymbolic)
      return true;
    if (a.dtype != b.dtype || a.shape.size() != b.shape.size())
      return false;
    for (size_t d = 0; d < a.shape.size(); ++d)
      if (!a.shape[d].dynamic && !b.shape[d].dynamic && a.shape[d] != b.shape[d])
        return false;
    return true;
  }

  llvm::Error chain() {
    std::string why = chainBreak(plan_);
    if (plan_.chain && !why.empty())
      return bad("{}, but the plan has chain set", why);
    if (!plan_.chain && why.empty())
      return bad("chain: expected true as each stage feeds only the next one, got false");
    return llvm::Error::success();
  }

  const Plan &plan_;
  size_t stages_;
  Faults faults_;
};

} // namespace

llvm::Error verify(const Plan &plan) { return Verifier(plan).run(); }

} // namespace pipec
