// Batch norm whose running statistics are updated once per step, from all its micro-batches.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch::jit {
struct Block;
}

namespace pipec {

/// One call of a batch norm in training mode that would have updated running statistics.
struct NormCall {
  at::Tensor runningMean, runningVar; // the module's own, not changed by the call
  at::Tensor mean, var;               // of the micro-batch, by channel; var: divided by count - 1
  int64_t count = 0;                  // elements per channel
  double momentum = 0;
};

/// Makes batch norms of a graph ones that note their calls instead of updating statistics, while a
/// NormCalls is alive on the thread; their results stay the same. Returns how many there are. Call
/// before the first run.
size_t deferBatchNorms(torch::jit::Block &block);

/// While alive, collects the calls of this thread. `memory`: an empty list, which is used again.
class NormCalls {
public:
  explicit NormCalls(std::vector<NormCall> memory = {});
  ~NormCalls();
  NormCalls(const NormCalls &) = delete;
  NormCalls &operator=(const NormCalls &) = delete;

  std::vector<NormCall> take();

private:
  std::vector<NormCall> calls_;
  NormCalls *outer_;
  friend struct NormCallsOfThread;
};

/// Updates running statistics in place as one call on all elements of `calls` together would, with
/// the momentum of the last call. `calls`: of one batch norm, not empty, in the order of
/// micro-batches.
void updateStatistics(at::Tensor runningMean, at::Tensor runningVar,
                      const std::vector<NormCall> &calls);

/// Refuses a model without batch norm. Errors: Usage.
llvm::Error noBatchNorm();

/// Whether an attribute counts the updates of a batch norm: it goes up by one per step, too.
bool countsBatches(const std::string &name);

} // namespace pipec
