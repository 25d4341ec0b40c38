// The interface of a pass.
//
// The contract of every pass:
//   - verify() of ir/Verify.h accepts the model that it gets, and must accept the one that it
//     leaves. The manager (passes/PassManager.h) checks both.
//   - It keeps what the model computes: for every input that the model accepts, the results and the
//     written state keep their bits, in a training also the gradients. verify() does not check
//     this. The tests of the pass do, and the run on the example at the end of a compile.
//   - What it has to tell the report or later passes goes into the context (passes/PassContext.h).
//   - It reports truly whether it changed anything, the context included. The manager verifies only
//     after a change, and repeats the passes of fixpoint(...) until none reports one.
//   - After an error the model is in an unknown state, and the pipeline stops.
#pragma once

#include "ir/Model.h"
#include "llvm/ADT/StringRef.h"
#include "passes/PassContext.h"
#include "passes/PassPipeline.h"

#include <functional>
#include <memory>
#include <variant>

namespace pipec {

/// A transformation of a whole model. The manager makes a new object for each run.
class ModelPass {
public:
  virtual ~ModelPass() = default;
  /// Returns true if the model changed. It may rely on verify(const Model &), and its result must
  /// pass it.
  virtual llvm::Expected<bool> run(Model &model, PassContext &context) = 0;
};

/// A transformation of a staged model. The manager makes a new object for each run.
class StagedPass {
public:
  virtual ~StagedPass() = default;
  /// Returns true if the staged model changed. It may rely on verify(const StagedModel &), and its
  /// result must pass it: ports, channels, attributes and ties of all stages still fit together.
  virtual llvm::Expected<bool> run(StagedModel &model, PassContext &context) = 0;
};

/// The one step from a model to stages. It consumes the model; its result shares the attributes'
/// values.
class SplitPass {
public:
  virtual ~SplitPass() = default;
  /// It may rely on verify(const Model &) and on lowered attributes. Its result must pass
  /// verify(const StagedModel &).
  virtual llvm::Expected<StagedModel> run(Model model, PassContext &context) = 0;
};

/// A name for several passes: the manager runs them at every place where a pipeline has the name.
struct PassGroup {
  PassPipeline steps; // of passes that have their own rows
};

/// Makes a pass from the options of a step; null: the defaults.
template <typename Pass>
using MakePass = std::function<std::unique_ptr<Pass>(const StepOptions *options)>;

/// The row of a pass in the registry (passes/Registry.h). docs/passes.md is generated from it.
struct PassInfo {
  llvm::StringRef name;        // kebab-case
  llvm::StringRef description; // one sentence: what it does
  llvm::StringRef requires_;   // the precondition
  llvm::StringRef guarantees;  // the postcondition
  llvm::StringRef example;     // before and after, at most ten lines
  OptionsOfPass options = {};  // of optionsOf<MyPassOptions>(); a pass may have none
  using Factory =
      std::variant<MakePass<ModelPass>, MakePass<StagedPass>, MakePass<SplitPass>, PassGroup>;
  Factory make;
};

template <typename Pass>
using KindOfPass = std::conditional_t<
    std::is_base_of_v<ModelPass, Pass>, ModelPass,
    std::conditional_t<std::is_base_of_v<StagedPass, Pass>, StagedPass, SplitPass>>;

/// `make` for a pass without options.
template <typename Pass> PassInfo::Factory withoutOptions() {
  return MakePass<KindOfPass<Pass>>([](const StepOptions *) { return std::make_unique<Pass>(); });
}

/// `make` for a pass that is constructed from its options.
template <typename Pass, typename Options> PassInfo::Factory withOptions() {
  return MakePass<KindOfPass<Pass>>([](const StepOptions *options) {
    return std::make_unique<Pass>(
        options ? dynamic_cast<const TypedOptions<Options> &>(*options).value : Options());
  });
}

} // namespace pipec
