// Trainings of a chain of equal layers whose memory is known by hand, on devices that note what
// they hold.
#pragma once

#include "compiler/planner/RecomputeWish.h"
#include "ir/schedule/ProgramCosts.h"
#include "tests/runtime/NotedMemory.h"

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace pipec {

constexpr int64_t kSamples = 32, kWidth = 16, kLayersPerStage = 2; // samples of a micro-batch
constexpr int64_t kLayerBytes = kSamples * kWidth * 4;             // of a result
constexpr int64_t kWeightBytes = kWidth * kWidth * 4;
constexpr int64_t kWide = 128; // numbers for each of a result, inside a layer

enum class Layers {
  /// tanh(x) @ w, of which F keeps one value: the product needs what tanh gave, tanh needs it too,
  /// and nothing needs the product, which is what goes over a cut.
  TanhFirst,
  /// silu(x @ w): F keeps two values, one of them what went over the cut before the stage.
  SiluLast,
  /// tanh(x @ w): what goes over a cut is kept on both sides, and on one rank it is there once.
  TanhLast,
  /// mean(tanh(x + u)) @ w, where u makes kWide numbers of each of x: F keeps far more than what
  /// goes over a cut.
  Wide,
  /// TanhFirst, and what stage 0 makes goes to stage 1, and to stage 2 as well.
  Skip,
};

/// Returns the artifact's path. Every call writes the same one.
std::string compileLayers(Layers layers, size_t stages, RecomputeChoice recompute);

/// The bytes that a micro-batch of TanhFirst holds, worked out by hand. `recomputed`: with those of
/// a recompute.
ProgramCosts costsOf(size_t stages, bool recomputed);

std::vector<c10::IValue> batchOf(int64_t microBatches);

/// With the devices, threads and gradients of a test. Needs OwnMemories. The caller gives schedule
/// and micro-batches.
PipelineOptions ownMemoryOptions();

struct NotedRun {
  Plan plan;
  NotedStep step;
};

/// The second step of a run.
NotedRun noteRun(const std::string &artifact, const PipelineOptions &options);

/// Compares the bytes that ranks hold before every op with those of the simulator, and if the costs
/// have the room of ops, those during it. Returns the number of ops.
size_t compareOps(const NotedRun &run, const ProgramCosts &costs);

} // namespace pipec
