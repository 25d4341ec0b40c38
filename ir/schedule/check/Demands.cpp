#include "ir/schedule/check/Demands.h"

#include "ir/schedule/PlanGradients.h"

#include <algorithm>
#include <set>

namespace pipec {

Demands::Demands(const Plan &plan, bool train)
    : plan_(plan), edgesOf_(plan.channels.size()), stages_(plan.stages.size()), onRank_(plan.ranks),
      slots_(plan.stages.size()), tieRanks_(plan.ties.size()) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    slots_[s] = onRank_[rankOf(s)].size();
    onRank_[rankOf(s)].push_back(s);
  }
  for (size_t c = 0; c < plan.channels.size(); ++c)
    if (plan.channels[c].kind == Channel::Kind::Activation)
      addActivation(c, train);
    else if (train)
      addWeight(c);
  for (size_t t = 0; train && t < plan.ties.size(); ++t) {
    if (!sumsGradient(plan, plan.ties[t]))
      continue;
    std::set<size_t> ranks;
    for (size_t s : plan.ties[t].stages) {
      ranks.insert(rankOf(s));
      stages_[s].ties.push_back(t);
    }
    tieRanks_[t].assign(ranks.begin(), ranks.end());
  }
}

std::vector<size_t> Demands::consumers(const Channel &channel) const {
  std::set<size_t> stages;
  for (const PortRef &to : channel.to)
    stages.insert(to.stage);
  return {stages.begin(), stages.end()};
}

std::optional<size_t> Demands::find(Payload payload, size_t channel, size_t maker, size_t from,
                                    size_t to) const {
  for (size_t e : edgesOf_[channel]) {
    const Edge &edge = edges_[e];
    if (edge.payload == payload && edge.from == from && edge.to == to &&
        (payload != Payload::Gradient || edge.maker == maker))
      return e;
  }
  return std::nullopt;
}

/// The values that stage `to` reads from stage `from`: nothing to send within a rank.
Need Demands::need(Payload payload, size_t channel, size_t from, size_t to) {
  Need result;
  result.stage = from;
  result.channel = channel;
  const size_t source = rankOf(from), target = rankOf(to);
  if (source == target)
    return result;
  result.edge = find(payload, channel, from, source, target);
  if (!result.edge) {
    result.edge = edges_.size();
    edgesOf_[channel].push_back(edges_.size());
    edges_.push_back({payload, channel, payload == Payload::Gradient ? from : 0, source, target});
  }
  return result;
}

void Demands::addActivation(size_t c, bool train) {
  const Channel &channel = plan_.channels[c];
  const std::vector<size_t> readers = consumers(channel);
  for (size_t reader : readers)
    stages_[reader].forward.push_back(need(Payload::Activation, c, channel.from.stage, reader));
  if (!train || !carriesGradient(plan_, channel))
    return;
  size_t before = channel.from.stage;
  for (size_t reader : readers) {
    stages_[before].backward.push_back(need(Payload::Gradient, c, reader, before));
    before = reader;
  }
}

void Demands::addWeight(size_t c) {
  const Channel &channel = plan_.channels[c];
  const size_t owner = channel.from.stage;
  const bool back = carriesGradient(plan_, channel);
  for (size_t reader : consumers(channel)) {
    if (rankOf(reader) == rankOf(owner)) {
      if (back)
        stages_[owner].alsoDone.push_back(reader);
      continue; // the rank holds it
    }
    stages_[reader].forward.push_back(need(Payload::Weight, c, owner, reader));
    if (!back)
      continue;
    const size_t edge = *need(Payload::WeightGradient, c, reader, owner).edge;
    std::vector<size_t> &edges = stages_[owner].gradientEdges;
    if (std::find(edges.begin(), edges.end(), edge) == edges.end())
      edges.push_back(edge);
  }
}

std::vector<size_t> Demands::ranksOfTie(size_t tie) const { return tieRanks_[tie]; }

std::vector<size_t> Demands::weightReaders(size_t channel, size_t rank) const {
  std::vector<size_t> result;
  for (size_t reader : consumers(plan_.channels[channel]))
    if (rankOf(reader) == rank)
      result.push_back(reader);
  return result;
}

} // namespace pipec
