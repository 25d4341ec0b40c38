// pipe-run --train: the loop over steps, and what it prints and writes.
#pragma once

#include "tools/report/RunReport.h"
#include "tools/run/TrainOptions.h"
#include "tools/run/Trainer.h"

namespace pipec {

/// Of the options of every run, those that a training uses.
struct TrainTarget {
  std::string inputs;           // empty: not given
  std::string output;           // file for parameters and buffers; empty: not given
  std::optional<uint64_t> seed; // given by the user
  int64_t replicas = 1;
  int64_t microBatches = 0; // of all replicas; 0: any number
  bool json = false;
};

/// Trains, prints each step, writes what was asked for. Without a step the report has no
/// durations: a checkpoint was of the last one.
llvm::Error runTraining(const TrainOptions &options, const TrainTarget &target,
                        const Trainer &trainer, RunReport &report);

} // namespace pipec
