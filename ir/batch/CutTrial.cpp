#include "ir/batch/CutTrial.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/values/Values.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>

#include <cmath>

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
    result.push_back(
        mapTensors(inputs[i], dims[i], [&](const at::Tensor &tensor, std::optional<int64_t> dim) {
          const bool cut = dim && tensor.defined() && *dim < tensor.dim();
          return cut ? change(tensor, *dim) : tensor;
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

/// Numbers that differ instead of equal ones, around the same value: an example of zeros or ones
/// does not show what depends on what.
at::Tensor uneven(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.layout() != at::kStrided ||
      tensor.numel() < 2 || tensor.is_quantized())
    return tensor;
  const at::Tensor first = tensor.detach().flatten()[0];
  const double value = first.item<double>();
  if (!std::isfinite(value) || !tensor.detach().eq(first).all().item<bool>())
    return tensor;
  const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
  const at::Tensor wave =
      at::arange(tensor.numel(), at::kDouble).mul(2.4).add(1).sin().view(tensor.sizes());
  copied.toTensor().detach().copy_(wave.mul(value == 0 ? 0.5 : 0.25 * std::abs(value)).add(value));
  return copied.toTensor();
}

class Trial {
public:
  Trial(CutTrial &trial, ModelRuns runAll)
      : trial_(trial), dims_(trial.candidate.dims), runAll_(runAll),
        example_(trial.example.calls.front()) {
    if (trial.base.empty())
      useUneven();
  }

  /// Makes repeated samples differ, if the model accepts that.
  void tryAll() {
    trySizes();
    if (!trial_.runs() && !exampleError_ && isUneven_) {
      trial_.base = example_;
      trySizes();
    }
    if (!trial_.runs() && !exampleError_)
      tryDoubled();
  }

  void tryDoubled() {
    const int64_t batch = trial_.candidate.batch;
    bool distinct = false;
    const Values plain = resized(trial_.base, dims_, 2 * batch);
    for (const Values &whole : {spread(plain, dims_, batch, Spread::Counts, distinct), plain}) {
      std::vector<Asked> asked = {{&trial_.doubled.whole, {whole}},
                                  {&trial_.doubled.parts, twoParts(whole, batch, batch)}};
      trial_.runsDoubled = run(asked, 1).front().empty();
      if (trial_.runsDoubled)
        return;
    }
  }

  void trySizes() {
    const Values plain = resized(trial_.base, dims_, kWholeSamples);
    const int64_t samples = trial_.candidate.batch;
    for (Spread how : {Spread::Counts, Spread::Order}) {
      if (samples >= kWholeSamples)
        break;
      bool distinct = false;
      const Values changed = spread(plain, dims_, samples, how, distinct);
      trial_.distinct = samples > 1 || distinct;
      if (tryWhole(changed))
        return;
    }
    trial_.distinct = samples > 1;
    tryWhole(plain);
  }

  /// Runs the example, unless its result is known. Errors: the model's.
  llvm::Error runExample() {
    if (trial_.example.results.empty() && !exampleError_) {
      std::vector<Asked> asked = {{&trial_.example, {example_}}};
      run(asked, 0);
    }
    return exampleError_
               ? makeError(exampleError_->code, exampleError_->message, exampleError_->help)
               : llvm::Error::success();
  }

  void vary() {
    trial_.variedSamples = trial_.candidate.batch;
    refusalOfVaried(example_, {{0.5, -0.5}, {0.5}, {-0.5}, {}});
  }

  HalvesTrial halves() {
    constexpr int64_t kHalves[] = {3, 2};
    std::vector<std::pair<int64_t, Values>>
        wholes; // samples of a half, arguments; plain ones first
    for (int64_t half : kHalves)
      wholes.emplace_back(half, resized(trial_.base, dims_, 2 * half));
    for (size_t k = 0; k < std::size(kHalves); ++k) {
      bool distinct = false;
      const auto [half, plain] = wholes[k];
      const Values other = spread(plain, dims_, 1, Spread::Counts, distinct);
      wholes.emplace_back(half, other);
      for (double factor : {-0.7, 1.9})
        wholes.emplace_back(half, timesEach(other, factor));
    }
    HalvesTrial found;
    found.ran.resize(wholes.size());
    std::vector<Asked> asked;
    for (size_t k = 0; k < wholes.size(); ++k) {
      const auto &[half, whole] = wholes[k];
      asked.push_back({&found.ran[k].whole, {whole}});
      asked.push_back({&found.ran[k].parts, twoParts(whole, half, half)});
    }
    // Other values may be refused, such as labels out of range: they are left out.
    const std::vector<std::string> refusals = run(asked, 0);
    for (size_t k = 0; k < 2 * std::size(kHalves); ++k)
      if (found.refusal.empty())
        found.refusal = refusals[k];
    llvm::erase_if(found.ran, [](const Halves &one) {
      return one.whole.results.empty() || one.parts.results.empty();
    });
    return found;
  }

  Halves own(const Values &inputs, int64_t samples, int64_t first) {
    Halves found;
    const Values whole = resized(inputs, dims_, samples);
    std::vector<Asked> asked = {{&found.whole, {whole}},
                                {&found.parts, twoParts(whole, first, samples - first)}};
    run(asked, 0);
    return found;
  }

private:
  /// The arguments of an experiment, and the target if all of its calls run.
  struct Asked {
    Experiment *into;
    std::vector<Values> calls;
  };

  /// Why each experiment does not run; empty: it does. The first `deciding` decide about the
  /// others, see ModelRuns.
  std::vector<std::string> run(std::vector<Asked> &asked, size_t deciding) {
    std::vector<std::vector<Values>> copies;
    for (Asked &one : asked) {
      copies.emplace_back();
      for (Values &call : one.calls) {
        call = ownCopies(call);
        copies.back().push_back(ownCopies(call));
      }
    }
    std::vector<std::string> refusals;
    std::vector<llvm::Expected<std::vector<c10::IValue>>> results =
        runAll_(std::move(copies), {deciding});
    for (size_t k = 0; k < asked.size(); ++k) {
      refusals.emplace_back();
      if (results[k]) {
        *asked[k].into = {std::move(asked[k].calls), std::move(*results[k])};
        continue;
      }
      const ErrorText error = describe(results[k].takeError());
      refusals.back() = llvm::StringRef(error.message).split('\n').first.str();
      if (asked[k].into == &trial_.example)
        exampleError_ = error;
    }
    return refusals;
  }

  /// Runs all experiments with this whole batch. False if the model refuses it.
  bool tryWhole(const Values &given) {
    const Values whole = ownCopies(given);
    const Values calm = partOf(whole, dims_, 0, kVariedSamples); // the first part runs for it
    std::vector<Asked> asked;
    if (trial_.example.results.empty())
      asked.push_back({&trial_.example, {example_}});
    asked.push_back({&trial_.whole, {whole}});
    const size_t deciding = asked.size();
    asked.push_back({&trial_.varied, variedCalls(calm, {0.5, -0.5})});
    asked.push_back({&trial_.parts, twoParts(whole, kPartSamples[0], kPartSamples[1])});
    asked.push_back({&trial_.poked, {poke(calm, dims_, kPokedSample)}});
    if (trial_.candidate.batch != kSmallSamples)
      asked.push_back({&trial_.small, {resized(trial_.base, dims_, kSmallSamples)}});
    const std::vector<std::string> refusals = run(asked, deciding);
    if (exampleError_)
      return true; // no other batch is tried
    trial_.refusal = refusals[deciding - 1];
    if (!trial_.runs()) {
      for (Experiment *one : {&trial_.varied, &trial_.parts, &trial_.poked, &trial_.small})
        *one = {};
      return false;
    }
    trial_.partsRefusal = refusals[deciding + 1];
    // If only the poked sample is refused, the comparison of parts with the whole still shows
    // samples that affect each other.
    trial_.refusal = refusals.size() > deciding + 3 ? refusals[deciding + 3] : "";
    if (!refusals[deciding].empty() && trial_.runs())
      trial_.refusal = refusalOfVaried(calm, {{0.5}, {-0.5}, {}});
    return true;
  }

  void useUneven() {
    at::NoGradGuard noGrad;
    for (const c10::IValue &value : example_)
      trial_.base.push_back(mapTensors(value, [this](const at::Tensor &tensor) {
        const at::Tensor other = uneven(tensor);
        isUneven_ = isUneven_ || !other.is_same(tensor);
        return other;
      }));
  }

  Values timesEach(const Values &whole, double factor) const {
    return mapCut(whole, dims_, [&](const at::Tensor &tensor, int64_t) {
      return hasFractions(tensor) ? otherValues(tensor, factor) : tensor;
    });
  }

  std::string refusalOf(Experiment &experiment, std::vector<Values> calls) {
    std::vector<Asked> asked = {{&experiment, std::move(calls)}};
    return run(asked, 0).front();
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
  const Values example_; // its experiment is replaced when it has run
  std::optional<ErrorText> exampleError_;
  bool isUneven_ = false; // the base is not the example
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

llvm::Expected<CutTrial> tryCut(const CutCandidate &candidate, const Values &example,
                                std::optional<c10::IValue> exampleResult, ModelRuns runAll) {
  CutTrial trial;
  trial.candidate = candidate;
  trial.example.calls = {ownCopies(example)};
  if (exampleResult)
    trial.example.results = {std::move(*exampleResult)};
  Trial experiments(trial, runAll);
  if (std::string refusal = guarded([&] { experiments.tryAll(); }); !refusal.empty())
    trial.refusal = std::move(refusal);
  if (llvm::Error error = experiments.runExample())
    return std::move(error);
  return trial;
}

void varyExample(CutTrial &trial, ModelRuns runAll) {
  // A refusal is dropped: the report says of every result that only the example was tried.
  guarded([&] { Trial(trial, runAll).vary(); });
}

HalvesTrial tryHalves(CutTrial &trial, ModelRuns runAll) {
  HalvesTrial found;
  if (std::string refusal = guarded([&] { found = Trial(trial, runAll).halves(); });
      !refusal.empty())
    found.refusal = std::move(refusal);
  return found;
}

Halves tryOwnSamples(CutTrial &trial, const Values &inputs, int64_t samples, int64_t first,
                     ModelRuns runAll) {
  Halves found;
  guarded([&] { found = Trial(trial, runAll).own(inputs, samples, first); });
  return found;
}

Values firstSamples(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples) {
  const Values few = mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    return tensor.size(dim) > samples ? tensor.narrow(dim, 0, samples) : tensor;
  });
  return resized(few, dims, samples);
}

} // namespace pipec
