#include "ir/batch/CutTrial.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/values/Values.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>

namespace pipec {

namespace {

bool hasFractions(const at::Tensor &tensor) {
  return tensor.is_floating_point() || tensor.is_complex();
}

Values resized(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples) {
  Values result;
  for (size_t i = 0; i < inputs.size(); ++i)
    result.push_back(resizeBatch(inputs[i], dims[i], samples));
  return result;
}

/// Changes the tensors of the arguments that are cut.
Values mapCut(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims,
              llvm::function_ref<at::Tensor(const at::Tensor &, int64_t)> change) {
  at::NoGradGuard noGrad;
  Values result;
  for (size_t i = 0; i < inputs.size(); ++i)
    result.push_back(mapTensors(inputs[i], [&](const at::Tensor &tensor) {
      const bool cut = dims[i] && tensor.defined() && *dims[i] < tensor.dim();
      return cut ? change(tensor, *dims[i]) : tensor;
    }));
  return result;
}

Values partOf(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t begin,
              int64_t count) {
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    return tensor.narrow(dim, begin, count);
  });
}

/// Shifts along the last dimension and fills the free places with the first element. The counts of
/// the values change, but a mask that begins at one end still does.
at::Tensor shifted(const at::Tensor &tensor, int64_t by) {
  const at::Tensor from = at::arange(tensor.size(-1), at::kLong).sub(by).clamp_min(0);
  return tensor.index_select(-1, from);
}

/// Other values in the same range: masks are shifted, other whole numbers reversed.
at::Tensor rearranged(const at::Tensor &tensor) {
  return tensor.scalar_type() == at::kBool ? shifted(tensor, 1) : tensor.flip(-1);
}

/// Other values: floats times `factor`, others rearranged along the last dimension, so that indices
/// stay in range. Same strides.
at::Tensor otherValues(const at::Tensor &tensor, double factor) {
  const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
  at::Tensor other = copied.toTensor();
  if (hasFractions(tensor))
    other.mul_(factor);
  else
    other.copy_(rearranged(tensor));
  return other;
}

/// Changes the values of one sample.
Values poke(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t sample) {
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
    at::Tensor row = copied.toTensor().select(dim, sample);
    if (hasFractions(tensor))
      row.mul_(0.5);
    else if (tensor.dim() > 1)
      row.copy_(rearranged(row.clone()));
    else // a number per sample: takes another sample's
      row.copy_(tensor.select(dim, (sample + 1) % tensor.size(dim)));
    return copied.toTensor();
  });
}

/// How whole numbers of a repeated sample change. Counts: the number of occurrences of a value
/// changes from sample to sample, as for tokens and ignored labels of real samples. Order: every
/// other sample is reversed, which keeps the existing values.
enum class Spread { Counts, Order };

/// Whether it has one number per sample, equal for all, such as a label: some then get another one.
/// Different numbers stay, because some kernels rely on sorted offsets and lengths. So does 0,
/// which may be an offset.
bool isOneLabel(const at::Tensor &tensor) {
  return tensor.dim() == 1 && tensor.eq(tensor[0]).all().item<bool>() &&
         (tensor.scalar_type() == at::kBool || tensor[0].gt(0).item<bool>());
}

void changeNumbers(at::Tensor &row, bool isLabel, int64_t repeated, Spread how) {
  if (row.dim() > 0 && how == Spread::Counts)
    row.copy_(shifted(row.clone(), repeated));
  else if (row.dim() > 0 && repeated % 2)
    row.copy_(row.clone().flip(-1));
  else if (isLabel && how == Spread::Counts && repeated % 2)
    row.copy_(row.scalar_type() == at::kBool ? row.logical_not() : row.sub(1));
}

/// Makes distinct samples from repetitions of one of `samples` samples: each is rolled along the
/// last dimension and a little smaller than the one before, or changed by `how`. Otherwise one
/// sample would be in two parts, which hides differences of the parts.
Values spread(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples, Spread how,
              bool &distinct) {
  distinct = false;
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
    const int64_t size = tensor.size(dim);
    const bool isLabel = size > 0 && !hasFractions(tensor) && isOneLabel(tensor);
    int64_t repeated = 0;
    for (int64_t k = 1; k < size; ++k) {
      const bool isNew = k * samples / size != (k - 1) * samples / size; // as resizeBatch repeats
      repeated = isNew ? 0 : repeated + 1;
      if (repeated == 0)
        continue;
      at::Tensor row = copied.toTensor().select(dim, k);
      if (hasFractions(tensor)) // rolled as well, because a norm undoes a factor
        row.copy_((tensor.dim() > 1 ? row.roll(repeated, -1) : row.clone())
                      .mul(1 - static_cast<double>(repeated) / 16));
      else
        changeNumbers(row, isLabel, repeated, how);
    }
    distinct = distinct || !copied.toTensor().equal(tensor);
    return copied.toTensor();
  });
}

class Trial {
public:
  Trial(CutTrial &trial, ModelRuns runAll)
      : trial_(trial), dims_(trial.candidate.dims), runAll_(runAll),
        example_(trial.example.calls.front()) {}

  /// Runs the whole batch first: if it does not run, nothing else is tried.
  void tryAll() {
    trial_.refusal = refusalOfWhole();
    if (!trial_.runs())
      return;
    const Values calm = resized(example_, dims_, kVariedSamples);
    std::vector<Asked> asked = {
        {&trial_.varied, variedCalls(calm, {0.5, -0.5})},
        {&trial_.parts, twoParts(trial_.whole.calls.front(), kPartSamples[0], kPartSamples[1])},
        {&trial_.poked, {poke(calm, dims_, kPokedSample)}}};
    if (trial_.candidate.batch != kSmallSamples)
      asked.push_back({&trial_.small, {resized(example_, dims_, kSmallSamples)}});
    const std::vector<std::string> refusals = run(asked);
    trial_.partsRefusal = refusals[1];
    trial_.refusal = refusals.size() > 3 ? refusals[3] : "";
    if (!refusals[0].empty() && trial_.runs())
      trial_.refusal = refusalOfVaried(calm, {{0.5}, {-0.5}, {}});
  }

  void vary() {
    trial_.variedSamples = trial_.candidate.batch;
    refusalOfVaried(example_, {{0.5, -0.5}, {0.5}, {-0.5}, {}});
  }

  std::vector<Halves> halves() const {
    constexpr int64_t kHalves[] = {3, 2};
    std::vector<Halves> found(std::size(kHalves));
    std::vector<Asked> asked;
    for (size_t k = 0; k < found.size(); ++k) {
      const Values whole = resized(example_, dims_, 2 * kHalves[k]);
      asked.push_back({&found[k].whole, {whole}});
      asked.push_back({&found[k].parts, twoParts(whole, kHalves[k], kHalves[k])});
    }
    run(asked);
    llvm::erase_if(found, [](const Halves &one) {
      return one.whole.results.empty() || one.parts.results.empty();
    });
    return found;
  }

private:
  /// The arguments of an experiment, and the target if all of its calls run.
  struct Asked {
    Experiment *into;
    std::vector<Values> calls;
  };

  /// Why each experiment does not run; empty: it does.
  std::vector<std::string> run(std::vector<Asked> &asked) const {
    std::vector<std::vector<Values>> copies;
    for (Asked &one : asked) {
      copies.emplace_back();
      for (Values &call : one.calls) {
        call = ownCopies(call);
        copies.back().push_back(ownCopies(call));
      }
    }
    std::vector<std::string> refusals;
    std::vector<llvm::Expected<std::vector<c10::IValue>>> results = runAll_(std::move(copies));
    for (size_t k = 0; k < asked.size(); ++k) {
      refusals.push_back(results[k] ? "" : firstLineOf(results[k].takeError()));
      if (refusals.back().empty())
        *asked[k].into = {std::move(asked[k].calls), std::move(*results[k])};
    }
    return refusals;
  }

  std::string refusalOf(Experiment &experiment, std::vector<Values> calls) const {
    std::vector<Asked> asked = {{&experiment, std::move(calls)}};
    return run(asked).front();
  }

  /// Makes repeated samples differ, if the model accepts that.
  std::string refusalOfWhole() {
    const Values plain = resized(example_, dims_, kWholeSamples);
    const int64_t samples = trial_.candidate.batch;
    if (samples >= kWholeSamples)
      return refusalOf(trial_.whole, {plain});
    for (Spread how : {Spread::Counts, Spread::Order}) {
      bool distinct = false;
      const Values changed = spread(plain, dims_, samples, how, distinct);
      trial_.distinct = samples > 1 || distinct;
      if (refusalOf(trial_.whole, {changed}).empty())
        return "";
    }
    trial_.distinct = samples > 1;
    return refusalOf(trial_.whole, {plain});
  }

  std::vector<Values> twoParts(const Values &whole, int64_t first, int64_t second) const {
    return {partOf(whole, dims_, 0, first), partOf(whole, dims_, first, second)};
  }

  /// Starts with the same arguments twice: the second call shows what depends on the first.
  std::vector<Values> variedCalls(const Values &calm, llvm::ArrayRef<double> factors) const {
    std::vector<Values> calls = {calm};
    for (double factor : factors)
      calls.push_back(mapCut(calm, dims_, [&](const at::Tensor &tensor, int64_t) {
        return otherValues(tensor, factor);
      }));
    return calls;
  }

  /// Not every model accepts negative numbers, and for some models half the number does not show
  /// what depends on a sign. Takes the first of these ways that runs.
  std::string refusalOfVaried(const Values &calm, const std::vector<std::vector<double>> &ways) {
    std::string refusal;
    for (const std::vector<double> &factors : ways) {
      refusal = refusalOf(trial_.varied, variedCalls(calm, factors));
      if (refusal.empty())
        break;
    }
    return refusal;
  }

  CutTrial &trial_;
  const CutDims &dims_;
  ModelRuns runAll_;
  const Values &example_;
};

/// An exception of cutting or changing arguments counts as a refusal.
std::string guarded(llvm::function_ref<void()> body) {
  llvm::Error error = guardTorchVoid(ExitCode::Other, "changing the example inputs", body);
  return error ? firstLineOf(std::move(error)) : "";
}

} // namespace

std::vector<const Experiment *> CutTrial::experiments() const {
  std::vector<const Experiment *> ran;
  for (const Experiment *one : {&example, &whole, &parts, &varied, &poked, &small})
    if (!one->results.empty())
      ran.push_back(one);
  return ran;
}

std::vector<int64_t> CutTrial::samplesOf(const Experiment &experiment) const {
  if (&experiment == &whole)
    return {kWholeSamples};
  if (&experiment == &parts)
    return {kPartSamples[0], kPartSamples[1]};
  if (&experiment == &small)
    return {kSmallSamples};
  if (&experiment == &example)
    return {candidate.batch};
  if (&experiment == &poked)
    return {kVariedSamples};
  return std::vector<int64_t>(experiment.calls.size(), variedSamples);
}

CutTrial tryCut(const CutCandidate &candidate, const Values &example, c10::IValue exampleResult,
                ModelRuns runAll) {
  CutTrial trial;
  trial.candidate = candidate;
  trial.example = {{ownCopies(example)}, {std::move(exampleResult)}};
  if (std::string refusal = guarded([&] { Trial(trial, runAll).tryAll(); }); !refusal.empty())
    trial.refusal = std::move(refusal);
  return trial;
}

void varyExample(CutTrial &trial, ModelRuns runAll) {
  guarded([&] { Trial(trial, runAll).vary(); });
}

std::vector<Halves> tryHalves(CutTrial &trial, ModelRuns runAll) {
  std::vector<Halves> found;
  guarded([&] { found = Trial(trial, runAll).halves(); });
  return found;
}

Values firstSamples(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples) {
  const Values few = mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    return tensor.size(dim) > samples ? tensor.narrow(dim, 0, samples) : tensor;
  });
  return resized(few, dims, samples);
}

} // namespace pipec
