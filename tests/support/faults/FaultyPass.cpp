#include "tests/support/faults/FaultyPass.h"

#include "passes/Registry.h"
#include "tests/support/faults/PlantedFaults.h"
#include "tests/support/faults/TrainingFaults.h"
#include "tools/cli/OptionValues.h"

#include <fmt/format.h>

namespace pipec {

namespace {

struct Plant {
  std::string fault;
  std::shared_ptr<bool> done;

  template <typename Any> llvm::Expected<bool> tryOn(Any &model) const {
    if (*done)
      return false;
    llvm::Expected<bool> planted = plantFault(fault, model);
    *done = planted && *planted;
    return planted;
  }
};

template <typename Pass, typename Any> struct FaultyInPlace : Pass {
  std::unique_ptr<Pass> pass;
  Plant plant;
  FaultyInPlace(std::unique_ptr<Pass> good, Plant toPlant)
      : pass(std::move(good)), plant(std::move(toPlant)) {}

  llvm::Expected<bool> run(Any &model, PassContext &context) override {
    llvm::Expected<bool> changed = pass->run(model, context);
    if (!changed)
      return changed;
    llvm::Expected<bool> broken = plant.tryOn(model);
    if (!broken)
      return broken;
    return *changed || *broken;
  }
};

struct FaultySplit : SplitPass {
  std::unique_ptr<SplitPass> pass;
  Plant plant;
  FaultySplit(std::unique_ptr<SplitPass> good, Plant toPlant)
      : pass(std::move(good)), plant(std::move(toPlant)) {}

  llvm::Expected<StagedModel> run(Model model, PassContext &context) override {
    llvm::Expected<StagedModel> staged = pass->run(std::move(model), context);
    if (!staged)
      return staged;
    if (llvm::Expected<bool> broken = plant.tryOn(*staged); !broken)
      return broken.takeError();
    return staged;
  }
};

template <typename Faulty, typename Pass>
PassInfo::Factory withFault(const MakePass<Pass> &make, Plant plant) {
  return MakePass<Pass>(
      [=](const StepOptions *options) { return std::make_unique<Faulty>(make(options), plant); });
}

struct Wrap {
  Plant plant;

  PassInfo::Factory operator()(const MakePass<ModelPass> &make) const {
    return withFault<FaultyInPlace<ModelPass, Model>, ModelPass>(make, plant);
  }
  PassInfo::Factory operator()(const MakePass<StagedPass> &make) const {
    return withFault<FaultyInPlace<StagedPass, StagedModel>, StagedPass>(make, plant);
  }
  PassInfo::Factory operator()(const MakePass<SplitPass> &make) const {
    return withFault<FaultySplit, SplitPass>(make, plant);
  }
  PassInfo::Factory operator()(const PassGroup &group) const { return group; }
};

} // namespace

FaultyPass::FaultyPass(llvm::StringRef name) {
  auto [fault, pass] = name.split('@');
  fault_ = fault.str();
  pass_ = pass.str();
  if (pass_.empty())
    return;
  table_ = allPasses().vec();
  for (PassInfo &info : table_)
    if (info.name == pass_)
      info.make = std::visit(Wrap{{fault_, planted_}}, info.make);
}

llvm::Error FaultyPass::beforeFiles(StagedModel &model) {
  if (isFaultOfFiles(fault_))
    return llvm::Error::success();
  if (!pass_.empty() && !findPass(pass_))
    return makeError(ExitCode::Usage,
                     fmt::format("--planted-fault {}@{}: no pass has that name", fault_, pass_),
                     "pipe-opt --list-passes names them");
  if (const faults::TrainingFault *fault = faults::findTrainingFault(fault_);
      fault && !fault->ofStages)
    return llvm::Error::success();
  return check(pass_.empty() ? plantFault(fault_, model) : *planted_);
}

llvm::Error FaultyPass::beforeTraining(Plan &plan) {
  const faults::TrainingFault *fault = faults::findTrainingFault(fault_);
  return fault && fault->ofPlan ? check(fault->ofPlan(plan)) : llvm::Error::success();
}

llvm::Error FaultyPass::afterFlags(Plan &plan) {
  const faults::TrainingFault *fault = faults::findTrainingFault(fault_);
  return fault && fault->ofFlags ? check(fault->ofFlags(plan)) : llvm::Error::success();
}

at::Tensor FaultyPass::rootOfStages(const at::Tensor &scale, size_t microBatches) const {
  const faults::TrainingFault *fault = faults::findTrainingFault(fault_);
  return fault && fault->ofRoots ? fault->ofRoots(scale, microBatches) : scale;
}

llvm::Error FaultyPass::afterFiles(const std::string &directory) {
  return isFaultOfFiles(fault_) ? check(plantFault(fault_, directory)) : llvm::Error::success();
}

llvm::Error FaultyPass::check(llvm::Expected<bool> planted) const {
  if (!planted)
    return planted.takeError();
  if (!*planted)
    return makeError(ExitCode::Usage,
                     fmt::format("planted fault {}: the model has nothing to break that way",
                                 fault_ + (pass_.empty() ? "" : "@" + pass_)));
  return llvm::Error::success();
}

namespace {

llvm::cl::OptionCategory testBuilds("test builds");
StringOption plantedFault("planted-fault", llvm::cl::value_desc("NAME"), llvm::cl::Hidden,
                          llvm::cl::cat(testBuilds),
                          llvm::cl::desc("break the stages on purpose (test builds)"));

SizeOption cacheLimit("past-cache-from", llvm::cl::value_desc("SIZE"), llvm::cl::Hidden,
                      llvm::cl::cat(testBuilds),
                      llvm::cl::desc("bytes of weights from which they are written past the "
                                     "kernel's cache (test builds)"));

SizeOption gradientLimit("kept-gradients", llvm::cl::value_desc("SIZE"), llvm::cl::Hidden,
                         llvm::cl::cat(testBuilds),
                         llvm::cl::desc("bytes of parameters up to which gradients of all runs are "
                                        "kept for split backwards (test builds)"));

template <typename Hook> struct WithLimits : Hook {
  using Hook::Hook;
  int64_t keptGradients() const override {
    return gradientLimit.getNumOccurrences() ? int64_t(gradientLimit.getValue())
                                             : Hook::keptGradients();
  }
  int64_t pastCacheFrom() const override {
    return cacheLimit.getNumOccurrences() ? int64_t(cacheLimit.getValue()) : Hook::pastCacheFrom();
  }
};

/// pipe-compile finds the hook there.
[[maybe_unused]] const MakeCompileHook kRegistered =
    testHook = []() -> std::unique_ptr<CompileHook> {
  if (plantedFault.empty())
    return std::make_unique<WithLimits<CompileHook>>();
  return std::make_unique<WithLimits<FaultyPass>>(plantedFault.getValue());
};

} // namespace

} // namespace pipec
