// Runs the source model on the example inputs; the stages are later compared with these runs.
#pragma once

#include "compiler/Import.h"
#include "compiler/Progress.h"
#include "ir/batch/discovery/Discovery.h"
#include "ir/batch/discovery/SizeLinks.h"
#include "ir/batch/discovery/SizeTrial.h"
#include "passes/PassContext.h"

namespace pipec {

/// Calls of one fresh copy of the source: the arguments as they were before each call, and the
/// output leaves of each.
struct ExampleRun {
  bool otherSizes = false;                      // also in dimensions other than the batch
  std::vector<int64_t> batch;                   // samples of each call
  std::vector<std::vector<c10::IValue>> calls;  // in order
  std::vector<std::vector<c10::IValue>> leaves; // of each call
};

/// Whether all decisions that were taken from the example hold for inputs of other sizes, too.
using DecidesAlike = llvm::function_ref<bool(llvm::ArrayRef<c10::IValue>)>;

/// The findings of running the source.
struct ExampleStudy {
  std::vector<ExampleRun> runs;
  std::vector<ResultCheck> results; // per output leaf
  std::string sizeLinks;            // how sizes of several examples are linked
  std::vector<PartSizes> partSizes; // sizes of arguments that are trees which may vary
  std::string fixedBatch;           // why the batch has one size; empty: it has any
  std::vector<bool> shown;          // per output leaf: the runs confirm its merge rule
  std::string batchDims;            // a --batch-dim of which a trial fits better; or empty
  std::string norms;                // of DiscoveryOptions
  std::string uncut;                // of a fixed batch: see uncutArgument
};

/// The user's choices for arguments and results.
struct ExampleChoices {
  std::vector<bool> batchDimGiven; // by argument; the dimension is in the signature
  std::vector<GivenMerge> merges;
  std::string norms; // modules whose batch norms run in training mode, see TrainingModules
};

/// Runs the source at the example's batch size and, if it accepts them, at other sizes, and sets
/// batch dimensions, merge rules and specs of model.signature, see discoverBatch; notes and
/// warnings go to the context. Then runs it on the other examples, whose sizes vary from now on,
/// and at sizes of its own choice, see sizeTrial. The file is mapped anew for each run, so state
/// starts as saved. Random operators draw from the same seed each time. The first of `examples`
/// shows the batch. Errors: those of discoverBatch; Usage for an example that the model refuses or
/// computes in another way than the first one.
llvm::Expected<ExampleStudy> runSource(const std::string &path, const SourceMode &mode,
                                       Model &model, PassContext &context,
                                       const std::vector<Values> &examples,
                                       const ExampleChoices &choices, DecidesAlike decidesAlike,
                                       const ProgressCallback &progress = {});

/// Adds to an error of running the model on `inputs` the batch size that the model's constants fix,
/// and how to free it, if these constants are the cause.
llvm::Error explainExample(llvm::Error error, const std::string &path, const SourceMode &mode,
                           const Signature &signature, const std::vector<c10::IValue> &inputs,
                           const std::vector<bool> &batchDimGiven);

/// Turns an error of running the model in normal form into Internal if the source runs on these
/// inputs. Otherwise the error stays as it is.
llvm::Error blameNormalForm(llvm::Error error, const std::string &path, const SourceMode &mode,
                            const Signature &signature, const std::vector<c10::IValue> &inputs);

} // namespace pipec
