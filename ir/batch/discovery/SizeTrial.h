// Which sizes of the inputs beside the batch may differ from run to run, found by running the model
// at other sizes.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Samples of the runs at other sizes, where the batch has any size. A single sample is a special
/// case for some models; more take longer and show no more of other sizes.
inline constexpr int64_t kSizeTrialSamples = 2;

/// One run of the model at other sizes than the example's.
struct SizeRun {
  std::vector<c10::IValue> inputs, leaves;
};

/// After discoverBatch. Dimensions of one size vary together (the length of tokens and of their
/// mask); where the model refuses that, all of them but one. A dimension that varies is dynamic in
/// `signature`, and so is every size and stride of inputs and leaves that follows it. Gives the
/// runs with all of them at other sizes, none where nothing varies: where decisions that were taken
/// from the example do not hold for their inputs, nothing varies; nor where two runs differ, as of
/// kernels that read what is beside their memory. `keepsFeatures`: last sizes of tensors of numbers
/// stay. `runAll` as for discoverBatch.
std::vector<SizeRun> sizeTrial(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                               bool keepsFeatures, ModelRuns runAll,
                               llvm::function_ref<bool(llvm::ArrayRef<c10::IValue>)> decidesAlike);

/// Whether the inputs have dimensions that sizeTrial() tries at other sizes.
bool mayVary(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs, bool keepsFeatures);

/// Adds what a run with `batch` samples shows of the signature's inputs and leaves.
void widen(Signature &signature, const SizeRun &run, int64_t batch);

/// Adds what `other`, seen at `batch` samples, shows of a value that `spec` describes at other
/// sizes of the inputs. Sizes and strides that differ become dynamic. Another dtype or rank makes
/// the spec unknown.
void widen(TensorSpec &spec, const TensorSpec &other, int64_t batch);

} // namespace pipec
