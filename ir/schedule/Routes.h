// For the lowering: every way that values take from one rank to another, by stage.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// One message per micro-batch (weights: one per run). `maker`: the stage that computes it.
struct Route {
  Payload payload = Payload::Activation;
  size_t channel = 0, maker = 0, lane = 0;
};

/// Of one replica. Lists hold indices into `routes`.
struct Routes {
  using List = std::vector<uint32_t>;

  std::vector<Route> routes;
  std::vector<Lane> lanes;          // ordered by payload, from, to; windows are 1
  std::vector<size_t> routesOfLane; // per lane: how many
  std::vector<List> takesOfForward, sendsOfForward, takesOfBackward, sendsOfBackward; // per stage
  std::vector<List> weightsOut, weightsBack; // per stage that owns them: sent, gradient taken
  std::vector<List> weightGradsOut; // per stage that reads them, of its rank: the gradient returns
  /// Per route: stages of the sending rank that must have finished before a weight's gradient goes.
  std::vector<uint32_t> readersOnRank;
};

Routes routesOf(const Plan &plan, bool train);

} // namespace pipec
