#include "ir/batch/discovery/Interaction.h"

#include "ir/TorchError.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/Rounding.h"
#include "ir/batch/discovery/TrialValues.h"
#include "ir/values/CompareValues.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

namespace pipec {

namespace {

/// Of the largest number: what rounding alone makes of a sum of two terms is far below.
constexpr double kOfRounding = 0.05;

/// One leaf of the four runs: as it is, with each change alone, with both.
struct FourRuns {
  const c10::IValue &plain, &first, &second, &both;
};

struct Effects {
  bool first = false, second = false; // the change has an effect
  bool interact = false;
};

/// The numbers of a leaf that holds fractions. Undefined: it does not.
at::Tensor fractionsOf(const c10::IValue &leaf) {
  if (leaf.isDouble())
    return at::scalar_tensor(leaf.toDouble(), at::kDouble);
  if (!leaf.isTensor() || !leaf.toTensor().defined())
    return {};
  const at::Tensor tensor = leaf.toTensor().detach();
  const bool usable = tensor.layout() == at::kStrided && tensor.is_floating_point() &&
                      !tensor.is_quantized() && tensor.numel() > 0;
  return usable ? tensor.to(at::kDouble) : at::Tensor();
}

at::ScalarType dtypeOf(const c10::IValue &leaf) {
  return leaf.isTensor() ? leaf.toTensor().scalar_type() : at::kFloat;
}

bool isSame(const c10::IValue &one, const c10::IValue &other) {
  return compare(one, other, 0.0, 0.0).equal;
}

/// Adds what a leaf shows. `rows`: it has a row per sample, so two changes that both reach it meet
/// in every row. Returns false if the leaf shows nothing.
bool addEffects(Effects &effects, const FourRuns &runs, bool rows) {
  const at::Tensor plain = fractionsOf(runs.plain);
  if (!plain.defined())
    return isSame(runs.plain, runs.first) && isSame(runs.plain, runs.second) &&
           isSame(runs.plain, runs.both);
  const at::Tensor first = fractionsOf(runs.first), second = fractionsOf(runs.second),
                   both = fractionsOf(runs.both);
  double largest = 0;
  for (const at::Tensor &one : {plain, first, second, both}) {
    if (!one.defined() || one.sizes() != plain.sizes() || !one.isfinite().all().item<bool>())
      return false;
    largest = std::max(largest, one.abs().max().item<double>());
  }
  const double least = kOfRounding * reducedRoundingOf(dtypeOf(runs.plain)) * largest;
  auto isLarge = [&](const at::Tensor &difference) {
    return difference.abs().max().item<double>() > least;
  };
  const bool ofFirst = isLarge(first.sub(plain)), ofSecond = isLarge(second.sub(plain));
  effects.first = effects.first || ofFirst;
  effects.second = effects.second || ofSecond;
  effects.interact = effects.interact || (rows && ofFirst && ofSecond) ||
                     isLarge(both.sub(first).sub(second.sub(plain)));
  return true;
}

using Change = llvm::function_ref<Values(const Values &)>;

/// The leaves of each run, on a fresh copy of the model. Fewer entries than calls: some run fails.
std::vector<Values> leavesOfRuns(const Signature &signature, llvm::ArrayRef<Values> calls,
                                 ModelRuns runAll) {
  std::vector<std::vector<Values>> experiments;
  for (const Values &call : calls)
    experiments.push_back({ownCopies(call)});
  std::vector<Values> leaves;
  for (llvm::Expected<Values> &results : runAll(std::move(experiments), {/*deciding=*/0})) {
    llvm::Expected<Values> flat =
        results ? flattenOutputs(signature, results->front()) : results.takeError();
    if (flat)
      leaves.push_back(std::move(*flat));
    else // then the runs show nothing
      llvm::consumeError(flat.takeError());
  }
  return leaves;
}

std::optional<Effects> effectsOf(const Signature &signature, const Values &plain, Change change,
                                 Change other, ModelRuns runAll) {
  const Values first = change(plain);
  const std::vector<Values> leaves =
      leavesOfRuns(signature, {plain, first, other(plain), other(first)}, runAll);
  if (leaves.size() != 4)
    return std::nullopt;
  Effects effects;
  for (size_t l = 0; l < signature.leaves.size(); ++l)
    if (!addEffects(effects, {leaves[0][l], leaves[1][l], leaves[2][l], leaves[3][l]},
                    hasRows(signature.leaves[l])))
      return std::nullopt;
  return effects;
}

using Dims = std::vector<std::optional<int64_t>>;

/// Per tensor of the value.
Dims dimsOf(const c10::IValue &value, const ArgumentCut &cut) {
  Dims dims;
  forEachTensor(value, cut,
                [&](const at::Tensor &, std::optional<int64_t> dim) { dims.push_back(dim); });
  return dims;
}

/// Other values for the tensors that `fuller` cuts, either those that `fewer` cuts, too, or the
/// rest. Each sample changes in another way, because a norm undoes a factor.
Values changed(const Values &values, const CutDims &fuller, const CutDims &fewer, bool inBoth) {
  bool distinct = false;
  const Values all = spread(values, fuller, 1, Spread::Order, distinct);
  at::NoGradGuard noGrad;
  Values result;
  for (size_t i = 0; i < values.size(); ++i) {
    const Dims dims = dimsOf(values[i], fewer[i]);
    std::vector<at::Tensor> others;
    forEachTensor(all[i], [&](const at::Tensor &tensor) { others.push_back(tensor); });
    size_t next = 0; // all walks have the same order
    result.push_back(mapTensors(values[i], [&](const at::Tensor &tensor) {
      const size_t number = next++;
      return dims[number].has_value() == inBoth ? others[number] : tensor;
    }));
  }
  return result;
}

std::optional<bool> guarded(llvm::function_ref<std::optional<bool>()> body) {
  std::optional<bool> found;
  // A failed run shows nothing: the choice stays as it was before this trial.
  llvm::consumeError(
      guardTorchVoid(ExitCode::Other, "comparing runs with two changes", [&] { found = body(); }));
  return found;
}

} // namespace

bool cutsMore(const CutWay &fuller, const CutWay &fewer) {
  const Values &example = fuller.trial.example.calls.front();
  bool more = false;
  for (size_t i = 0; i < example.size(); ++i) {
    const Dims all = dimsOf(example[i], fuller.trial.candidate.dims[i]),
               few = dimsOf(example[i], fewer.trial.candidate.dims[i]);
    for (size_t t = 0; t < all.size(); ++t) {
      if (few[t] && few[t] != all[t])
        return false;
      more = more || (all[t] && !few[t]);
    }
  }
  return more;
}

std::optional<bool> affectOthers(const CutWay &fuller, const CutWay &fewer, ModelRuns runAll) {
  const CutDims &all = fuller.trial.candidate.dims, &few = fewer.trial.candidate.dims;
  return guarded([&]() -> std::optional<bool> {
    const std::optional<Effects> effects = effectsOf(
        fewer.signature, fuller.trial.whole.calls.front(),
        [&](const Values &values) { return changed(values, all, few, /*inBoth=*/false); },
        [&](const Values &values) { return changed(values, all, few, /*inBoth=*/true); }, runAll);
    if (!effects || !effects->first)
      return std::nullopt;
    return effects->second && effects->interact;
  });
}

std::optional<bool> samplesInteract(const CutWay &way, ModelRuns runAll) {
  CutDims first = way.trial.candidate.dims; // of that argument alone: labels keep their values
  const auto leader = llvm::find_if(first, [](const ArgumentCut &cut) { return cut.any(); });
  if (leader == first.end() || way.trial.varied.calls.empty())
    return std::nullopt;
  for (ArgumentCut &other : llvm::make_range(std::next(leader), first.end()))
    other = {};
  return guarded([&]() -> std::optional<bool> {
    const std::optional<Effects> effects = effectsOf(
        way.signature, way.trial.varied.calls.front(),
        [&](const Values &values) { return poke(values, first, kPokedSample); },
        [&](const Values &values) { return poke(values, first, kVariedSamples - 1); }, runAll);
    return effects && effects->first && effects->second ? std::optional(effects->interact)
                                                        : std::nullopt;
  });
}

} // namespace pipec
