// The memory of tensors in a step of a training, noted op by op: every rank has a device with
// memory of its own, whose allocator is watched.
#pragma once

#include "ir/schedule/ProgramCosts.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/Pipeline.h"
#include "runtime/RunTrace.h"
#include "tests/runtime/OwnMemory.h"

#include <limits>
#include <memory>
#include <thread>
#include <vector>

namespace pipec {

/// A piece of memory: who allocated and who freed it, and when.
struct Piece {
  int64_t bytes = 0;
  std::thread::id by, freedBy;
  int64_t from = 0, to = std::numeric_limits<int64_t>::max();
};

/// All pieces of tensors' memory that are allocated while `body` runs.
std::vector<Piece> notedPieces(llvm::function_ref<void()> body);

/// An op, from its first fence to its last.
struct NotedOp {
  Op op;
  int64_t begin = 0, until = 0;
};

struct NotedStep {
  RunTrace trace;
  std::vector<Piece> pieces;
  std::vector<std::thread::id> threads;    // of ranks
  std::vector<std::vector<NotedOp>> ranks; // all ops before the first collective

  /// What the rank holds before the op, of what it also frees: the receiver frees the values that a
  /// rank sends. Single numbers, such as the gradient of the loss, do not count.
  int64_t heldBefore(size_t rank, const NotedOp &op) const;
  /// The most that the op holds beyond that, with what it makes for others.
  int64_t mostDuring(size_t rank, const NotedOp &op) const;
  /// The most that the rank holds of what the step allocated.
  int64_t most(size_t rank) const;
};

/// While it lives, "own" is the name of devices with memory of their own, one for each rank of the
/// pipeline that is loaded.
class OwnMemories {
public:
  OwnMemories();

private:
  TestDevices devices_;
};

/// Notes the next step of a pipeline on such devices.
llvm::Expected<NotedStep> noteStep(Pipeline &pipeline, const std::vector<c10::IValue> &batch);

/// The bytes of a plan's stages, as two steps of one micro-batch on a rank for each stage show
/// them: `whole` with B, `split` with I and W. `sentBytes` and `keptByReader` are right of stages
/// that send one value and of those that receive one. Times are 1.
ProgramCosts notedCosts(const Plan &plan, const NotedStep &whole, const NotedStep &split);

} // namespace pipec
