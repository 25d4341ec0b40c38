// The costs of a schedule's stages, in the form of --costs.
#pragma once

#include "ir/costs/CostTable.h"
#include "tools/schedule/ScheduleProgram.h"

namespace pipec {

/// Without `mem`, activations are counted in micro-batches of a whole rank. One of these has this
/// many units, which every usual number of stages per rank divides.
constexpr int64_t kMicroBatchUnits = 720720;

/// `f=1,i=1,w=1,comm=0,mem=2GiB,mem_i=0,bytes=1MiB,rate=10GB,opt=0` or a file. Times are for a rank
/// and one micro-batch (opt: for a step), and the rank's stages share them equally. A file has each
/// stage's own times.
struct CostsText {
  StageCosts whole{1'000'000, 1'000'000, 1'000'000, kMicroBatchUnits, 0};
  int64_t latency = 0;
  int64_t valueBytes = 0, bytesPerSecond = 0, optimizeNs = 0;
  bool inBytes = false;               // unit of memory; false: kMicroBatchUnits
  std::optional<ScheduleCosts> exact; // of a file
  TransferCosts exactTransfers;       // of the same file
  std::optional<Cluster> cluster;
  std::optional<CostTable> operators; // a file of --emit-costs; the other fields are then unused

  ScheduleCosts of(size_t ranks, size_t chunks) const {
    return exact ? *exact : equalCosts(whole, latency, ranks, chunks);
  }
  /// For stages on these ranks.
  TransferCosts transfers(const std::vector<size_t> &rankOfStage) const;
};

/// Times without a unit are milliseconds. Errors: Usage naming the key; IO for a file that cannot
/// be read.
llvm::Expected<CostsText> readCosts(llvm::StringRef text);

} // namespace pipec
