// How a reference cuts its batch and merges the results: found by test runs, since a .pt has no
// plan.
#include "ir/NodeInfo.h"
#include "ir/TorchError.h"
#include "ir/batch/CutCandidates.h"
#include "ir/batch/FixedBatch.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/ResultTree.h"
#include "ir/batch/discovery/Discovery.h"
#include "ir/batch/discovery/DiscoveryNotes.h"
#include "ir/batch/discovery/SizeConstants.h"
#include "ir/batch/discovery/SizeTrust.h"
#include "ir/graph/Dropout.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/values/ArgumentText.h"
#include "runtime/ReferenceImpl.h"
#include "runtime/ThreadSettings.h"
#include "runtime/WrittenState.h"

#include <c10/core/GradMode.h>

namespace pipec {

/// The error of a model that fails only where there is no grad mode. `inner`: the operator that
/// needs one, in words.
static llvm::Error withoutGradients(llvm::Error error, const std::string &inner) {
  const ErrorText text = describe(std::move(error));
  return makeError(
      ExitCode::Usage,
      fmt::format("{}: the model computes gradients itself, which inference and evaluation do not "
                  "allow, as torch.no_grad() does not: {}",
                  inner, llvm::StringRef(text.message).split('\n').first.str()),
      "compute them in training only (if self.training), or train without --eval-data");
}

/// A whole batch is not cut, so sizes alone give the number of samples.
void Reference::Impl::guessBatch(const std::vector<c10::IValue> &inputs) {
  Signature asGiven = signature;
  for (size_t i = 0; i < inputs.size(); ++i)
    asGiven.inputs[i].parts = partsGiven[i];
  llvm::Expected<std::vector<CutCandidate>> ways = cutCandidates(asGiven, inputs, batchDimGiven);
  if (ways && !ways->empty())
    setCut(signature, ways->front().dims);
  // Without a guess nothing is cut, which is right for one micro-batch. learn() reports the error.
  llvm::consumeError(ways.takeError());
}

llvm::Expected<BatchDiscovery> Reference::Impl::discover(Signature &of,
                                                         const std::vector<c10::IValue> &inputs,
                                                         int64_t microBatches) {
  DiscoveryOptions how;
  how.batchDimGiven = batchDimGiven;
  how.merges = options.merges;
  how.microBatches = microBatches;
  how.findsTree = true;
  how.drawsRandom = [this] { return drew; };
  how.valueDependentDraw = [this, draw = valueDependentDrawIn(*module)] {
    return drew ? draw : std::string();
  };
  how.listsValues = listsValuesIn(*module);
  how.sizeConstants = sizeConstantsIn(*module);
  how.writesState = [this] { return wrote; };
  how.trains = training != nullptr;
  how.norms = TRY(guardTorch(ExitCode::Internal, path + ": reading training flags", [&] {
    return trainingModulesWithLoss(*module, options.method, loss).norms();
  }));
  how.trustsSizes = anyNodeInside(*module, mayRunForEverAtOtherSizes);
  auto runEach = [this](std::vector<std::vector<Values>> experiments, const RunRules &rules,
                        bool dropsNothing) {
    std::vector<llvm::Expected<Values>> results;
    DecidingRuns rule;
    for (size_t e = 0; e < experiments.size(); ++e)
      results.push_back(rule.start(
          e < rules.deciding, [&] { return runFresh(std::move(experiments[e]), dropsNothing); }));
    return results;
  };
  auto runAll = [&](std::vector<std::vector<Values>> experiments, const RunRules &rules) {
    return runEach(std::move(experiments), rules, /*dropsNothing=*/false);
  };
  auto runWithoutDropout = [&](std::vector<std::vector<Values>> experiments,
                               const RunRules &rules) {
    return runEach(std::move(experiments), rules, /*dropsNothing=*/true);
  };
  if (how.trains && !anyNodeInside(*module, drawsOtherThanDropout))
    how.withoutDropout = runWithoutDropout;
  return discoverBatch(of, inputs, how, runAll);
}

/// Finds out how the batch is cut, before the first call with several micro-batches.
llvm::Error Reference::Impl::learn(const std::vector<c10::IValue> &inputs) {
  // Gradients that the model computes itself need the graph that a step of a training has.
  const std::string inner = innerGradientIn(*module);
  const bool walksBack = training && !inner.empty();
  const c10::AutoGradMode mode(walksBack || c10::GradMode::is_enabled());
  llvm::Expected<BatchDiscovery> found = discover(signature, inputs, options.microBatches);
  if (!found && training && !c10::GradMode::is_enabled()) {
    // The model may ask for the graph that a step has, as retain_grad() does.
    const c10::AutoGradMode gradients(true);
    Signature again = signature;
    if (auto second = discover(again, inputs, options.microBatches)) {
      llvm::consumeError(found.takeError());
      found = std::move(second);
      signature = std::move(again);
    } else {
      llvm::consumeError(second.takeError());
    }
  }
  if (!found) {
    if (!inner.empty() && !c10::GradMode::is_enabled() && runsWithGradients(inputs))
      return withoutGradients(found.takeError(), inner);
    return found.takeError();
  }
  llvm::append_range(notes, found->notes);
  warnings = std::move(found->warnings);
  shown = std::move(found->shown);
  known = true;
  return llvm::Error::success();
}

/// After the first call: the state that its micro-batches have written one after the other.
llvm::Error Reference::Impl::noteState() {
  if (!keepsState || options.microBatches == 1 || !isCut(signature))
    return llvm::Error::success();
  const jit::Module before = TRY(freshModule());
  return guardTorchVoid(ExitCode::Other, path + ": reading the model's state", [&] {
    const std::vector<std::string> names =
        changedState(stateOf(before, /*withParameters=*/false), stateOf(*module, false));
    if (!names.empty())
      notes.push_back(noteOnState(names));
  });
}

void Reference::Impl::tryPair(const std::vector<c10::IValue> &microBatch) {
  ThreadSettings settings(threads);
  Signature tried = signature;
  llvm::Expected<BatchDiscovery> found = discover(tried, microBatch, 1);
  if (!found) { // the micro-batches run, so only the test fails: nothing is shown
    llvm::consumeError(found.takeError());
    return;
  }
  if (tried.leaves.size() != signature.leaves.size())
    return;
  for (size_t l = 0; l < tried.leaves.size(); ++l)
    signature.leaves[l].merge = tried.leaves[l].merge;
  shown = std::move(found->shown);
}

/// A micro-batch does not run: the model's constants may fix another size, or it computes gradients
/// itself.
llvm::Error Reference::Impl::explained(llvm::Error error, const std::vector<c10::IValue> &inputs) {
  const std::string inner = c10::GradMode::is_enabled() ? "" : innerGradientIn(*module);
  if (!inner.empty() && runsWithGradients(inputs))
    return withoutGradients(std::move(error), inner);
  const std::vector<bool> given = known ? std::vector<bool>(inputs.size(), true) : batchDimGiven;
  return explainFixedBatch(withArguments(std::move(error), signature, inputs), signature, inputs,
                           given, [this](std::vector<std::vector<c10::IValue>> inOrder) {
                             return runFresh(std::move(inOrder));
                           });
}

bool Reference::Impl::runsWithGradients(const std::vector<c10::IValue> &inputs) {
  const c10::AutoGradMode gradients(true);
  llvm::Error error = runFresh({ownCopies(inputs)}).takeError();
  const bool runs = !error;
  llvm::consumeError(std::move(error));
  return runs;
}

/// The leaves of each result. A list that has another length than in the trial becomes a leaf.
llvm::Expected<std::vector<std::vector<c10::IValue>>>
Reference::Impl::leavesOf(llvm::ArrayRef<c10::IValue> results) {
  for (const c10::IValue &result : results)
    agreeWithResult(signature, result);
  std::vector<std::vector<c10::IValue>> leaves;
  for (const c10::IValue &result : results) {
    std::vector<c10::IValue> flat = TRY(flattenOutputs(signature, result));
    leaves.push_back(std::move(flat));
  }
  return leaves;
}

} // namespace pipec
