// Evaluation between the steps of a training: a second pipeline, compiled in eval mode, that reads
// the weights of the one that trains.
#include "ir/TensorBytes.h"
#include "ir/TorchError.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/LossLeaf.h"
#include "ir/plan/OutputPath.h"
#include "ir/support/OutputPlace.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"
#include "ir/values/ValueFiles.h"
#include "runtime/EvaluationLoss.h"
#include "runtime/PipelineImpl.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>

namespace pipec {

/// An attribute of an evaluating stage that gets a new value before each evaluation.
struct LentAttribute {
  size_t stage = 0, port = 0;
  bool written = false;                      // the evaluation gets a copy
  c10::IValue own;                           // as its file has it
  std::optional<PortRef> whole;              // the training's attribute, if it is no tensor
  std::vector<std::optional<PortRef>> parts; // otherwise, per tensor in `own`; none: its own
};

struct PipelineEvaluation {
  Pipeline pipeline;
  std::vector<LentAttribute> lent;
  std::optional<LossLeaves> loss;
};

namespace {

/// The attributes of the training's stages. Of several copies, the one that its stage writes.
class TrainedAttributes {
public:
  explicit TrainedAttributes(const PipelineCore &core) : core_(core) {
    const std::vector<StagePlan> &stages = core.artifact.plan.stages;
    for (size_t s = 0; s < stages.size(); ++s)
      for (size_t a = 0; a < stages[s].attributes.size(); ++a)
        for (const std::string &name : stages[s].attributes[a].allNames())
          add(name, {s, a});
  }

  std::optional<PortRef> find(const StageAttribute &attribute) const {
    for (const std::string &name : attribute.allNames())
      if (auto found = byName_.find(name); found != byName_.end())
        return found->second;
    return std::nullopt;
  }

  /// Attributes with the bits of `tensor`, one per name, in the order of names.
  std::vector<std::pair<std::string, PortRef>> equalTo(const at::Tensor &tensor) const {
    std::vector<std::pair<std::string, PortRef>> equal;
    for (const auto &[name, port] : byName_)
      if (const c10::IValue &value = core_.executors[port.stage]->module().attribute(port.port);
          value.isTensor() && isSame(value.toTensor(), tensor) &&
          llvm::none_of(equal, [&port = port](const auto &known) { return known.second == port; }))
        equal.emplace_back(name, port);
    return equal;
  }

  const c10::IValue &value(const PortRef &port) const {
    return core_.executors[port.stage]->module().attribute(port.port);
  }
  const Device &deviceOf(const PortRef &port) const {
    return core_.executors[port.stage]->device();
  }
  bool isWritten(const PortRef &port) const {
    return core_.artifact.plan.stages[port.stage].attributes[port.port].written;
  }

  static bool isSame(const at::Tensor &a, const at::Tensor &b) {
    if (!a.defined() || !b.defined())
      return a.defined() == b.defined();
    if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.layout() != b.layout())
      return false;
    const at::Tensor here = a.detach().cpu(), there = b.detach().cpu(); // of GPUs
    return haveSameBits(here, there) || tensorDigest(here) == tensorDigest(there);
  }

private:
  void add(const std::string &name, PortRef port) {
    auto [known, isNew] = byName_.try_emplace(name, port);
    if (!isNew && isWritten(port) && !isWritten(known->second))
      known->second = port;
  }

  const PipelineCore &core_;
  std::map<std::string, PortRef> byName_;
};

bool hasTensor(const c10::IValue &value) {
  bool has = false;
  forEachTensor(value, [&](const at::Tensor &) { has = true; });
  return has;
}

llvm::Error notSame(const std::string &name) {
  return makeError(ExitCode::Usage,
                   "the artifact for evaluations: expected the weights of the one that trains, got "
                   "other ones: " +
                       name,
                   "compile both from the same file, one with --train and one with --infer");
}

/// A parameter that is not trained: the artifact is of another model.
llvm::Error notTrained(const std::string &name) {
  return makeError(ExitCode::Usage,
                   "the artifact for evaluations: expected parameters of the one that trains, got "
                   "one that it does not have: " +
                       name,
                   "compile both from the same file, one with --train and one with --infer; a "
                   "parameter of eval mode alone needs one artifact, with --train --evaluation");
}

/// Per tensor in a list of weights: LSTM and GRU hold their weights in one.
llvm::Error findParts(const TrainedAttributes &trained, const std::string &name, bool isOther,
                      LentAttribute &lent) {
  llvm::Error error = llvm::Error::success();
  forEachTensor(lent.own, [&](const at::Tensor &tensor) {
    lent.parts.emplace_back();
    if (error || !tensor.defined())
      return;
    const auto equal = trained.equalTo(tensor);
    if (equal.empty() && isOther && tensor.requires_grad())
      error = notTrained(fmt::format("element {} of {}", lent.parts.size() - 1, name));
    if (equal.size() == 1)
      lent.parts.back() = equal.front().second;
    if (equal.size() > 1)
      error = makeError(
          ExitCode::Usage,
          fmt::format("the artifact for evaluations: expected weights in {} that differ from one "
                      "another, got element {}, which is equal to {} and to {}",
                      name, lent.parts.size() - 1, equal[0].first, equal[1].first),
          "give the weights different values before saving the model");
  });
  return error;
}

/// The training's value that the evaluation gets for one attribute; nothing: the file's is right.
/// isOther: the attribute is of another artifact than the one that trains.
llvm::Expected<std::optional<LentAttribute>> lend(const TrainedAttributes &trained, bool isOther,
                                                  const StageAttribute &attribute,
                                                  const c10::IValue &own) {
  LentAttribute lent;
  lent.written = attribute.written;
  lent.own = own;
  if (const std::optional<PortRef> port = trained.find(attribute)) {
    const c10::IValue &value = trained.value(*port);
    if (own.isTensor() && value.isTensor()) {
      if (!TrainedAttributes::isSame(value.toTensor(), own.toTensor()))
        return notSame(attribute.name);
      lent.parts = {*port};
      return std::optional(std::move(lent));
    }
    if (attribute.written || trained.isWritten(*port)) {
      lent.whole = *port;
      return std::optional(std::move(lent));
    }
  } else if (isOther && attribute.kind == AttributeKind::Parameter) {
    return notTrained(attribute.name);
  }
  if (!own.isTensor() && hasTensor(own)) {
    TRY(findParts(trained, attribute.name, isOther, lent));
  } else if (own.isTensor()) {
    lent.parts = {std::nullopt};
  }
  const bool changes =
      attribute.written || llvm::any_of(lent.parts, [](const auto &part) { return bool(part); });
  return changes ? std::optional(std::move(lent)) : std::nullopt;
}

/// On the current stream of `device`.
c10::IValue valueNow(const TrainedAttributes &trained, const LentAttribute &lent, Device &device) {
  auto bring = [&](const PortRef &port) {
    return device.bring(trained.value(port), trained.deviceOf(port));
  };
  if (lent.whole)
    return bring(*lent.whole).deepcopy();
  if (lent.parts.empty())
    return lent.own.deepcopy();
  size_t next = 0;
  return mapTensors(lent.own, [&](const at::Tensor &own) {
    const std::optional<PortRef> &part = lent.parts[next++];
    if (!own.defined() || (!part && !lent.written))
      return own;
    const at::Tensor tensor = (part ? bring(*part).toTensor() : own).detach();
    // The bits of some operators depend on the flag.
    return (lent.written ? tensor.clone() : tensor).set_requires_grad(own.requires_grad());
  });
}

/// Both take the same arguments: the same values are given to both.
llvm::Error compareArguments(const Signature &training, const Signature &evaluation) {
  auto textOf = [](const Signature &signature) {
    std::string text = signature.method + "(";
    for (const InputSpec &input : signature.inputs)
      text += (&input == &signature.inputs.front() ? "" : ", ") + input.name;
    return text + ")";
  };
  if (textOf(training) == textOf(evaluation))
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   "the artifact for evaluations: expected " + textOf(training) + ", got " +
                       textOf(evaluation),
                   training.method == evaluation.method
                       ? "compile both from the same file"
                       : "compile it from the same file, with --infer and the --method and --loss "
                         "of the training");
}

/// The leaf of the loss in eval mode, if the model returns it there.
std::optional<LossLeaves> lossOf(const Plan &training, const Signature &evaluation) {
  std::string path; // empty: the only result
  if (training.signature.leaves.size() != 1 || evaluation.leaves.size() != 1)
    path = outputPath(training.signature, training.training->loss);
  if (training.training->count)
    path += "," + outputPath(training.signature, *training.training->count);
  llvm::Expected<LossLeaves> leaves = lossLeaves(evaluation, path);
  if (leaves)
    return *leaves;
  llvm::consumeError(leaves.takeError()); // eval mode returns something else
  return std::nullopt;
}

/// The stages in eval mode of the trained artifact itself, or of another one.
llvm::Expected<Artifact> evaluationArtifact(const Artifact &training, const std::string &path) {
  llvm::Expected<Artifact> opened =
      path == training.directory ? llvm::Expected<Artifact>(training) : openArtifact(path);
  if (!opened || opened->plan.mode == Mode::Infer)
    return opened;
  std::optional<Artifact> evaluation = TRY(evaluationOf(*opened));
  if (!evaluation)
    return makeError(ExitCode::Usage,
                     path + ": expected an artifact with stages in eval mode, got one compiled "
                            "with --train alone",
                     "compile the model with --train --evaluation");
  return std::move(*evaluation);
}

/// Puts stages on the ranks, and so the devices, of the training's stages, if there are as many.
/// Otherwise all are on the training's first device. Returns the devices.
std::vector<std::string> placeLike(const PipelineCore &training, Artifact &artifact) {
  const Plan &trained = training.artifact.plan;
  Plan &plan = artifact.plan;
  if (plan.stages.size() != trained.stages.size() || plan.scheduleName != "forward-only")
    return {training.devices.front()->name()};
  for (size_t s = 0; s < plan.stages.size(); ++s)
    plan.stages[s].rank = trained.stages[s].rank;
  plan.ranks = trained.ranks;
  artifact.scheduleCsv = toCsv(forwardOnly(plan, plan.microBatches));
  std::vector<std::string> names;
  for (size_t rank = 0; rank < plan.ranks; ++rank) // of replica 0, whose weights are read
    names.push_back(training.devices[rank]->name());
  return names;
}

} // namespace

llvm::Error Pipeline::Impl::startEvaluation(const PipelineOptions &options) {
  PipelineOptions same;
  same.threads = std::max(options.threads, 1);
  same.seed = options.seed;
  Artifact artifact = TRY(evaluationArtifact(core->artifact, options.training->evaluation));
  same.devices = placeLike(*core, artifact);
  Pipeline loaded = TRY(load(std::move(artifact), same));
  PipelineEvaluation made{std::move(loaded), {}, std::nullopt};
  const Plan &plan = made.pipeline.plan();
  if (llvm::Error error = compareArguments(core->artifact.plan.signature, plan.signature))
    return withContext(std::move(error), options.training->evaluation);
  made.loss = lossOf(core->artifact.plan, plan.signature);
  const TrainedAttributes trained(*core);
  const bool isOther = !isSameFile(options.training->evaluation, core->artifact.directory);
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (size_t a = 0; a < plan.stages[s].attributes.size(); ++a) {
      const c10::IValue &own = made.pipeline.impl_->core->executors[s]->module().attribute(a);
      llvm::Expected<std::optional<LentAttribute>> lent =
          lend(trained, isOther, plan.stages[s].attributes[a], own);
      if (!lent)
        return withContext(lent.takeError(), options.training->evaluation);
      if (!*lent)
        continue;
      (*lent)->stage = s;
      (*lent)->port = a;
      made.lent.push_back(std::move(**lent));
    }
  evaluation = std::make_shared<PipelineEvaluation>(std::move(made));
  return llvm::Error::success();
}

llvm::Expected<Evaluation> Pipeline::evaluate(const ValueTree &arguments) {
  Arguments given = TRY(argumentsOfValue("arguments", arguments.ivalue()));
  auto inputs = TRY(bind(given));
  return evaluate(inputs);
}

llvm::Expected<Evaluation> Pipeline::evaluate(const std::vector<c10::IValue> &inputs) {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  if (!impl_->evaluation)
    return makeError(ExitCode::Usage,
                     "evaluate: expected a training with an artifact for evaluations, got none",
                     "set TrainingOptions::evaluation to the artifact, if it was compiled with "
                     "--evaluation, or to one of the same model compiled with --infer");
  TRY(impl_->usableAgain());
  const PipelineEvaluation &evaluation = *impl_->evaluation;
  Impl &run = *evaluation.pipeline.impl_;
  TRY(run.usableAgain());
  const TrainedAttributes trained(*impl_->core);
  TRY(impl_->finishDevices()); // the last step may still write weights
  TRY(guardTorchVoid(ExitCode::Other, "lending the weights", [&] {
    c10::AutoGradMode noGrad(false);
    for (const LentAttribute &lent : evaluation.lent) {
      StageExecutor &user = *run.core->executors[lent.stage];
      std::unique_ptr<Device::Scope> stream = user.device().enter(user.stream());
      user.module().setAttribute(lent.port, valueNow(trained, lent, user.device()));
    }
  }));
  const Signature &signature = run.core->artifact.plan.signature;
  run.calls = 0; // every evaluation draws the same numbers
  if (run.anyNumber && signature.batchSymbolic)
    run.wanted =
        std::min(impl_->wanted ? impl_->wanted
                               : std::max<int64_t>(impl_->core->artifact.plan.microBatches, 1) *
                                     impl_->replicas(),
                 std::max<int64_t>(batchSizeOr(1, signature, inputs), 1));
  BatchParts parts = TRY(run.split(inputs));
  llvm::Error error = run.runBatch(std::move(parts), inputs, nullptr);
  Evaluation result;
  if (!error) {
    const std::vector<std::vector<c10::IValue>> &leaves = run.core->data.leaves;
    const std::vector<int64_t> &samples = run.core->data.samples;
    error = guardTorchError(ExitCode::Other, "merging the results", [&]() -> llvm::Error {
      c10::AutoGradMode noGrad(false);
      if (evaluation.loss)
        TRY(addLoss(*evaluation.loss, leaves, samples, *impl_->core->training, result));
      for (int64_t each : samples)
        result.samples += each;
      c10::IValue merged = TRY(mergeOutputs(signature, leaves, samples));
      TRY(run.giveAway(merged));
      result.outputs = ValueTree::of(merged);
      return llvm::Error::success();
    });
    run.core->data.forgetLeaves();
  }
  TRY(run.endCall(std::move(error)));
  return result;
}

} // namespace pipec
