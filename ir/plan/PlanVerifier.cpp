// Is a plan whole? Every rule that the runtime relies on without looking again.
#include "ir/plan/DefaultValue.h"
#include "ir/plan/Plan.h"
#include "ir/plan/PlanNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

namespace pipec {
namespace {

template <typename... Args> llvm::Error bad(fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::BadArtifact, format, std::forward<Args>(args)...);
}

/// A problem at a place: "stage 2, input 0".
template <typename... Args>
llvm::Error badAt(const std::string &where, fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::BadArtifact, "{}: {}", where,
               fmt::format(format, std::forward<Args>(args)...));
}

/// A file name that cannot leave its directory and that MANIFEST can hold on one line.
bool isPlainFileName(llvm::StringRef name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' && llvm::all_of(name, [](char c) {
    return llvm::isAlnum(c) || c == '.' || c == '-' || c == '_';
  });
}

class Verifier {
public:
  explicit Verifier(const Plan &plan) : plan_(plan), stages_(plan.stages.size()) {}

  llvm::Error run() {
    using Step = llvm::Error (Verifier::*)();
    for (Step step : {&Verifier::header, &Verifier::signature, &Verifier::ranks, &Verifier::files,
                      &Verifier::stagePorts, &Verifier::stageWeights, &Verifier::channels,
                      &Verifier::leaves, &Verifier::ties, &Verifier::chain, &Verifier::obligations})
      if (llvm::Error error = (this->*step)())
        return error;
    return llvm::Error::success();
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
    return fmt::format("stage {}, attribute {}", stage, plan_.stages[stage].attributes[index].name);
  }
  std::string channel(size_t index) const {
    return fmt::format("channel {} ({})", index, plan_.channels[index].name);
  }

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
    if (!llvm::is_contained(scheduleNames(), llvm::StringRef(plan_.scheduleName)))
      return bad("schedule: expected {}, got \"{}\"", llvm::join(scheduleNames(), " or "),
                 plan_.scheduleName);
    return llvm::Error::success();
  }

  llvm::Error tensor(const std::string &where, const TensorSpec &spec) {
    if (spec.bytes < 0)
      return badAt(where, "tensor of {} bytes", spec.bytes);
    if (spec.known && spec.dtype.empty())
      return badAt(where, "tensor without a dtype");
    if (spec.known && !spec.strides.empty() && spec.shape.size() != spec.strides.size())
      return badAt(where, "tensor with {} sizes and {} strides", spec.shape.size(),
                   spec.strides.size());
    return llvm::Error::success();
  }

  llvm::Error signature() {
    const Signature &signature = plan_.signature;
    std::set<std::string> names;
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      const InputSpec &spec = signature.inputs[i];
      std::string where = fmt::format("model input {} ({})", i, spec.name);
      if (spec.name.empty() || !names.insert(spec.name).second)
        return badAt(where, "expected a name of its own");
      if (spec.batchDim && *spec.batchDim < 0)
        return badAt(where, "batch dimension {} is negative", *spec.batchDim);
      if (spec.defaultValue)
        if (llvm::Error error = checkDefault(*spec.defaultValue))
          return withContext(std::move(error), where + ": default");
      if (llvm::Error error = tensor(where, spec.tensor))
        return error;
    }
    for (size_t l = 0; l < signature.leaves.size(); ++l) {
      std::string where = fmt::format("output leaf {}", l);
      if (signature.leaves[l].merge.dim < 0)
        return badAt(where, "merge dimension {} is negative", signature.leaves[l].merge.dim);
      if (llvm::Error error = tensor(where, signature.leaves[l].tensor))
        return error;
    }
    size_t seen = 0;
    if (llvm::Error error = tree(signature.outputs, seen))
      return error;
    if (seen != signature.leaves.size())
      return bad("output tree: has {} leaves, but {} are described", seen, signature.leaves.size());
    if (signature.batchSize < 0)
      return bad("batch size {} is negative", signature.batchSize);
    return llvm::Error::success();
  }

  /// Leaves count up in a depth-first walk; a dict has keys, a NamedTuple may have the names of its
  /// fields.
  llvm::Error tree(const OutputTree &node, size_t &seen) {
    if (node.kind == OutputTree::Kind::Leaf) {
      if (!node.children.empty() || !node.keys.empty())
        return bad("output tree: leaf {} has children", node.leaf);
      if (node.leaf != seen)
        return bad("output tree: expected leaf {}, got leaf {}", seen, node.leaf);
      ++seen;
      return llvm::Error::success();
    }
    bool named = node.kind == OutputTree::Kind::Tuple && !node.typeName.empty();
    bool hasKeys = node.kind == OutputTree::Kind::Dict || (named && !node.keys.empty());
    size_t keys = hasKeys ? node.children.size() : 0;
    std::set<std::string> distinct(node.keys.begin(), node.keys.end());
    if (node.keys.size() != keys || distinct.size() != keys)
      return bad("output tree: {} with {} values: expected {} distinct keys, got {}",
                 toString(node.kind).str(), node.children.size(), keys, distinct.size());
    for (const OutputTree &child : node.children)
      if (llvm::Error error = tree(child, seen))
        return error;
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

  llvm::Error stagePorts() {
    for (size_t s = 0; s < stages_; ++s) {
      const StagePlan &stage = plan_.stages[s];
      for (size_t p = 0; p < stage.inputs.size(); ++p)
        if (llvm::Error error = inputPort(s, p))
          return error;
      for (size_t p = 0; p < stage.outputs.size(); ++p)
        if (llvm::Error error = outputPort(s, p))
          return error;
    }
    return llvm::Error::success();
  }

  llvm::Error inputPort(size_t s, size_t p) {
    const StageInput &port = plan_.stages[s].inputs[p];
    if (port.kind == StageInput::Kind::UserInput)
      return port.index < plan_.signature.inputs.size()
                 ? llvm::Error::success()
                 : badAt(input(s, p), "model input {} does not exist", port.index);
    if (port.index >= plan_.channels.size())
      return badAt(input(s, p), "channel {} does not exist", port.index);
    const Channel &from = plan_.channels[port.index];
    if (from.kind != Channel::Kind::Activation || !llvm::is_contained(from.to, PortRef{s, p}))
      return badAt(input(s, p), "{} does not lead here", channel(port.index));
    if (from.type != port.type)
      return badAt(input(s, p), "type: expected {} as {}, got {}", from.type, channel(port.index),
                   port.type);
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
    }
    for (size_t leaf : port.leaves)
      if (leaf >= plan_.signature.leaves.size())
        return badAt(output(s, p), "output leaf {} does not exist", leaf);
    if (port.state && *port.state >= plan_.stages[s].attributes.size())
      return badAt(output(s, p), "attribute {} does not exist", *port.state);
    if (port.state && !plan_.stages[s].attributes[*port.state].written)
      return badAt(output(s, p), "writes {}, which is not marked as written",
                   attribute(s, *port.state));
    // `forward` of the stage file writes the state itself and does not return it.
    if (port.state && (!port.channels.empty() || !port.leaves.empty()))
      return badAt(output(s, p), "is the new value of an attribute and something else as well");
    return llvm::Error::success();
  }

  llvm::Error stageWeights() {
    for (size_t s = 0; s < stages_; ++s) {
      const StagePlan &stage = plan_.stages[s];
      std::set<std::string> names;
      for (size_t a = 0; a < stage.attributes.size(); ++a)
        if (llvm::Error error = weight(s, a, names))
          return error;
      std::set<size_t> out;
      for (size_t c : stage.weightChannelsOut)
        if (c >= plan_.channels.size() || plan_.channels[c].kind != Channel::Kind::Weight ||
            plan_.channels[c].from.stage != s || !out.insert(c).second)
          return bad("stage {}: sends weight channel {}, which does not start here", s, c);
      if (stage.nodes < 0 || stage.parameterBytes < 0 || stage.costFlops < 0)
        return bad("stage {}: a count is negative", s);
      for (const std::string &written : stage.effects.stateWrites)
        if (!names.count(written))
          return bad("stage {}: writes state {}, which it does not have", s, written);
    }
    return llvm::Error::success();
  }

  llvm::Error weight(size_t s, size_t a, std::set<std::string> &names) {
    const StageAttribute &it = plan_.stages[s].attributes[a];
    if (it.name.empty() || !names.insert(it.name).second)
      return badAt(attribute(s, a), "expected a name of its own");
    for (const std::string &other : it.otherNames)
      if (other.empty() || !names.insert(other).second)
        return badAt(attribute(s, a), "its other name {} is used twice", other);
    if (it.bytes < 0)
      return badAt(attribute(s, a), "has {} bytes", it.bytes);
    if (!it.channel)
      return llvm::Error::success();
    if (*it.channel >= plan_.channels.size())
      return badAt(attribute(s, a), "channel {} does not exist", *it.channel);
    const Channel &from = plan_.channels[*it.channel];
    if (from.kind != Channel::Kind::Weight || !llvm::is_contained(from.to, PortRef{s, a}))
      return badAt(attribute(s, a), "{} does not lead here", channel(*it.channel));
    return llvm::Error::success();
  }

  llvm::Error channels() {
    std::set<std::string> names;
    for (size_t c = 0; c < plan_.channels.size(); ++c) {
      const Channel &it = plan_.channels[c];
      if (it.name.empty() || !names.insert(it.name).second)
        return badAt(channel(c), "expected a name of its own");
      if (llvm::Error error = tensor(channel(c), it.tensor))
        return error;
      if (llvm::Error error = producer(c))
        return error;
      if (llvm::Error error = consumers(c))
        return error;
    }
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
            return bad("output leaf {}: made by {} and by {}", leaf, producers[leaf], output(s, p));
          producers[leaf] = output(s, p);
        }
    for (size_t leaf = 0; leaf < producers.size(); ++leaf)
      if (producers[leaf].empty())
        return bad("output leaf {}: no stage makes it", leaf);
    return llvm::Error::success();
  }

  /// The attribute of `stage` that carries one of the tie's names.
  const StageAttribute *member(const Tie &tie, size_t stage) const {
    for (const StageAttribute &candidate : plan_.stages[stage].attributes) {
      if (llvm::is_contained(tie.names, candidate.name))
        return &candidate;
      if (llvm::any_of(candidate.otherNames, [&](const std::string &name) {
            return llvm::is_contained(tie.names, name);
          }))
        return &candidate;
    }
    return nullptr;
  }

  llvm::Error ties() {
    for (size_t t = 0; t < plan_.ties.size(); ++t) {
      const Tie &tie = plan_.ties[t];
      std::string where = fmt::format("tie {} ({})", t, tie.names.empty() ? "" : tie.names.front());
      bool ascending = std::adjacent_find(tie.stages.begin(), tie.stages.end(),
                                          std::greater_equal<>()) == tie.stages.end();
      if (tie.names.empty() || tie.stages.size() < 2 || !ascending || tie.stages.back() >= stages_)
        return badAt(where, "expected a name and at least two existing stages in ascending order");
      if (!llvm::is_contained(tie.stages, tie.owner))
        return badAt(where, "stage {} owns it without using it", tie.owner);
      for (size_t s : tie.stages) {
        const StageAttribute *held = member(tie, s);
        if (!held)
          return badAt(where, "stage {} has no attribute of it", s);
        bool sent = tie.mode == Tie::Mode::Transmit && s != tie.owner;
        if (sent != held->channel.has_value())
          return badAt(where, "stage {}: expected {} to be {}", s, held->name,
                       sent ? "sent on a channel" : "held by the stage");
      }
    }
    return llvm::Error::success();
  }

  /// A fact holds for every input that the runtime lets in, because it checks dtype and rank of
  /// tensors against the signature: the signature must know them, and say the same.
  llvm::Error obligations() {
    for (size_t i = 0; i < plan_.obligations.size(); ++i) {
      const Obligation &obligation = plan_.obligations[i];
      const std::string where = fmt::format("obligation {} ({})", i, toString(obligation));
      if (obligation.kind == Obligation::Kind::Recompute) {
        if (obligation.stage >= stages_)
          return badAt(where, "expected a stage below {}, got {}", stages_, obligation.stage);
        continue;
      }
      for (const InputSpec &input : plan_.signature.inputs)
        if (llvm::Error error = factAgainst(input, obligation, where))
          return error;
    }
    return llvm::Error::success();
  }

  llvm::Error factAgainst(const InputSpec &input, const Obligation &fact,
                          const std::string &where) {
    if (input.type != "Tensor")
      return llvm::Error::success();
    if (!input.tensor.known)
      return badAt(where, "input {}: expected a known dtype and rank, got none", input.name);
    if (fact.of != "input " + input.name)
      return llvm::Error::success();
    const std::string known =
        fact.property == "rank" ? std::to_string(input.tensor.shape.size()) : input.tensor.dtype;
    if (known != fact.value)
      return badAt(where, "expected {} {} as the signature says, got {}", fact.property, known,
                   fact.value);
    return llvm::Error::success();
  }

  llvm::Error chain() {
    if (!plan_.chain)
      return llvm::Error::success();
    for (size_t c = 0; c < plan_.channels.size(); ++c)
      if (plan_.channels[c].skip)
        return badAt(channel(c), "skips a stage, but the plan says chain");
    for (size_t s = 0; s < stages_; ++s) {
      for (size_t p = 0; p < plan_.stages[s].inputs.size(); ++p)
        if (s > 0 && plan_.stages[s].inputs[p].kind == StageInput::Kind::UserInput)
          return badAt(input(s, p), "reads a model input, but the plan says chain");
      for (size_t p = 0; p < plan_.stages[s].outputs.size(); ++p)
        if (s + 1 < stages_ && !plan_.stages[s].outputs[p].leaves.empty())
          return badAt(output(s, p), "is a model output, but the plan says chain");
    }
    return llvm::Error::success();
  }

  const Plan &plan_;
  size_t stages_;
};

} // namespace

llvm::Error verify(const Plan &plan) { return Verifier(plan).run(); }

} // namespace pipec
