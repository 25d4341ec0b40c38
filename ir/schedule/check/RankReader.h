// For the checker: reads one rank's ops once, in order.
#pragma once

#include "ir/schedule/check/Demands.h"

namespace pipec {

/// The fields of a message that its lane compares.
struct LaneMessage {
  uint32_t edge = 0;
  int32_t microBatch = 0;
  bool operator==(const LaneMessage &) const = default;
};

/// The messages of a lane as both ends list them, each in its own order.
struct LaneRecord {
  std::vector<LaneMessage> sent, taken, posted;
};

/// Shared by the readers of all ranks.
struct Records {
  std::vector<LaneRecord> lanes;
  std::vector<uint8_t> sent, taken;                      // per replica, edge, micro-batch
  std::vector<std::vector<std::vector<Op>>> collectives; // per group and member: in its order
};

std::string messageText(const Edge &edge, const LaneMessage &message);
std::string opText(const Program &program, size_t rank, size_t index);

class RankReader {
public:
  RankReader(const Program &program, const Plan &plan, const RunShape &shape,
             const Demands &demands, Records &records, size_t rank);

  /// Checks that every op belongs to this rank, comes once and after its inputs, and that none is
  /// missing.
  llvm::Error run();

private:
  enum Bit : uint8_t { F = 1, B = 2, I = 4, W = 8, R = 16 };

  llvm::Error bad(size_t index, const std::string &message) const;
  llvm::Error read(size_t index);
  llvm::Error readCompute(size_t index);
  llvm::Error readNeeds(size_t index, const std::vector<Need> &needs, bool backward) const;
  llvm::Error readMessage(size_t index);
  llvm::Error readSend(size_t index, size_t edge, LaneRecord &lane);
  llvm::Error readTake(size_t index, size_t edge, LaneRecord &lane);
  llvm::Error readCollective(size_t index);
  llvm::Error readOptimize(size_t index);
  llvm::Error complete() const;

  size_t planRank(size_t rank) const { return rank % plan_.ranks; }
  bool isHere(size_t stage) const {
    return stage < plan_.stages.size() && plan_.stages[stage].rank == planRank(rank_);
  }
  uint8_t &bits(size_t stage, int64_t microBatch) {
    return done_[demands_.slotOf(stage) * static_cast<size_t>(shape_.microBatches) +
                 static_cast<size_t>(microBatch)];
  }
  uint8_t bits(size_t stage, int64_t microBatch) const {
    return const_cast<RankReader *>(this)->bits(stage, microBatch);
  }
  size_t record(size_t edge, int64_t microBatch) const {
    return ((rank_ / plan_.ranks) * demands_.edges().size() + edge) *
               static_cast<size_t>(shape_.microBatches) +
           static_cast<size_t>(microBatch);
  }
  bool finished(size_t stage) const {
    return finished_[demands_.slotOf(stage)] == shape_.microBatches;
  }
  /// Empty if all gradients of a stage are summed (over replicas too, if `reduced`); otherwise what
  /// is missing.
  std::string notFinal(size_t stage, bool reduced) const;

  const Program &program_;
  const Plan &plan_;
  const RunShape &shape_;
  const Demands &demands_;
  Records &records_;
  size_t rank_;
  std::vector<uint8_t> done_;     // per stage of the rank and micro-batch: bits
  std::vector<int64_t> finished_; // per stage of the rank: whole backwards
  std::vector<bool> reduced_;     // per stage of the rank
  std::vector<bool> optimized_;   // per stage of the rank
  std::vector<bool> tieReduced_;  // per tie
  bool norm_ = false;
};

} // namespace pipec
