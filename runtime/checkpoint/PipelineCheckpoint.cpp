// The checkpoints of a pipeline: one file per stage.
#include "ir/TorchError.h"
#include "ir/checkpoint/CheckpointFolder.h"
#include "ir/checkpoint/Restore.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/PipelineTraining.h"
#include "runtime/checkpoint/TrainingRecord.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>

namespace pipec {

namespace {

bool isDefinedTensor(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().defined();
}

bool isTensorWeight(const StageAttribute &attribute, const c10::IValue &value) {
  return (attribute.kind == AttributeKind::Parameter || attribute.kind == AttributeKind::Buffer) &&
         isDefinedTensor(value);
}

/// Collects what each stage saves. A tensor of several stages is saved once: a parameter by the
/// stage that counts in the norm, state by the stage that writes it.
class StageStates {
public:
  explicit StageStates(const PipelineCore &core)
      : core_(core), plan_(core.artifact.plan), ofStages_(plan_.stages.size()) {}

  llvm::Expected<std::vector<std::vector<SavedValue>>> collect() {
    for (size_t p = 0; p < plan_.training->parameters.size(); ++p)
      addTrained(p);
    for (bool written : {true, false})
      for (size_t s = 0; s < plan_.stages.size(); ++s)
        for (size_t a = 0; a < plan_.stages[s].attributes.size(); ++a)
          if (plan_.stages[s].attributes[a].written == written)
            TRY(addAttribute(s, a));
    return std::move(ofStages_);
  }

private:
  void addTrained(size_t number) {
    const TrainedParameter &parameter = plan_.training->parameters[number];
    const PortRef owner = plan_.training->owner(number, plan_.stages);
    SavedValue saved;
    saved.about.name = parameter.name;
    saved.about.otherNames = parameter.otherNames;
    saved.value = core_.executors[owner.stage]->module().attribute(owner.port).toTensor().detach();
    saved.optimizer = core_.trainings[owner.stage]->optimizerState(owner.port);
    note(owner.stage, std::move(saved));
  }

  llvm::Error addAttribute(size_t stage, size_t port) {
    const StageAttribute &attribute = plan_.stages[stage].attributes[port];
    const c10::IValue &value = core_.executors[stage]->module().attribute(port);
    if (attribute.channel || names_.count(attribute.name) ||
        !(attribute.written || isTensorWeight(attribute, value)))
      return llvm::Error::success();
    if (attribute.kind == AttributeKind::Object)
      return failf(ExitCode::Usage,
                   "checkpoint: {}: expected state of tensors, numbers, texts and their "
                   "containers, got an object",
                   attribute.name);
    SavedValue saved;
    saved.about.name = attribute.name;
    for (const std::string &other : attribute.otherNames)
      if (!names_.count(other))
        saved.about.otherNames.push_back(other);
    saved.about.kind = isTensorWeight(attribute, value) ? attribute.kind : AttributeKind::Value;
    saved.value = isDefinedTensor(value) ? c10::IValue(value.toTensor().detach()) : value;
    note(stage, std::move(saved));
    return llvm::Error::success();
  }

  void note(size_t stage, SavedValue saved) {
    names_.insert(saved.about.name);
    names_.insert(saved.about.otherNames.begin(), saved.about.otherNames.end());
    ofStages_[stage].push_back(std::move(saved));
  }

  const PipelineCore &core_;
  const Plan &plan_;
  std::vector<std::vector<SavedValue>> ofStages_;
  std::set<std::string> names_;
};

/// Finds the place of every value, and fills them when all have one.
class StageRestore {
public:
  StageRestore(PipelineCore &core, const OpenedCheckpoint &checkpoint,
               const CheckpointValues &values)
      : core_(core), plan_(core.artifact.plan), checkpoint_(checkpoint), values_(values) {}

  /// Changes nothing. Throws LibTorch's exceptions.
  llvm::Error prepare() {
    for (const TrainedParameter &parameter : plan_.training->parameters)
      addNames(parameter.name, parameter.otherNames);
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      for (size_t a = 0; a < plan_.stages[s].attributes.size(); ++a) {
        addNames(plan_.stages[s].attributes[a].name, plan_.stages[s].attributes[a].otherNames);
        TRY(prepareAttribute(s, a));
      }
    return checkNoneIsLeft(values_, names_);
  }

  /// Whether the optimizers take their states. Changes nothing. Throws LibTorch's exceptions.
  llvm::Error checkStates() const {
    for (const auto &[stage, port, saved] : places_)
      if (llvm::Error error = core_.trainings[stage]->checkOptimizerState(port, saved->optimizer))
        return withContext(std::move(error), "checkpoint: " + saved->about.name);
    return llvm::Error::success();
  }

  /// Throws LibTorch's exceptions.
  llvm::Error fill() {
    for (size_t k = 0; k < core_.replicas; ++k)
      TRY(fill(core_.executorsOf(k), core_.trainingsOf(k)));
    return llvm::Error::success();
  }

private:
  struct Place {
    size_t stage, port;
    const SavedValue *saved;
  };

  /// The stages of one replica.
  llvm::Error fill(const std::vector<std::unique_ptr<StageExecutor>> &executors,
                   const std::vector<std::unique_ptr<StageTraining>> &trainings) {
    for (const auto &[stage, port, saved] : places_) {
      StageModule &module = executors[stage]->module();
      llvm::Expected<c10::IValue> own =
          restored(saved->value, module.attribute(port), module.attributeType(port));
      if (!own)
        return withContext(own.takeError(),
                           fmt::format("{}: restoring stage {}", checkpoint_.directory, stage));
      module.setAttribute(port, std::move(*own));
      OptimizerState state = saved->optimizer;
      for (auto &[key, value] : state)
        if (value.isTensor()) // copies of a weight have states of their own
          value = value.toTensor().clone();
      if (llvm::Error error = trainings[stage]->setOptimizerState(port, std::move(state)))
        return withContext(std::move(error), checkpoint_.directory + ": restoring " +
                                                 plan_.stages[stage].attributes[port].name);
    }
    return llvm::Error::success();
  }

  void addNames(const std::string &name, const std::vector<std::string> &others) {
    names_.push_back(name);
    names_.insert(names_.end(), others.begin(), others.end());
  }

  const SavedValue *find(const StageAttribute &attribute) const {
    if (const SavedValue *saved = values_.find(attribute.name))
      return saved;
    for (const std::string &other : attribute.otherNames)
      if (const SavedValue *saved = values_.find(other))
        return saved;
    return nullptr;
  }

  llvm::Error prepareAttribute(size_t stage, size_t port) {
    const StageAttribute &attribute = plan_.stages[stage].attributes[port];
    const c10::IValue &value = core_.executors[stage]->module().attribute(port);
    if (attribute.channel || !(attribute.written || isTensorWeight(attribute, value)))
      return llvm::Error::success();
    const SavedValue *saved = find(attribute);
    if (!saved)
      return missingInCheckpoint(attribute.name);
    if (!attribute.written || attribute.kind == AttributeKind::Parameter) {
      TRY(checkFits(*saved, value.toTensor()));
      TRY(checkStateFits(*saved, value.toTensor()));
    } else {
      TRY(checkDeclared(*saved, core_.executors[stage]->module().attributeType(port)));
    }
    places_.push_back({stage, port, saved});
    return llvm::Error::success();
  }

  PipelineCore &core_;
  const Plan &plan_;
  const OpenedCheckpoint &checkpoint_;
  const CheckpointValues &values_;
  std::vector<Place> places_;
  std::vector<std::string> names_;
};

llvm::Error pipelineInfers(const char *what) {
  return makeError(ExitCode::Usage,
                   std::string(what) + ": expected a pipeline with training options, got one "
                                       "without",
                   "set PipelineOptions::training");
}

} // namespace

TrainingRecord Pipeline::Impl::record() {
  const int64_t planned = std::max<int64_t>(core->artifact.plan.microBatches, 1) * replicas();
  return {*core->training,      training->rates,
          training->skipped,    calls,
          core->data.seed,      training->given ? training->given : wanted ? wanted : planned,
          training->given != 0, threadsPerRank};
}

llvm::Error Pipeline::saveCheckpoint(const std::string &directory,
                                     const CheckpointOptions &options) {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  Impl &impl = *impl_;
  if (!impl.training)
    return pipelineInfers("a checkpoint");
  TRY(impl.usableAgain());
  std::vector<std::vector<SavedValue>> states;
  llvm::Error collected =
      guardTorchError(ExitCode::Other, "collecting a checkpoint", [&]() -> llvm::Error {
        states = TRY(StageStates(*impl.core).collect());
        return llvm::Error::success();
      });
  TRY(std::move(collected));
  CheckpointText text = TRY(describeTraining(impl.record(), options));
  CheckpointWriter writer = TRY(CheckpointWriter::create(directory, text.step));
  for (size_t s = 0; s < states.size(); ++s) {
    CheckpointFile file =
        TRY(writeSaved(writer.directory(), fmt::format("stage-{}.pt", s), std::move(states[s])));
    text.files.push_back(std::move(file));
  }
  return writer.finish(text, options.keep);
}

llvm::Expected<ResumedTraining> Pipeline::resume(const std::string &path, bool passOverDamaged) {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  Impl &impl = *impl_;
  if (!impl.training)
    return pipelineInfers("a resume");
  TRY(impl.usableAgain());
  TrainingRecord record = impl.record();
  std::vector<std::string> differences;
  auto check = [&](const OpenedCheckpoint &opened, const CheckpointValues &values) -> llvm::Error {
    auto fits = [&]() -> llvm::Error {
      differences = TRY(compareSettings(opened.text, record));
      StageRestore places(*impl.core, opened, values);
      TRY(places.prepare());
      return places.checkStates();
    };
    return withContext(guardTorchError(ExitCode::BadArtifact, "restoring", fits), opened.directory);
  };
  const ReadCheckpoint found = TRY(readCheckpoint(
      path, passOverDamaged ? WhichCheckpoint::NewestGood : WhichCheckpoint::Newest, check));
  const OpenedCheckpoint &checkpoint = found.opened;
  StageRestore places(*impl.core, checkpoint, found.values);
  TRY(guardTorchError(ExitCode::BadArtifact, checkpoint.directory + ": restoring", [&] {
    c10::AutoGradMode noGrad(false);
    if (llvm::Error error = places.prepare())
      return error;
    return places.fill();
  }));
  return resumeRecord(checkpoint, record, std::move(differences));
}

} // namespace pipec
