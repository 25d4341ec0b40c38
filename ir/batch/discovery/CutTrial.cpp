#include "ir/batch/discovery/CutTrial.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/TrialValues.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <numeric>

namespace pipec {

namespace {

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
                                  {&trial_.doubled.parts, cutInto(whole, {batch, batch})}};
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

  /// Whether the model takes the whole batch with samples that are repeated as they are.
  bool takesWhole() {
    auto takes = [&](const Values &base) {
      return refusalOf(trial_.whole, {resized(base, dims_, kWholeSamples)}).empty();
    };
    return takes(trial_.base) || (isUneven_ && takes(example_));
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
    std::vector<std::pair<int64_t, Values>>
        wholes; // samples of a half, arguments; plain ones first
    for (int64_t half : kHalfSamples)
      wholes.emplace_back(half, resized(trial_.base, dims_, 2 * half));
    for (size_t k = 0; k < std::size(kHalfSamples); ++k) {
      bool distinct = false;
      const auto [half, plain] = wholes[k];
      const Values other = spread(plain, dims_, 1, Spread::Counts, distinct);
      wholes.emplace_back(half, other);
      for (double factor : {-0.7, 1.9})
        wholes.emplace_back(half, timesEach(other, factor));
      for (int64_t first : {int64_t(0), half}) { // the same samples in both halves
        std::vector<int64_t> order(2 * half);
        for (int64_t i = 0; i < 2 * half; ++i)
          order[i] = first + i % half;
        wholes.emplace_back(half, reordered(plain, dims_, order));
      }
    }
    HalvesTrial found;
    found.ran.resize(wholes.size());
    std::vector<Asked> asked;
    for (size_t k = 0; k < wholes.size(); ++k) {
      const auto &[half, whole] = wholes[k];
      asked.push_back({&found.ran[k].whole, {whole}});
      asked.push_back({&found.ran[k].parts, cutInto(whole, {half, half})});
    }
    // Other values may be refused, such as labels out of range: they are left out.
    const std::vector<std::string> refusals = run(asked, 0);
    for (size_t k = 0; k < 2 * std::size(kHalfSamples); ++k)
      if (found.refusal.empty())
        found.refusal = refusals[k];
    llvm::erase_if(found.ran, [](const Halves &one) {
      return one.whole.results.empty() || one.parts.results.empty();
    });
    return found;
  }

  std::vector<Halves> differently(bool moves) {
    constexpr int64_t kHalf = 3;
    std::vector<Halves> found;
    for (double factor : {1.0, 4.0, -4.0}) {
      Values values = resized(example_, dims_, 2 * kHalf);
      if (moves)
        values = movedNumbers(values, dims_, factor);
      else if (factor < 0)
        break; // only two ways to mix labels
      bool distinct = false;
      values = spread(mixedLabels(values, dims_, /*inBoth=*/factor != 4), dims_, 1, Spread::Counts,
                      distinct);
      std::vector<Values> wholes = {values};
      if (moves) // the same samples in both halves: a sum doubles, a maximum stays
        wholes.push_back(reordered(values, dims_, {0, 1, 2, 0, 1, 2}));
      for (const Values &whole : wholes) {
        const Halves one = partsOf(whole, {kHalf, kHalf});
        if (!one.whole.results.empty() && !one.parts.results.empty())
          found.push_back(one);
      }
    }
    return found;
  }

  Halves own(const Values &inputs, llvm::ArrayRef<int64_t> samples) {
    return partsOf(resized(inputs, dims_, sumOf(samples)), samples);
  }

  Halves otherSize(llvm::ArrayRef<int64_t> samples) {
    const Values plain = resized(trial_.base, dims_, sumOf(samples));
    bool distinct = false;
    const Values changed = spread(plain, dims_, trial_.candidate.batch, Spread::Counts, distinct);
    Halves found = partsOf(changed, samples);
    return found.whole.results.empty() ? partsOf(plain, samples) : found;
  }

private:
  /// The arguments of an experiment, and the target if all of its calls run.
  struct Asked {
    Experiment *into;
    std::vector<Values> calls;
  };

  static int64_t sumOf(llvm::ArrayRef<int64_t> samples) {
    return std::accumulate(samples.begin(), samples.end(), int64_t(0));
  }

  Halves partsOf(const Values &whole, llvm::ArrayRef<int64_t> samples) {
    Halves found;
    std::vector<Asked> asked = {{&found.whole, {whole}}, {&found.parts, cutInto(whole, samples)}};
    run(asked, 0);
    return found;
  }

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
    asked.push_back({&trial_.parts, cutInto(whole, kPartSamples)});
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

  std::vector<Values> cutInto(const Values &whole, llvm::ArrayRef<int64_t> samples) const {
    std::vector<Values> parts;
    int64_t begin = 0;
    for (int64_t count : samples) {
      parts.push_back(partOf(whole, dims_, begin, count));
      begin += count;
    }
    return parts;
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

std::string CutTrial::notTried(bool drawsRandom) const {
  if (!runs())
    return "other batch sizes do not run";
  if (!partsRefusal.empty())
    return "parts of the batch do not run";
  if (drawsRandom)
    return "the model draws random numbers";
  return distinct ? "" : "the example has one sample";
}

std::vector<std::pair<const Experiment *, std::vector<int64_t>>> CutTrial::experiments() const {
  std::vector<std::pair<const Experiment *, std::vector<int64_t>>> all = {
      {&example, {candidate.batch}},
      {&whole, {kWholeSamples}},
      {&parts, {kPartSamples[0], kPartSamples[1]}},
      {&varied, std::vector<int64_t>(varied.calls.size(), variedSamples)},
      {&poked, {kVariedSamples}},
      {&small, {kSmallSamples}}};
  llvm::erase_if(all, [](const auto &one) { return one.first->results.empty(); });
  return all;
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
  TRY(experiments.runExample());
  return trial;
}

bool takesOtherSize(const CutCandidate &candidate, const Values &example, ModelRuns runAll) {
  CutTrial trial;
  trial.candidate = candidate;
  trial.example.calls = {ownCopies(example)};
  bool takes = false; // also if the arguments cannot be resized
  guarded([&] { takes = Trial(trial, runAll).takesWhole(); });
  return takes;
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

std::vector<Halves> tryOtherValues(CutTrial &trial, bool moves, ModelRuns runAll) {
  std::vector<Halves> found;
  guarded([&] { found = Trial(trial, runAll).differently(moves); });
  return found;
}

Halves tryOwnSamples(CutTrial &trial, const Values &inputs, llvm::ArrayRef<int64_t> samples,
                     ModelRuns runAll) {
  Halves found;
  guarded([&] { found = Trial(trial, runAll).own(inputs, samples); });
  return found;
}

Halves tryOtherSize(CutTrial &trial, llvm::ArrayRef<int64_t> samples, ModelRuns runAll) {
  Halves found;
  guarded([&] { found = Trial(trial, runAll).otherSize(samples); });
  return found;
}

} // namespace pipec
