// For the checker: what a plan demands of a program, derived from the plan alone.
#pragma once

#include "ir/schedule/Program.h"

#include <optional>

namespace pipec {

/// A message that must be sent, once per micro-batch or (weights) once per run. Ranks are the
/// plan's.
struct Edge {
  Payload payload = Payload::Activation;
  size_t channel = 0;
  size_t maker = 0; // stage; 0 unless a gradient
  size_t from = 0, to = 0;

  bool perRun() const { return isPerRun(payload); }
};

/// An input of an op: made by `stage` of its own rank, or received on an edge.
struct Need {
  std::optional<size_t> edge;
  size_t stage = 0, channel = 0;
};

struct StageDemands {
  std::vector<Need> forward, backward;
  std::vector<size_t> gradientEdges; // received by the owner of a weight
  std::vector<size_t> alsoDone;      // stages of the same rank that add to this stage's weight
                                     // gradients
  std::vector<size_t> ties;          // ties whose gradients are summed over copies
};

class Demands {
public:
  Demands(const Plan &plan, bool train);

  const std::vector<Edge> &edges() const { return edges_; }
  const StageDemands &of(size_t stage) const { return stages_[stage]; }
  const std::vector<size_t> &stagesOn(size_t rank) const { return onRank_[rank]; }
  size_t slotOf(size_t stage) const { return slots_[stage]; } // among the stages of its rank
  /// The edge of a channel between two ranks; `maker` is compared for gradients only.
  std::optional<size_t> find(Payload payload, size_t channel, size_t maker, size_t from,
                             size_t to) const;
  std::vector<size_t> ranksOfTie(size_t tie) const; // ascending; none when nothing is summed
  /// Stages of `rank` that read weight channel `channel`.
  std::vector<size_t> weightReaders(size_t channel, size_t rank) const;

private:
  size_t rankOf(size_t stage) const { return plan_.stages[stage].rank; }
  std::vector<size_t> consumers(const Channel &channel) const;
  Need need(Payload payload, size_t channel, size_t from, size_t to);
  void addActivation(size_t c, bool train);
  void addWeight(size_t c);

  const Plan &plan_;
  std::vector<Edge> edges_;
  std::vector<std::vector<size_t>> edgesOf_; // per channel
  std::vector<StageDemands> stages_;
  std::vector<std::vector<size_t>> onRank_;
  std::vector<size_t> slots_;
  std::vector<std::vector<size_t>> tieRanks_;
};

} // namespace pipec
