#include "compiler/Planning.h"

#include "compiler/MeasureCosts.h"
#include "compiler/Predict.h"
#include "ir/Values.h"
#include "passes/analysis/TopLevel.h"

#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace pipec {

namespace {

/// On tensors without elements every operator costs the same: nothing.
llvm::Error expectSamples(const Signature &signature, const std::vector<c10::IValue> &inputs) {
  std::string empty;
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i)
    forEachTensor(inputs[i], [&](const at::Tensor &tensor) {
      any = any || (tensor.defined() && tensor.numel() > 0);
      if (tensor.defined() && empty.empty())
        empty = fmt::format("{} [{}]", signature.inputs[i].name, fmt::join(tensor.sizes(), ","));
    });
  if (any || empty.empty())
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   fmt::format("automatic cuts: expected example inputs with elements, by which "
                               "operators cost something, got input {}",
                               empty),
                   "pass the inputs of one micro-batch of 1 sample or more, or name the cuts "
                   "with --at");
}

} // namespace

llvm::Error Planning::begin(const CompileOptions &options) {
  options_ = &options;
  cluster_ = defaultCluster(1);
  if (options.cluster.empty())
    return llvm::Error::success();
  llvm::Expected<Cluster> read = readCluster(options.cluster);
  if (!read)
    return withContext(read.takeError(), "--cluster");
  cluster_ = std::move(*read);
  return llvm::Error::success();
}

size_t Planning::stages() const {
  return options_->stages || options_->cluster.empty() ? options_->stages : cluster_.devices.size();
}

bool Planning::isCutByCost(const Model &model) const {
  if (options_->split == "auto")
    return true;
  return options_->split.empty() && options_->cuts.empty() &&
         topLevelOf(model).boundaries.empty() && stages() > 1;
}

size_t Planning::ranks(const Model &model) const {
  if (options_->ranks)
    return options_->ranks;
  return std::max({stages(), options_->cuts.size() + 1, topLevelOf(model).boundaries.size() + 1});
}

/// The one that every stage can be planned for: devices that differ are used as the least of
/// them.
ClusterDevice Planning::leastDevice(Model &model) const {
  ClusterDevice least = cluster_.devices[0];
  bool same = true;
  for (const ClusterDevice &device : cluster_.devices) {
    same &= device.flopsPerSecond == least.flopsPerSecond &&
            device.bytesPerSecond == least.bytesPerSecond &&
            device.memoryBytes == least.memoryBytes;
    least.flopsPerSecond = std::min(least.flopsPerSecond, device.flopsPerSecond);
    least.bytesPerSecond = std::min(least.bytesPerSecond, device.bytesPerSecond);
    if (device.memoryBytes && (!least.memoryBytes || device.memoryBytes < least.memoryBytes))
      least.memoryBytes = device.memoryBytes;
  }
  if (!same)
    model.notes.push_back("the cluster's devices differ: every stage is planned for the slowest "
                          "rates and the least "
                          "memory among them");
  return least;
}

llvm::Expected<bool> Planning::findCosts(Model &model, const std::vector<c10::IValue> &inputs,
                                         CompileReport &report) {
  cutsByCost_ = isCutByCost(model);
  if (options_->memoryLimit && !cutsByCost_)
    return makeError(ExitCode::Usage, "--memory-limit: expected automatic cuts, got given ones",
                     "leave one of the two out");
  if (!cutsByCost_ && options_->cost.empty() && options_->cluster.empty())
    return false;
  if (llvm::Error error = expectSamples(model.signature, inputs))
    return std::move(error);
  const ClusterDevice device = leastDevice(model);
  llvm::Expected<CostTable> table =
      pipec::findCosts(model, inputs, *options_, device, ranks(model));
  if (!table)
    return table.takeError();
  costsKnown_ = true;
  memoryBytes_ = options_->memoryLimit ? options_->memoryLimit : device.memoryBytes;
  ofThisRun_ = !options_->cost.empty() && options_->cost != "analytic";
  if (ofThisRun_ || options_->listCosts)
    report.costTable = toJson(*table);
  table_ = std::move(*table);
  return true;
}

llvm::Expected<bool> Planning::planCuts(const Model &model, CompileReport &report) {
  if (!cutsByCost_ || stages() < 2)
    return false;
  CutRequest request;
  request.stages = stages();
  request.memoryLimit = memoryBytes_;
  const Cluster usual = defaultCluster(2);
  const Cluster &linked = options_->cluster.empty() ? usual : cluster_;
  request.link = linked.linkBetween(linked.devices.front().name, linked.devices.back().name);
  llvm::Expected<CutPlan> cuts = pipec::planCuts(model, request);
  if (!cuts)
    return cuts.takeError();
  planned_ = std::move(*cuts);
  report.partition = {true, planned_->bottleneckNs, planned_->lowerBoundNs};
  return true;
}

std::vector<size_t> Planning::places() const {
  return planned_ ? planned_->boundaries : std::vector<size_t>();
}

llvm::Error Planning::forecast(CompileReport &report) const {
  if (!costsKnown_)
    return llvm::Error::success();
  if (planned_)
    for (size_t s = 0; s < report.plan.stages.size() && s < planned_->liveBytes.size(); ++s)
      report.prediction.memoryBytes.push_back(report.plan.stages[s].parameterBytes +
                                              planned_->liveBytes[s]);
  return predict(report, options_->cluster.empty() ? defaultCluster(report.plan.ranks) : cluster_,
                 table_, places());
}

} // namespace pipec
