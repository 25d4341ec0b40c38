#include "ir/batch/CutTrial.h"

#include "ir/TorchError.h"
#include "ir/Values.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>

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

/// Other values: floats times `factor`, the rest reversed along the last dimension, so that indices
/// stay in range. Same strides.
at::Tensor otherValues(const at::Tensor &tensor, double factor) {
  const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
  at::Tensor other = copied.toTensor();
  if (hasFractions(tensor))
    other.mul_(factor);
  else
    other.copy_(tensor.flip(-1));
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
      row.copy_(row.clone().flip(-1));
    else // a number per sample: another sample's
      row.copy_(tensor.select(dim, (sample + 1) % tensor.size(dim)));
    return copied.toTensor();
  });
}

/// Repetitions of one sample become samples of their own: each a little smaller than the one
/// before, or, of whole numbers, every other one reversed.
Values spread(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, bool &distinct) {
  distinct = false;
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
    for (int64_t k = 1; k < tensor.size(dim); ++k) {
      at::Tensor row = copied.toTensor().select(dim, k);
      if (hasFractions(tensor))
        row.mul_(1 - static_cast<double>(k) / 16);
      else if (k % 2 && tensor.dim() > 1)
        row.copy_(row.clone().flip(-1));
    }
    distinct = distinct || !copied.toTensor().equal(tensor);
    return copied.toTensor();
  });
}

/// Runs calls that `make` gives, on copies; keeps them where all of them run.
llvm::Error runInto(Experiment &experiment, ModelRunner run,
                    llvm::function_ref<std::vector<Values>()> make) {
  return guardTorchError(ExitCode::Other, "changing the example inputs", [&]() -> llvm::Error {
    std::vector<Values> calls = make(), copies;
    for (Values &call : calls) {
      call = ownCopies(call);
      copies.push_back(ownCopies(call));
    }
    llvm::Expected<std::vector<c10::IValue>> results = run(std::move(copies));
    if (!results)
      return results.takeError();
    experiment = {std::move(calls), std::move(*results)};
    return llvm::Error::success();
  });
}

std::string firstLine(llvm::Error error) {
  const std::string message = describe(std::move(error)).message;
  return llvm::StringRef(message).split('\n').first.str();
}

class Trial {
public:
  Trial(CutTrial &trial, ModelRunner run)
      : trial_(trial), dims_(trial.candidate.dims), run_(run),
        example_(trial.example.calls.front()) {}

  void runAll() {
    trial_.refusal = refusalOfWhole();
    if (!trial_.runs())
      return;
    if (trial_.candidate.batch != kSmallSamples)
      trial_.refusal = refusalOf(trial_.small, [&] {
        return std::vector<Values>{resized(example_, dims_, kSmallSamples)};
      });
    if (trial_.runs())
      trial_.refusal = refusalOfVaried(kVariedSamples);
    if (!trial_.runs())
      return;
    trial_.partsRefusal = refusalOf(trial_.parts, [&] {
      const Values &whole = trial_.whole.calls.front();
      return std::vector<Values>{partOf(whole, dims_, 0, kPartSamples[0]),
                                 partOf(whole, dims_, kPartSamples[0], kPartSamples[1])};
    });
    const Values &calm = trial_.varied.calls.front();
    refusalOf(trial_.poked, [&] { return std::vector<Values>{poke(calm, dims_, kPokedSample)}; });
  }

  void vary() { refusalOfVaried(trial_.candidate.batch); }

private:
  std::string refusalOf(Experiment &experiment,
                        llvm::function_ref<std::vector<Values>()> make) const {
    llvm::Error error = runInto(experiment, run_, make);
    return error ? firstLine(std::move(error)) : "";
  }

  /// Of an example of one sample, which would hide that samples affect each other, others are made.
  std::string refusalOfWhole() {
    auto plain = [&] { return std::vector<Values>{resized(example_, dims_, kWholeSamples)}; };
    if (trial_.candidate.batch != 1)
      return refusalOf(trial_.whole, plain);
    bool distinct = false;
    std::string refusal = refusalOf(
        trial_.whole, [&] { return std::vector<Values>{spread(plain().front(), dims_, distinct)}; });
    trial_.distinct = distinct && refusal.empty();
    return refusal.empty() ? "" : refusalOf(trial_.whole, plain);
  }

  /// Not every model takes negative numbers, and not every one shows by half the number what hangs
  /// on a sign; the same arguments first, since a second call shows what follows the first one.
  std::string refusalOfVaried(int64_t samples) {
    trial_.variedSamples = samples;
    const Values calm = resized(example_, dims_, samples);
    auto varied = [&](double factor) {
      return mapCut(calm, dims_, [&](const at::Tensor &tensor, int64_t) {
        return otherValues(tensor, factor);
      });
    };
    for (const std::vector<double> &factors :
         {std::vector<double>{0.5, -0.5}, {0.5}, {-0.5}, {}}) {
      std::string refusal = refusalOf(trial_.varied, [&] {
        std::vector<Values> calls = {calm};
        for (double factor : factors)
          calls.push_back(varied(factor));
        return calls;
      });
      if (refusal.empty() || factors.empty())
        return refusal;
    }
    return "";
  }

  CutTrial &trial_;
  const CutDims &dims_;
  ModelRunner run_;
  const Values &example_;
};

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
                ModelRunner run) {
  CutTrial trial;
  trial.candidate = candidate;
  trial.example = {{ownCopies(example)}, {std::move(exampleResult)}};
  Trial(trial, run).runAll();
  return trial;
}

void varyExample(CutTrial &trial, ModelRunner run) { Trial(trial, run).vary(); }

Values firstSamples(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples) {
  const Values few = mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    return tensor.size(dim) > samples ? tensor.narrow(dim, 0, samples) : tensor;
  });
  return resized(few, dims, samples);
}

} // namespace pipec
