#include "ir/batch/discovery/TrialSpecs.h"

#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/ResultTree.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/support/Try.h"

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

/// Sizes that follow the batch, of values that are never cut.
TensorSpec withoutBatch(TensorSpec spec) {
  for (std::vector<Dim> *dims : {&spec.shape, &spec.strides})
    for (Dim &dim : *dims)
      if (!dim.dynamic && dim.perBatch != 0)
        dim = {.perBatch = 0, .constant = 0, .dynamic = true};
  return spec;
}

} // namespace

void describeResults(Signature &signature, const CutTrial &trial) {
  describeResult(signature, trial.example.results.front());
  for (const auto &[experiment, samples] : trial.experiments())
    for (const c10::IValue &result : experiment->results)
      agreeWithResult(signature, result);
}

llvm::Expected<std::vector<Values>> leavesOf(const Signature &signature,
                                             const Experiment &experiment) {
  std::vector<Values> leaves;
  for (const c10::IValue &result : experiment.results) {
    Values flat = TRY(flattenOutputs(signature, result));
    leaves.push_back(std::move(flat));
  }
  return leaves;
}

llvm::Expected<TrialLeaves> leavesOf(const Signature &signature, const CutTrial &trial) {
  TrialLeaves leaves;
  const std::pair<std::vector<Values> *, const Experiment *> all[] = {
      {&leaves.example, &trial.example}, {&leaves.whole, &trial.whole},
      {&leaves.parts, &trial.parts},     {&leaves.varied, &trial.varied},
      {&leaves.poked, &trial.poked},     {&leaves.small, &trial.small}};
  for (const auto &[into, experiment] : all) {
    *into = TRY(leavesOf(signature, *experiment));
  }
  return leaves;
}

bool differInStructure(const Signature &signature, const Halves &halves) {
  if (halves.whole.results.empty() || halves.parts.results.empty())
    return false;
  Signature agreed = signature;
  bool differ = false;
  for (const Experiment *experiment : {&halves.whole, &halves.parts})
    for (const c10::IValue &result : experiment->results)
      differ = agreeWithResult(agreed, result) || differ;
  return differ;
}

std::optional<std::vector<ResultCheck>>
checkHalves(const Signature &signature, const Halves &halves, llvm::ArrayRef<int64_t> samples) {
  if (halves.whole.results.empty() || halves.parts.results.empty())
    return std::nullopt;
  TrialLeaves leaves;
  for (auto [experiment, into] :
       {std::pair(&halves.whole, &leaves.whole), std::pair(&halves.parts, &leaves.parts)}) {
    llvm::Expected<std::vector<Values>> found = leavesOf(signature, *experiment);
    if (!found) {
      llvm::consumeError(found.takeError()); // results of another structure: nothing to compare
      return std::nullopt;
    }
    *into = std::move(*found);
  }
  return checkResults(signature, leaves, "", samples);
}

std::vector<ResultCheck> checkDoubled(const Signature &signature, const CutTrial &trial,
                                      bool drawsRandom) {
  const int64_t samples[] = {trial.candidate.batch, trial.candidate.batch};
  std::optional<std::vector<ResultCheck>> checks;
  if (!drawsRandom)
    checks = checkHalves(signature, trial.doubled, samples);
  return checks ? *checks : checkResults(signature, {}, trial.notTried(drawsRandom), samples);
}

LeafEvidence evidenceOf(const CutTrial &trial, const TrialLeaves &leaves, size_t leaf) {
  LeafEvidence evidence;
  auto add = [&](const std::vector<Values> &calls, llvm::ArrayRef<int64_t> samples) {
    for (size_t call = 0; call < calls.size(); ++call)
      evidence.seen.emplace_back(samples[call], calls[call][leaf]);
  };
  add(leaves.whole, kWholeSamples);
  add(leaves.small, kSmallSamples);
  add(leaves.varied, std::vector<int64_t>(leaves.varied.size(), trial.variedSamples));
  add(leaves.parts, kPartSamples);
  add(leaves.poked, kVariedSamples);
  // Sizes of a batch of one sample show too little beside others.
  if (!trial.runs() || trial.candidate.batch > 1)
    add(leaves.example, trial.candidate.batch);
  for (const Values &whole : leaves.whole)
    evidence.whole.push_back(whole[leaf]);
  for (const Values &part : leaves.parts)
    evidence.parts.push_back(part[leaf]);
  return evidence;
}

TensorSpec specOver(llvm::ArrayRef<std::pair<int64_t, c10::IValue>> seen,
                    const c10::IValue &example) {
  std::vector<std::pair<int64_t, TensorSpec>> specs;
  for (const auto &[size, value] : seen) {
    if (!value.isTensor())
      return {};
    specs.emplace_back(size, specOf(value.toTensor()));
  }
  TensorSpec spec = fitSpec(specs);
  if (spec.known && example.isTensor())
    spec.bytes = specOf(example.toTensor()).bytes;
  return spec;
}

void describeInputs(Signature &signature, const CutTrial &trial) {
  const Values &example = trial.example.calls.front();
  for (size_t i = 0; i < example.size(); ++i) {
    InputSpec &input = signature.inputs[i];
    std::vector<std::pair<int64_t, c10::IValue>> seen;
    if (trial.runs())
      for (int64_t size : kTrialSizes)
        seen.emplace_back(size, resizeBatch(example[i], cutOf(input), size));
    else
      seen.emplace_back(trial.candidate.batch, example[i]);
    input.tensor = specOver(seen, example[i]);
  }
}

void keepWhole(Signature &signature) {
  signature.batchSymbolic = false;
  for (InputSpec &input : signature.inputs) {
    setCut(input, {});
    input.tensor = withoutBatch(std::move(input.tensor));
  }
  using Kind = MergeRule::Kind;
  for (OutputLeaf &leaf : signature.leaves) {
    leaf.tensor = withoutBatch(std::move(leaf.tensor));
    // There is nothing to merge; the rule must only be the one that a fixed batch of these sizes
    // gets.
    const std::vector<Dim> &shape = leaf.tensor.shape;
    const Dim batch{.perBatch = 0, .constant = signature.batchSize, .dynamic = false};
    auto joined = llvm::find(shape, batch);
    const bool dynamic = llvm::any_of(shape, [](const Dim &dim) { return dim.dynamic; });
    const bool open = leaf.merge.kind == Kind::Same || leaf.merge.kind == Kind::List ||
                      leaf.merge.kind == Kind::Sum || leaf.merge.kind == Kind::Mean;
    if (!dynamic && joined != shape.end() && open)
      leaf.merge = {.kind = Kind::Concat, .dim = joined - shape.begin()};
  }
}

} // namespace pipec
