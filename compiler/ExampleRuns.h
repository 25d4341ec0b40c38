// The source model run on the example inputs: what the stages are later held against.
#pragma once

#include "compiler/Import.h"
#include "compiler/Progress.h"

namespace pipec {

/// Calls of one fresh copy of the source: arguments as they were before each call, and the output
/// leaves of each.
struct ExampleRun {
  bool otherSizes = false;                      // in other dimensions than the batch too
  std::vector<int64_t> batch;                   // samples of each call
  std::vector<std::vector<c10::IValue>> calls;  // in order
  std::vector<std::vector<c10::IValue>> leaves; // of each call
};

/// Whether all that was taken from the example holds for these inputs too.
using DecidesAlike = llvm::function_ref<bool(llvm::ArrayRef<c10::IValue>)>;

/// Runs the source (freshly mapped each time, so that state starts as saved) at the example's batch
/// size and, when it accepts them, at sizes 2, 3 and 5; sets batch dimensions, merge rules and
/// specs of model.signature; then at other sizes of the other dimensions, see sizeTrial. Random
/// operators draw from one seed each time. Errors: Usage (inputs do not fit the method), Other when
/// the source itself fails on the example; those of `decidesAlike`.
llvm::Expected<std::vector<ExampleRun>>
runSource(const std::string &path, const SourceMode &mode, Model &model,
          const std::vector<c10::IValue> &inputs, const std::vector<bool> &batchDimGiven,
          DecidesAlike decidesAlike, const ProgressCallback &progress = {});

/// An error of running the model on `inputs`, with the batch size that its constants fix and how to
/// free it where they are why.
llvm::Error explainExample(llvm::Error error, const std::string &path, const SourceMode &mode,
                           const Signature &signature, const std::vector<c10::IValue> &inputs,
                           const std::vector<bool> &batchDimGiven);

/// An error of running the model in normal form: Internal where the source runs on these inputs,
/// and as it is otherwise.
llvm::Error blameNormalForm(llvm::Error error, const std::string &path, const SourceMode &mode,
                            const Signature &signature, const std::vector<c10::IValue> &inputs);

/// Runs the stages in `directory` on the same inputs, several runs at once where they cannot
/// disturb each other: every leaf must be bit-identical. Fills the specs of plan.channels. Errors:
/// Internal naming the first output, index and both values of the first run that differs.
llvm::Error runStages(const std::string &directory, Plan &plan, const std::vector<ExampleRun> &runs,
                      const ProgressCallback &progress = {});

} // namespace pipec
