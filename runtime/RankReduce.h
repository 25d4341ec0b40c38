// The messages that the replicas of a stage exchange at REDUCE, and the counts of all
// micro-batches.
#pragma once

#include "runtime/StageTraining.h"
#include "runtime/transport/Collectives.h"

#include <map>
#include <utility>
#include <vector>

namespace pipec {

/// A value per micro-batch, ascending.
using MicroBatchValues = std::vector<std::pair<int64_t, c10::IValue>>;
/// Of the loss and its count, by leaf.
using LeafValues = std::map<size_t, MicroBatchValues>;

/// Adds a value; the first one of a micro-batch stays.
void noteValue(MicroBatchValues &values, int64_t microBatch, const c10::IValue &value);

bool hasLeaf(const StagePlan &stage, size_t leaf);
/// The stage that makes the leaf, on any rank.
size_t stageOfLeaf(const Plan &plan, size_t leaf);

/// The attributes of a stage whose gradients the stage keeps: it owns the weight, or has a copy.
std::vector<size_t> keptAttributes(const Plan &plan, size_t stage);

/// Whether the gradients of other stages are added to a weight of this one.
bool ownsSentWeight(const Plan &plan, size_t stage);

/// Adds the message of one replica: the gradients of these attributes, and the leaves that the
/// stage makes. On the current stream of `device`, that of the stage.
void addReplica(StageTraining &stage, llvm::ArrayRef<size_t> attributes, const LeafValues &leaves,
                Device &device, std::vector<c10::IValue> &message);

/// Replaces the gradients by their sums over the messages of all replicas, in their order, and adds
/// the leaves to `known`. `ready`: when the messages can be used.
void takeReplicas(const GatheredValues &messages, llvm::ArrayRef<size_t> attributes,
                  const Fence &ready, StageTraining &stage, LeafValues &known);

/// Of a loss that is a pair: adds the counts of a rank's micro-batches. Errors: those of lossCount.
llvm::Error addCounts(const MicroBatchValues &values, std::vector<c10::IValue> &message);
/// The counts of all messages, added in their order.
double sumOfCounts(const GatheredValues &messages);

} // namespace pipec
