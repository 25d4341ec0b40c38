#include "compiler/samples/BatchForms.h"

#include "compiler/cost/GraphEvaluator.h"
#include "ir/batch/MicroBatch.h"
#include "ir/values/MapTensors.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

bool BatchForm::any() const { return llvm::is_contained(dims, true); }

void BatchForms::note(Run &run, const torch::jit::Value *value, const c10::IValue &content) {
  constexpr size_t kMostSeen = 64; // of the rounds of a loop
  std::vector<Seen> &all = run[value];
  if (all.size() >= kMostSeen)
    return;
  Seen &seen = all.emplace_back();
  if (content.isInt())
    seen.number = content.toInt();
  if (content.isIntList() || content.isDoubleList() || content.isBoolList())
    seen.length = static_cast<int64_t>(content.toList().size());
  forEachTensor(content, [&](const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.is_nested())
      return;
    seen.sizes.push_back(tensor.sizes().vec());
    seen.isMask = seen.isMask || tensor.scalar_type() == at::kBool;
  });
}

/// A length that follows the samples, of a list of tensors, is no size of its tensors.
BatchForm BatchForms::formOf(const std::vector<Seen> &fewer, const std::vector<Seen> &more) {
  BatchForm form;
  bool isOneNumber = true, isOneLength = true;
  for (size_t k = 0; k < std::min(fewer.size(), more.size()); ++k) {
    const Seen &few = fewer[k], &many = more[k];
    form.isMask = form.isMask || few.isMask;
    form.isLong = form.isLong || (few.length && many.length && *few.length != *many.length);
    if (few.length && many.length) {
      const Dim length = between(*few.length, *many.length);
      isOneLength = isOneLength && (!form.length || *form.length == length);
      form.length = length;
    }
    for (size_t t = 0; t < std::min(few.sizes.size(), many.sizes.size()); ++t) {
      if (few.sizes[t].size() != many.sizes[t].size())
        continue;
      form.dims.resize(std::max(form.dims.size(), few.sizes[t].size()));
      for (size_t d = 0; d < few.sizes[t].size(); ++d)
        if (few.sizes[t][d] != many.sizes[t][d])
          form.dims[d] = true;
    }
    if (!few.number || !many.number)
      continue;
    const Dim number = between(*few.number, *many.number);
    isOneNumber = isOneNumber && (!form.number || *form.number == number);
    form.number = number;
  }
  if (!isOneNumber)
    form.number.reset();
  if (!isOneLength)
    form.length.reset();
  if (fewer.empty() || more.empty() || fewer[0].sizes.empty() || more[0].sizes.empty())
    return form;
  const auto &few = fewer[0].sizes[0], &many = more[0].sizes[0];
  form.isScalar = few.empty() && many.empty();
  for (size_t d = 0; d < few.size() && few.size() == many.size(); ++d)
    form.sizes.push_back(between(few[d], many[d]));
  return form;
}

Dim BatchForms::between(int64_t fewer, int64_t more) {
  const int64_t perSample = (more - fewer) / (kPartSamples[0] - kPartSamples[1]);
  return {perSample, fewer - perSample * kPartSamples[1]};
}

std::optional<BatchForms> BatchForms::of(Model &model, const CutTrial &trial) {
  if (trial.parts.calls.size() != 2)
    return std::nullopt;
  Run runs[2]; // of more samples, of fewer
  BatchForms forms;
  GraphEvaluator evaluator(model, /*countsFlops=*/true, nullptr, runningFor(model));
  for (size_t part = 0; part < 2; ++part) {
    Run &run = runs[part];
    auto inside = [&](torch::jit::Node *node, const std::vector<c10::IValue> &outputs) {
      for (size_t o = 0; o < outputs.size(); ++o)
        note(run, node->output(o), outputs[o]);
    };
    evaluator.lookInside(inside);
    const Values &call = trial.parts.calls[part];
    for (size_t i = 0; i < call.size(); ++i)
      note(run, model.graph->inputs()[i], call[i]);
    int64_t flops = 0;
    if (llvm::Error error = evaluator.run(ownCopies(call), [&](const OperatorRun &one) {
          inside(one.node, one.outputs);
          flops += one.work.flops;
        })) {
      llvm::consumeError(std::move(error)); // advice only; the stages run, or say what fails
      return std::nullopt;
    }
    forms.flopsPerSample_ = flops / kPartSamples[part];
  }
  for (const auto &[value, fewer] : runs[1])
    if (auto more = runs[0].find(value); more != runs[0].end())
      forms.forms_[value] = formOf(fewer, more->second);
  return forms;
}

const BatchForm &BatchForms::of(const torch::jit::Value *value) const {
  static const BatchForm none;
  const auto found = forms_.find(value);
  return found == forms_.end() ? none : found->second;
}

int64_t BatchForms::rowsPerSample(const torch::jit::Value *value, int64_t dim) const {
  const std::vector<Dim> &sizes = of(value).sizes;
  const bool exists = dim >= 0 && dim < static_cast<int64_t>(sizes.size());
  return exists ? std::max<int64_t>(0, sizes[dim].perBatch) : 0;
}

} // namespace pipec
