// For the lowering: all routes of values from one rank to another, by stage.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// One message per micro-batch (weights: one per run). `maker`: the stage that computes it.
struct Route {
  Payload payload = Payload::Activation;
  size_t channel = 0, maker = 0, lane = 0;
};

/// The routes of one replica. Lists hold indices into `routes`.
struct Routes {
  using List = std::vector<uint32_t>;

  std::vector<Route> routes;
  std::vector<Lane> lanes;          // ordered by payload, from, to; windows are 1
  std::vector<size_t> routesOfLane; // per lane: number of routes
  std::vector<List> takesOfForward, sendsOfForward, takesOfBackward, sendsOfBackward; // per stage
  std::vector<List> weightsOut, weightsBack; // per owner stage: weights sent, their gradients taken
  std::vector<List> weightGradsOut; // per reading stage, for its rank: the gradient that returns
  /// Per route: stages of the sending rank that must finish before a weight's gradient is sent.
  std::vector<uint32_t> readersOnRank;
};

Routes routesOf(const Plan &plan, bool train);

} // namespace pipec
