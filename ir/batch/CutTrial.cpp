#include "ir/batch/CutTrial.h"

#include "ir/TorchError.h"
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

/// Changes the tensors of what is cut.
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

/// Moved along the last dimension, with the first element in the places that become free: other
/// counts of each value. A mask that begins at one end still does.
at::Tensor shifted(const at::Tensor &tensor, int64_t by) {
  const at::Tensor from = at::arange(tensor.size(-1), at::kLong).sub(by).clamp_min(0);
  return tensor.index_select(-1, from);
}

/// Other values in range of the same sizes: of a mask shifted, of other whole numbers reversed.
at::Tensor rearranged(const at::Tensor &tensor) {
  return tensor.scalar_type() == at::kBool ? shifted(tensor, 1) : tensor.flip(-1);
}

/// Other values: floats times `factor`, the rest rearranged along the last dimension, so that
/// indices stay in range. Same strides.
at::Tensor otherValues(const at::Tensor &tensor, double factor) {
  const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
  at::Tensor other = copied.toTensor();
  if (hasFractions(tensor))
    other.mul_(factor);
  else
    other.copy_(rearranged(tensor));
  return other;
}

/// One sample has other values.
Values poke(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t sample) {
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
    at::Tensor row = copied.toTensor().select(dim, sample);
    if (hasFractions(tensor))
      row.mul_(0.5);
    else if (tensor.dim() > 1)
      row.copy_(rearranged(row.clone()));
    else // a number per sample: another sample's
      row.copy_(tensor.select(dim, (sample + 1) % tensor.size(dim)));
    return copied.toTensor();
  });
}

/// How whole numbers of a repeated sample change. Counts: each value occurs as often as not in
/// another sample, as the tokens and the ignored labels of real samples do. Order: every other
/// sample is reversed, which keeps to the values that are there.
enum class Spread { Counts, Order };

/// One number per sample, the same for all of them: another one for some, as of labels. Different
/// ones stay: some kernels trust offsets and lengths to be sorted. So does 0, which may be an
/// offset.
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

/// Repetitions of one of `samples` samples become samples of their own: each turned along the last
/// dimension and a little smaller than the one before, or changed as `how` says. Otherwise one
/// sample would be in two parts, which hides that parts differ.
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
      if (hasFractions(tensor)) // turned as well: a norm undoes a factor
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

  /// The whole batch alone: where it does not run, nothing else is tried.
  void tryAll() {
    trial_.refusal = refusalOfWhole();
    if (!trial_.runs())
      return;
    const Values calm = resized(example_, dims_, kVariedSamples);
    std::vector<Asked> asked = {{&trial_.varied, variedCalls(calm, {0.5, -0.5})},
                                {&trial_.parts, partCalls()},
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

private:
  /// Arguments of an experiment, and where it goes when all of its calls run.
  struct Asked {
    Experiment *into;
    std::vector<Values> calls;
  };

  /// Why each of them does not run; empty: it does.
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

  /// Samples that stand for several are made to differ, where the model takes that.
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

  std::vector<Values> partCalls() const {
    const Values &whole = trial_.whole.calls.front();
    return {partOf(whole, dims_, 0, kPartSamples[0]),
            partOf(whole, dims_, kPartSamples[0], kPartSamples[1])};
  }

  /// The same arguments first, since a second call shows what follows the first one.
  std::vector<Values> variedCalls(const Values &calm, llvm::ArrayRef<double> factors) const {
    std::vector<Values> calls = {calm};
    for (double factor : factors)
      calls.push_back(mapCut(calm, dims_, [&](const at::Tensor &tensor, int64_t) {
        return otherValues(tensor, factor);
      }));
    return calls;
  }

  /// Not every model takes negative numbers, and not every one shows by half the number what hangs
  /// on a sign: the first of these ways that runs.
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

/// What cutting and changing arguments may throw is a refusal.
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

std::vector<Halves> tryHalves(const CutTrial &trial, ModelRuns runAll) {
  const Values &example = trial.example.calls.front();
  const CutDims &dims = trial.candidate.dims;
  std::vector<Halves> found;
  std::vector<std::vector<Values>> experiments;
  guarded([&] {
    for (int64_t half : {3, 2}) {
      const Values whole = resized(example, dims, 2 * half);
      found.push_back(
          {{{whole}, {}}, {{partOf(whole, dims, 0, half), partOf(whole, dims, half, half)}, {}}});
      for (const Experiment *one : {&found.back().whole, &found.back().parts}) {
        experiments.emplace_back();
        for (const Values &call : one->calls)
          experiments.back().push_back(ownCopies(call));
      }
    }
  });
  std::vector<llvm::Expected<Values>> results = runAll(std::move(experiments));
  std::vector<Halves> ran;
  for (size_t k = 0; k < found.size(); ++k) {
    llvm::Expected<Values> &whole = results[2 * k], &parts = results[2 * k + 1];
    const bool both = whole && parts;
    if (both) {
      found[k].whole.results = std::move(*whole);
      found[k].parts.results = std::move(*parts);
      ran.push_back(std::move(found[k]));
    }
    for (llvm::Expected<Values> *one : {&whole, &parts})
      if (!*one)
        llvm::consumeError(one->takeError()); // a size that the model does not take
  }
  return ran;
}

Values firstSamples(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples) {
  const Values few = mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    return tensor.size(dim) > samples ? tensor.narrow(dim, 0, samples) : tensor;
  });
  return resized(few, dims, samples);
}

} // namespace pipec
