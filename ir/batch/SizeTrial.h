// Which sizes of the inputs beside the batch may differ from run to run, found by running the model
// at other sizes.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// One run of the model at other sizes than the example's.
struct SizeRun {
  std::vector<c10::IValue> inputs, leaves;
};

/// What running the model in its normal form at other sizes showed.
struct NormalFormRun {
  bool decidesAlike = true;     // all decisions that were taken from the example hold here too
  std::optional<Values> leaves; // its results; nothing if it did not run
};

/// After discoverBatch. Dimensions of one size vary together (the length of tokens and of their
/// mask); where the model refuses that, all of them but one. A dimension that varies is dynamic in
/// `signature`, and so is every size and stride of inputs and leaves that follows it. Gives the
/// runs with all of them at other sizes, none where nothing varies. `runNormalForm` is called with
/// the inputs of each: where it decides otherwise than on the example, nothing varies; nor where
/// two runs differ, as of kernels that read what is beside their memory. The normal form's results
/// are the second run if they have the same bits; otherwise the model runs again. `keepsFeatures`:
/// last sizes of tensors of numbers stay. `runAll` as for discoverBatch.
std::vector<SizeRun>
sizeTrial(Signature &signature, llvm::ArrayRef<c10::IValue> inputs, bool keepsFeatures,
          ModelRuns runAll,
          llvm::function_ref<NormalFormRun(llvm::ArrayRef<c10::IValue>)> runNormalForm);

/// Adds what a run with `batch` samples shows of the signature's inputs and leaves.
void widen(Signature &signature, const SizeRun &run, int64_t batch);

/// Adds what `other`, seen at `batch` samples, shows of a value that `spec` describes at other
/// sizes of the inputs. Sizes and strides that differ become dynamic. Another dtype or rank makes
/// the spec unknown.
void widen(TensorSpec &spec, const TensorSpec &other, int64_t batch);

} // namespace pipec
