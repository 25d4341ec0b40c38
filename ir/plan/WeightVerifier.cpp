// Checks whether the plan's description of weights is possible: who holds, receives and writes
// them.
#include "ir/plan/WeightVerifier.h"

#include "ir/plan/Faults.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/ranges.h>

#include <map>
#include <set>

namespace pipec {

using namespace planparts;

namespace {

class WeightVerifier {
public:
  WeightVerifier(const Plan &plan, Faults &faults) : plan_(plan), faults_(faults) {}

  void run() {
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      stage(s);
  }

private:
  void stage(size_t s) {
    const StagePlan &stage = plan_.stages[s];
    if (stage.nodes < 0 || stage.parameterBytes < 0 || stage.costFlops < 0)
      faults_.note(bad("stage {}: a count is negative", s));
    std::set<std::string> names;
    int64_t bytes = 0;
    std::vector<std::string> written;
    for (size_t a = 0; a < stage.attributes.size(); ++a) {
      faults_.note(weight(s, a, names));
      const StageAttribute &it = stage.attributes[a];
      if (it.kind == AttributeKind::Parameter && !it.channel)
        __builtin_add_overflow(bytes, it.bytes, &bytes); // then it is not the sum either
      if (it.written)
        written.push_back(it.name);
    }
    std::set<size_t> out;
    for (size_t c : stage.weightChannelsOut)
      if (c >= plan_.channels.size() || plan_.channels[c].kind != Channel::Kind::Weight ||
          plan_.channels[c].from.stage != s || !out.insert(c).second)
        faults_.note(bad("stage {}: sends weight channel {}, which does not start here", s, c));
    if (bytes != stage.parameterBytes)
      faults_.note(bad("stage {}: parameter bytes: expected {}, the sum of its parameters, got {}",
                       s, bytes, stage.parameterBytes));
    faults_.note(effects(s, names, written));
  }

  llvm::Error effects(size_t s, const std::set<std::string> &names,
                      const std::vector<std::string> &written) {
    const StageEffects &effects = plan_.stages[s].effects;
    for (const std::string &state : effects.stateWrites)
      if (!names.count(state))
        return bad("stage {}: writes state {}, which it does not have", s, state);
    if (effects.stateWrites != written)
      return bad("stage {}: state writes: expected [{}], its attributes that are written, got [{}]",
                 s, fmt::join(written, ", "), fmt::join(effects.stateWrites, ", "));
    for (int64_t ordinal : effects.randomOps)
      if (ordinal != nextRandom_++)
        return bad("stage {}: random operators: expected {} next, in the order of the source, got "
                   "{}",
                   s, nextRandom_ - 1, ordinal);
    return llvm::Error::success();
  }

  llvm::Error weight(size_t s, size_t a, std::set<std::string> &names) {
    const StageAttribute &it = plan_.stages[s].attributes[a];
    std::string where = attributeName(plan_, s, a);
    if (it.name.empty() || !names.insert(it.name).second)
      return badAt(where, "expected a name of its own");
    for (const std::string &other : it.otherNames)
      if (other.empty() || !names.insert(other).second)
        return badAt(where, "its other name {} is used twice", other);
    if (it.kind == AttributeKind::Constant)
      return badAt(where, "kind: expected one that a stage file holds, got constant");
    if (it.bytes < 0)
      return badAt(where, "has {} bytes", it.bytes);
    if (!it.channel)
      return llvm::Error::success();
    if (*it.channel >= plan_.channels.size())
      return badAt(where, "channel {} does not exist", *it.channel);
    const Channel &from = plan_.channels[*it.channel];
    if (from.kind != Channel::Kind::Weight || !llvm::is_contained(from.to, PortRef{s, a}))
      return badAt(where, "{} does not lead here", channelName(plan_, *it.channel));
    return llvm::Error::success();
  }

  const Plan &plan_;
  Faults &faults_;
  int64_t nextRandom_ = 0;
};

class TieVerifier {
public:
  explicit TieVerifier(const Plan &plan) : plan_(plan) {}

  void run(Faults &faults) {
    for (size_t t = 0; t < plan_.ties.size(); ++t)
      faults.note(tie(t));
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      for (size_t a = 0; a < plan_.stages[s].attributes.size(); ++a)
        faults.note(shared(s, a));
  }

private:
  static bool isMember(const Tie &tie, const StageAttribute &attribute) {
    return llvm::any_of(attribute.allNames(), [&](const std::string &name) {
      return llvm::is_contained(tie.names, name);
    });
  }

  llvm::Error tie(size_t t) {
    const Tie &tie = plan_.ties[t];
    std::string where = fmt::format("tie {} ({})", t, tie.names.empty() ? "" : tie.names.front());
    bool ascending = std::adjacent_find(tie.stages.begin(), tie.stages.end(),
                                        std::greater_equal<>()) == tie.stages.end();
    if (tie.names.empty() || tie.stages.size() < 2 || !ascending ||
        tie.stages.back() >= plan_.stages.size())
      return badAt(where, "expected a name and at least two existing stages in ascending order");
    if (tie.owner != tie.stages.front())
      return badAt(where, "owner: expected its first stage, {}, got {}", tie.stages.front(),
                   tie.owner);
    std::set<std::string> held;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      bool isUser = llvm::is_contained(tie.stages, s), has = false;
      for (const StageAttribute &attribute : plan_.stages[s].attributes) {
        if (!isMember(tie, attribute))
          continue;
        has = true;
        if (!isUser)
          return badAt(where, "stage {} holds {}, but is none of its stages", s, attribute.name);
        TRY(member(tie, where, s, attribute));
        for (const std::string &name : attribute.allNames())
          held.insert(name);
      }
      if (isUser && !has)
        return badAt(where, "stage {} has no attribute of it", s);
    }
    return sameNames(tie, where, held);
  }

  static llvm::Error member(const Tie &tie, const std::string &where, size_t s,
                            const StageAttribute &attribute) {
    bool sent = tie.mode == Tie::Mode::Transmit && s != tie.owner;
    if (sent == attribute.channel.has_value())
      return llvm::Error::success();
    return badAt(where, "stage {}: expected {} to be {}", s, attribute.name,
                 sent ? "sent on a channel" : "held by the stage");
  }

  llvm::Error sameNames(const Tie &tie, const std::string &where,
                        const std::set<std::string> &held) {
    std::set<std::string> names(tie.names.begin(), tie.names.end());
    for (const std::string &name : tie.names)
      if (!tied_.insert(name).second)
        return badAt(where, "{} is tied twice", name);
    for (const std::string &name : names)
      if (!held.count(name))
        return badAt(where, "no stage has an attribute {}", name);
    for (const std::string &name : held)
      if (!names.count(name))
        return badAt(where, "names: expected {} among them, which a stage has, got [{}]", name,
                     fmt::join(tie.names, ", "));
    return llvm::Error::success();
  }

  /// A weight that two stages have, or that is sent, is tied. A sent weight is one that the owner
  /// holds.
  llvm::Error shared(size_t s, size_t a) {
    const StageAttribute &it = plan_.stages[s].attributes[a];
    bool isTied = llvm::any_of(plan_.ties, [&](const Tie &tie) { return isMember(tie, it); });
    bool isWeight = it.kind == AttributeKind::Parameter || it.kind == AttributeKind::Buffer;
    if (isWeight && it.bytes > 0) {
      auto [first, isNew] = stageOf_.try_emplace(it.name, s);
      if (!isNew && !isTied)
        return badAt(attributeName(plan_, s, a), "stage {} has it too, but no tie names it",
                     first->second);
    }
    if (!it.channel)
      return llvm::Error::success();
    std::string where = attributeName(plan_, s, a);
    if (!isTied)
      return badAt(where, "is sent by {}, but no tie names it", channelName(plan_, *it.channel));
    const PortRef &from = plan_.channels[*it.channel].from;
    const StageAttribute &owned = plan_.stages[from.stage].attributes[from.port];
    // A parameter may be read as a buffer too, under another name.
    if (it.kind != owned.kind && llvm::is_contained(owned.allNames(), it.name))
      return badAt(where, "kind: expected {} as its owner has it, got {}",
                   toString(owned.kind).str(), toString(it.kind).str());
    if (it.requiresGrad != owned.requiresGrad)
      return badAt(where, "requires_grad: expected {} as its owner has it, got {}",
                   owned.requiresGrad, it.requiresGrad);
    if (it.bytes != owned.bytes)
      return badAt(where, "bytes: expected {} as its owner has it, got {}", owned.bytes, it.bytes);
    return llvm::Error::success();
  }

  const Plan &plan_;
  std::set<std::string> tied_;
  std::map<std::string, size_t> stageOf_; // the first stage that has a weight of this name
};

} // namespace

void planparts::verifyWeights(const Plan &plan, Faults &faults) {
  WeightVerifier(plan, faults).run();
}

void planparts::verifyTies(const Plan &plan, Faults &faults) { TieVerifier(plan).run(faults); }

} // namespace pipec
