#include "compiler/Planning.h"

#include "compiler/GivenSchedule.h"
#include "compiler/TrainingRequest.h"
#include "compiler/cost/MeasureCosts.h"
#include "compiler/cost/OperatorTimes.h"
#include "compiler/cost/Predict.h"
#include "compiler/cost/StageDevices.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Runs.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/values/MapTensors.h"
#include "passes/analysis/CutLegality.h"
#include "passes/analysis/TopLevel.h"

#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace pipec {

namespace {

constexpr size_t kMostStagesPerRank = 4; // tried if only ranks are given

/// The time of a micro-batch at the end of the pipeline with this cut.
llvm::Expected<double> stepShare(const CutPlan &cuts, ForwardProblem problem) {
  problem.plan = cuts.sketch;
  problem.stageNs = cuts.stageNs;
  problem.stageBytes = cuts.stageBytes;
  ForwardPlan plan = TRY(planForward(problem));
  return double(plan.stepNs) / double(plan.microBatches);
}

/// On tensors without elements every operator costs nothing, so no cut is better than another.
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
                   fmt::format("automatic cuts: expected example inputs that are not empty, so "
                               "that operators have a cost, got input {}",
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
  if (planned_)
    return planned_->boundaries.size() + 1;
  if (cutsGiven_)
    return options_->stages;
  if (isTraining() && !options_->stages && options_->ranks)
    return options_->ranks;
  return options_->stages || options_->cluster.empty() ? options_->stages : cluster_.devices.size();
}

bool Planning::isCutByCost(const Model &model) const {
  if (options_->split == CutSource::Auto || isTraining())
    return true;
  return !options_->split && options_->cuts.empty() && topLevelOf(model).boundaries.empty() &&
         stageCounts().front() > 1;
}

size_t Planning::ranksFor(size_t stages) const {
  if (options_->ranks)
    return options_->ranks;
  if (!options_->cluster.empty())
    return std::min(stages, cluster_.devices.size());
  return cutsByCost_ && table_.atOnce > 1 ? std::min(stages, static_cast<size_t>(table_.atOnce))
                                          : stages;
}

/// The numbers of stages to try: the requested one, or, if the schedule is to be chosen and only
/// ranks are given, one to a few per rank.
std::vector<size_t> Planning::stageCounts() const {
  const bool rankCount = options_->ranks || !options_->cluster.empty();
  if (!isAuto() || isTraining() || options_->stages || !rankCount)
    return {stages()};
  const size_t each = options_->ranks ? options_->ranks : cluster_.devices.size();
  std::vector<size_t> counts;
  for (size_t perRank = 1; perRank <= kMostStagesPerRank; ++perRank)
    counts.push_back(perRank * each);
  return counts;
}

ForwardProblem Planning::forwardProblem(size_t ranks, const Signature &signature) const {
  ForwardProblem problem;
  problem.cluster = options_->cluster.empty() ? defaultCluster(ranks) : cluster_;
  problem.ranks = ranks;
  problem.microBatches = options_->microBatches;
  if (problem.microBatches == 0 && !isCut(signature))
    problem.microBatches = 1;
  problem.memoryLimit = options_->memoryLimit;
  return problem;
}

size_t Planning::ranks(const Model &model) const {
  if (options_->ranks)
    return options_->ranks;
  return std::max({stages(), options_->cuts.size() + 1, topLevelOf(model).boundaries.size() + 1});
}

/// The default without --cost: measured for automatic cuts, if the cluster has only CPUs, which
/// this machine can time. With given cuts nothing measured enters the artifact.
CostSource Planning::costSource() const {
  if (options_->cost)
    return *options_->cost;
  const bool onlyCpus = llvm::all_of(cluster_.devices, [](const ClusterDevice &device) {
    return device.kind == ClusterDevice::Kind::Cpu;
  });
  return cutsByCost_ && onlyCpus ? CostSource(MeasuredCosts()) : CostSource(AnalyticCosts());
}

llvm::Error Planning::checkRequest(const Model &model) const {
  const size_t markers = topLevelOf(model).boundaries.size();
  const bool given = !options_->cuts.empty() || markers > 0;
  const std::string cuts = !options_->cuts.empty() ? "given ones"
                           : markers > 0 ? fmt::format("the model's {}", counted(markers, "marker"))
                           : options_->stages == 1 ? "one stage"
                                                   : "no number of stages";
  const std::string leaveOut =
      options_->cuts.empty() ? "--split auto does not look at markers" : "leave one of the two out";
  if (options_->memoryLimit && !cutsByCost_)
    return makeError(ExitCode::Usage, "--memory-limit: expected automatic cuts, got " + cuts,
                     given ? leaveOut : "pass --stages with a number of at least 2");
  if (isTraining() && !cutsGiven_ && !options_->stages && !options_->ranks &&
      options_->cluster.empty())
    return makeError(ExitCode::Usage, "--train: expected --ranks, --stages or --cluster, got none",
                     "pass the number of ranks with --ranks");
  if (options_->costBudgetNs && !isMeasured())
    return makeError(ExitCode::Usage,
                     "--cost-budget: expected measured costs, got " +
                         (cutsByCost_
                              ? "analytic ones, because a device of the cluster is not a CPU"
                          : given ? "given cuts"
                                  : cuts),
                     "pass --cost measured");
  return llvm::Error::success();
}

llvm::Expected<bool> Planning::findCosts(Model &model, PassContext &context,
                                         const std::vector<c10::IValue> &inputs,
                                         CompileReport &report) {
  cutsGiven_ = areCutsGiven(model);
  cutsByCost_ = isCutByCost(model);
  TRY(checkRequest(model));
  if (!cutsByCost_ && !options_->cost && options_->cluster.empty() && !isAuto() &&
      !options_->listCosts)
    return false;
  TRY(expectSamples(model.signature, inputs));
  const ClusterDevice device = leastDevice(cluster_, context.notes);
  if (options_->progress) {
    const int64_t budgetNs =
        options_->costBudgetNs ? options_->costBudgetNs : TimingRequest().budgetNs;
    options_->progress({isMeasured() ? "timing the operators" : "estimating the cost of operators",
                        "", 0, 0, isMeasured() ? budgetNs : -1});
  }
  CostTable table =
      TRY(pipec::findCosts(model, context, inputs, costSource(), *options_, device, ranks(model)));
  costsKnown_ = true;
  memoryBytes_ = options_->memoryLimit ? options_->memoryLimit : device.memoryBytes;
  ofThisRun_ = !std::holds_alternative<AnalyticCosts>(costSource());
  if (ofThisRun_ || options_->listCosts)
    report.costTable = toJson(table);
  table_ = std::move(table);
  return true;
}

bool Planning::areCutsGiven(const Model &model) const {
  if (options_->split == CutSource::Auto)
    return false;
  return !options_->cuts.empty() || options_->split || !topLevelOf(model).boundaries.empty() ||
         findNestedBoundary(model);
}

bool Planning::trainsAsCut(const Model &model) const { return isTraining() && areCutsGiven(model); }

llvm::Error Planning::planTraining(const Model &model,
                                   const std::optional<std::vector<size_t>> &given) {
  TrainingWishes wishes = trainingWishes(*options_, model, table_);
  wishes.cuts = given;
  if (!options_->cluster.empty())
    wishes.cluster = cluster_;
  wishes.enoughPlaces = [&](size_t cuts) {
    return CutLegality(model, topLevelOf(model)).enoughFor(cuts);
  };
  PlannedTraining plan = TRY(pipec::planTraining(table_, wishes));
  if (!given)
    planned_.emplace().boundaries = plan.boundaries;
  training_ = std::make_shared<const PlannedTraining>(std::move(plan));
  return llvm::Error::success();
}

llvm::Expected<bool> Planning::planCuts(const Model &model, const std::vector<NodeCost> &costs,
                                        const std::optional<std::vector<size_t>> &given,
                                        CompileReport &report) {
  if (isTraining()) {
    TRY(planTraining(model, given));
    return true;
  }
  const std::vector<size_t> counts = stageCounts();
  if (!cutsByCost_ || counts.front() < 2)
    return false;
  CutRequest request;
  const Cluster usual = defaultCluster(2);
  const Cluster &linked = options_->cluster.empty() ? usual : cluster_;
  request.link = linked.linkBetween(linked.devices.front().name, linked.devices.back().name);
  const size_t ranks = ranksFor(counts.front());
  addDevices(request, cluster_, options_->memoryLimit);
  const std::vector<CutDevice> devices = std::move(request.devices);
  std::optional<ErrorText> why;
  double best = 0;
  for (size_t count : counts) {
    request.stages = count;
    request.devices = count == ranks && request.unlike && count <= devices.size()
                          ? std::vector<CutDevice>(devices.begin(), devices.begin() + count)
                          : std::vector<CutDevice>();
    request.memoryLimit = memoryBytes_ / static_cast<int64_t>(count / counts.front());
    llvm::Expected<CutPlan> cuts = pipec::planCuts(model, costs, request);
    auto shareOfCuts = [&]() -> llvm::Expected<double> {
      if (!cuts)
        return cuts.takeError();
      if (counts.size() < 2)
        return 0.0; // there is nothing to compare it with
      return stepShare(*cuts, forwardProblem(ranks, model.signature));
    };
    llvm::Expected<double> share = shareOfCuts();
    if (!share) {
      ErrorText text = describe(share.takeError());
      why = why.value_or(text);
    } else if (!planned_ || *share < best) {
      best = *share;
      planned_ = std::move(*cuts);
    }
  }
  if (!planned_)
    return makeError(why->code, why->message, why->help);
  report.partition = {true, planned_->bottleneckNs, planned_->lowerBoundNs,
                      movedIn(planned_->order)};
  return true;
}

std::optional<Tie::Mode> Planning::tied() const {
  return training_ ? training_->tied : std::nullopt;
}

PlannedCuts Planning::cuts() const {
  return planned_ ? PlannedCuts{planned_->boundaries, planned_->order} : PlannedCuts();
}

llvm::Error Planning::placeStages(Plan &plan, CompileReport &report) const {
  if (training_) {
    for (size_t s = 0; s < plan.stages.size(); ++s)
      plan.stages[s].rank = training_->stages[s].rank;
    plan.ranks = training_->ranks;
    plan.microBatches = training_->microBatches;
    return llvm::Error::success();
  }
  const std::vector<size_t> devices = planned_ ? planned_->deviceOf : std::vector<size_t>();
  if (!isAuto() && !devices.empty() && ranksOfTable(*options_).empty())
    for (size_t s = 0; s < plan.stages.size(); ++s)
      plan.stages[s].rank = devices[s];
  if (!isAuto() || !costsKnown_)
    return llvm::Error::success();
  ForwardProblem problem = forwardProblem(ranksFor(plan.stages.size()), plan.signature);
  problem.plan = plan;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    problem.stageNs.push_back(plan.stages[s].costFlops / kFlopsPerNs);
  }
  if (planned_)
    problem.stageBytes = planned_->stageBytes;
  problem.order = devices;
  ForwardPlan found = TRY(planForward(problem));
  for (size_t s = 0; s < plan.stages.size(); ++s)
    plan.stages[s].rank = found.rankOfStage[s];
  plan.ranks = problem.ranks;
  plan.microBatches = found.microBatches;
  report.schedule = {found.placements, found.stepNs, found.lowerBoundNs, found.bubble};
  return llvm::Error::success();
}

llvm::Error Planning::keepWhole(const std::vector<std::string> &whyWhole) {
  std::vector<size_t> whole;
  for (size_t s = 0; s < whyWhole.size(); ++s)
    if (!whyWhole[s].empty())
      whole.push_back(s);
  if (!training_ || whole.empty())
    return llvm::Error::success();
  auto changed = std::make_shared<PlannedTraining>(*training_);
  TRY(pipec::keepWhole(whole, *changed));
  training_ = std::move(changed);
  return llvm::Error::success();
}

/// In the order of ranksFor.
std::string Planning::whyFewerRanks(const Plan &plan) const {
  if (options_->ranks || givenTable(*options_) || plan.ranks == plan.stages.size())
    return "";
  if (!options_->cluster.empty())
    return "one per device of --cluster";
  return isMeasured() ? "one per core of this machine"
                      : "the number that the cost table was measured with";
}

/// The planner's table names one module per operator. The stages of the plan also name modules that
/// are called inside control flow.
static std::shared_ptr<const PlannedTraining> withModulesOf(const Plan &plan,
                                                            const PlannedTraining &planned) {
  auto named = std::make_shared<PlannedTraining>(planned);
  for (size_t s = 0; s < std::min(plan.stages.size(), named->stages.size()); ++s) {
    named->stages[s].firstModule = plan.stages[s].firstModule;
    named->stages[s].lastModule = plan.stages[s].lastModule;
  }
  return named;
}

llvm::Error Planning::forecast(CompileReport &report, const Schedule &schedule) const {
  if (training_)
    report.training = withModulesOf(report.plan, *training_);
  if (!training_)
    report.ranksWhy = whyFewerRanks(report.plan);
  if (!costsKnown_ || training_)
    return llvm::Error::success();
  if (planned_)
    report.prediction.memoryBytes = planned_->stageBytes;
  CostTable table = table_; // in the order of the stages
  if (planned_)
    for (size_t i = 0; i < planned_->order.size(); ++i)
      table.rows[i] = table_.rows[planned_->order[i]];
  TRY(predict(report, options_->cluster.empty() ? defaultCluster(report.plan.ranks) : cluster_,
              table, cuts().places, schedule));
  // Measured ranks slow each other down, which only predict() models.
  if (table_.atOnce > 1)
    report.schedule.lowerBoundNs = 0;
  else if (report.schedule.placements) {
    report.prediction.stepNs = report.schedule.stepNs;
    report.prediction.bubble = report.schedule.bubble;
  }
  return llvm::Error::success();
}

} // namespace pipec
