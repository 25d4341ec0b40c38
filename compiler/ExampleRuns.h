// The source model run on the example inputs: what the stages are later held against.
#pragma once

#include "compiler/Import.h"
#include "compiler/Progress.h"
#include "ir/batch/Discovery.h"

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

/// What running the source showed.
struct ExampleStudy {
  std::vector<ExampleRun> runs;
  std::vector<ResultCheck> results; // per output leaf
  std::string sizeLinks;            // how sizes of several examples hang together
};

/// What a user said of arguments and results.
struct ExampleChoices {
  std::vector<bool> batchDimGiven; // by argument; the dimension is in the signature
  std::vector<GivenMerge> merges;
};

/// Runs the source (freshly mapped each time, so that state starts as saved) at the example's batch
/// size and, when it accepts them, at other sizes; sets batch dimensions, merge rules and specs of
/// model.signature, see discoverBatch; then on the other examples, whose sizes vary from now on,
/// and at sizes of its own choice, see sizeTrial. Random operators draw from one seed each time.
/// `examples`: the first one shows the batch. Errors: those of discoverBatch; Usage for an example
/// that the model refuses or computes in another way than the first one.
llvm::Expected<ExampleStudy> runSource(const std::string &path, const SourceMode &mode,
                                       Model &model, const std::vector<Values> &examples,
                                       const ExampleChoices &choices, DecidesAlike decidesAlike,
                                       const ProgressCallback &progress = {});

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
