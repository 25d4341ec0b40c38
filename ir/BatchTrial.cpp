// Which inputs and outputs follow the batch: found by running the model at three sizes, never at
// size 1, where sizes say too little.
#include "ir/BatchDimGuess.h"
#include "ir/FindMergeRule.h"
#include "ir/MicroBatch.h"
#include "ir/SamplesByNumber.h"
#include "ir/SamplesInLists.h"
#include "ir/SamplesThatMix.h"
#include "ir/TorchError.h"
#include "ir/Values.h"
#include "ir/plan/Check.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>

namespace pipec {

namespace {

using Values = std::vector<c10::IValue>;

/// One run of the model.
struct Run {
  int64_t size;
  Values leaves;
};

llvm::Expected<Values> runCopy(LeafRunner run, llvm::ArrayRef<c10::IValue> inputs) {
  auto fresh =
      guardTorch(ExitCode::Other, "copying the example inputs", [&] { return ownCopies(inputs); });
  if (!fresh)
    return fresh.takeError();
  return run({std::move(*fresh)});
}

/// The runs at the trial sizes; empty when the model refuses one of them.
std::vector<Run> tryAllSizes(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                             LeafRunner run) {
  std::vector<Run> runs;
  for (int64_t size : kTrialSizes) {
    Values resized;
    llvm::Error error = guardTorchVoid(ExitCode::Other, "resizing", [&] {
      for (size_t i = 0; i < inputs.size(); ++i)
        resized.push_back(resizeBatch(inputs[i], signature.inputs[i].batchDim, size));
    });
    if (error) {
      llvm::consumeError(std::move(error));
      return {};
    }
    auto leaves = runCopy(run, resized);
    if (!leaves) { // baked-in sizes are common in traces: no error of the user's
      llvm::consumeError(leaves.takeError());
      return {};
    }
    runs.push_back({size, std::move(*leaves)});
  }
  return runs;
}

/// The samples of the example that a second micro-batch would get, alone.
struct LaterSamples {
  int64_t begin = 0, count = 0; // none: the example has one sample
  Values leaves;
  std::string problem; // what the model says against them; empty: it takes them
};

/// Never one sample alone, which some models refuse for their own reasons: it is repeated.
LaterSamples tryLaterSamples(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                             LeafRunner run) {
  LaterSamples later;
  llvm::Expected<int64_t> batch = batchSize(signature, inputs);
  if (!batch) {
    llvm::consumeError(batch.takeError());
    return later;
  }
  later.begin = (*batch + 1) / 2;
  later.count = *batch - later.begin;
  if (later.count < 1)
    return later;
  Values part;
  llvm::Error error = guardTorchVoid(ExitCode::Other, "cutting the example", [&] {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::optional<int64_t> dim = signature.inputs[i].batchDim;
      const c10::IValue rows = mapTensors(inputs[i], [&](const at::Tensor &tensor) {
        return dim && tensor.defined() ? tensor.narrow(*dim, later.begin, later.count) : tensor;
      });
      part.push_back(resizeBatch(rows, dim, std::max<int64_t>(2, later.count)));
    }
  });
  if (!error) {
    if (llvm::Expected<Values> leaves = runCopy(run, part))
      later.leaves = std::move(*leaves);
    else
      error = leaves.takeError();
  }
  if (error)
    later.problem = describe(std::move(error)).message;
  return later;
}

/// What the sizes showed.
struct Trial {
  std::vector<Run> runs; // empty: the model refuses a size
  std::string whole;     // why the batch is not cut all the same
  LaterSamples later;
  bool good() const { return !runs.empty() && whole.empty(); }
};

Trial tryOnce(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs, LeafRunner run) {
  Trial trial{tryAllSizes(signature, inputs, run), "", {}};
  if (trial.runs.empty())
    return trial;
  trial.later = tryLaterSamples(signature, inputs, run);
  const std::string &problem = trial.later.problem;
  if (!problem.empty())
    trial.whole = fmt::format("the model fails on the later samples of the example alone ({})",
                              llvm::StringRef(problem).split('\n').first.str());
  return trial;
}

/// All `candidates`, or all but one: an input may have the batch's size by chance.
Trial tryAllOrAllButOne(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                        llvm::ArrayRef<size_t> candidates, LeafRunner run) {
  Trial all = tryOnce(signature, inputs, run);
  for (size_t i : candidates) {
    if (all.good())
      break;
    const std::optional<int64_t> dim = std::exchange(signature.inputs[i].batchDim, std::nullopt);
    if (Trial without = tryOnce(signature, inputs, run); without.good())
      return without;
    signature.inputs[i].batchDim = dim;
  }
  return all;
}

/// The inputs that have the batch along their first dimension; where the user has named another one
/// of some input, and that fails, those that have it along another one, too.
Trial tryCandidates(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                    const std::vector<bool> &given, int64_t batch, LeafRunner run) {
  std::vector<size_t> candidates;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!given[i] && signature.inputs[i].batchDim)
      candidates.push_back(i);
  if (!candidates.empty() && !anyDimGiven(signature, given))
    candidates.erase(candidates.begin()); // the first one defined the batch
  Trial first = tryAllOrAllButOne(signature, inputs, candidates, run);
  if (first.good())
    return first;
  const std::vector<InputSpec> before = signature.inputs;
  for (const BatchDims &dims : otherBatchDims(signature, inputs, given, batch)) {
    setBatchDims(signature, dims);
    if (Trial more = tryOnce(signature, inputs, run); more.good())
      return more;
  }
  signature.inputs = before;
  return first;
}

/// The same inputs with other values in the samples: floats times `factor`, the rest reversed along
/// the last dimension, so that indices stay in range.
Values otherValues(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs, double factor) {
  Values result = ownCopies(inputs);
  at::NoGradGuard noGrad;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!signature.inputs[i].batchDim)
      continue;
    forEachTensor(result[i], [&](const at::Tensor &tensor) {
      if (!tensor.defined() || tensor.dim() == 0)
        return;
      if (tensor.is_floating_point() || tensor.is_complex())
        tensor.mul_(factor);
      else
        tensor.copy_(tensor.flip(-1));
    });
  }
  return result;
}

/// Sizes that follow the batch, of values that nobody cuts.
TensorSpec withoutBatch(TensorSpec spec) {
  for (std::vector<Dim> *dims : {&spec.shape, &spec.strides})
    for (Dim &dim : *dims)
      if (!dim.dynamic && dim.perBatch != 0)
        dim = {.perBatch = 0, .constant = 0, .dynamic = true};
  return spec;
}

/// No input is cut: what was learnt about sizes stays, as sizes that differ from call to call.
void keepWhole(Signature &signature) {
  signature.batchSymbolic = false;
  for (InputSpec &input : signature.inputs) {
    input.batchDim.reset();
    input.tensor = withoutBatch(std::move(input.tensor));
  }
  using Kind = MergeRule::Kind;
  for (OutputLeaf &leaf : signature.leaves) {
    leaf.tensor = withoutBatch(std::move(leaf.tensor));
    // There is nothing to merge; the rule only has to be what a fixed batch of these sizes gives.
    const std::vector<Dim> &shape = leaf.tensor.shape;
    const Dim batch{.perBatch = 0, .constant = signature.batchSize, .dynamic = false};
    auto joined = llvm::find(shape, batch);
    bool dynamic = llvm::any_of(shape, [](const Dim &dim) { return dim.dynamic; });
    if (!dynamic && joined != shape.end() &&
        (leaf.merge.kind == Kind::Same || leaf.merge.kind == Kind::List))
      leaf.merge = {.kind = Kind::Concat, .dim = joined - shape.begin()};
  }
}

/// The spec of a value that is one tensor in every run.
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

void describeInputs(Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputSpec &input = signature.inputs[i];
    std::vector<std::pair<int64_t, c10::IValue>> seen;
    if (signature.batchSymbolic)
      for (int64_t size : kTrialSizes)
        seen.emplace_back(size, resizeBatch(inputs[i], input.batchDim, size));
    else
      seen.emplace_back(signature.batchSize, inputs[i]);
    input.tensor = specOver(seen, inputs[i]);
  }
}

/// The trial of one guess of what is cut.
llvm::Error tryGuess(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                     const std::vector<bool> &batchDimGiven, LeafRunner run, std::string *whole,
                     std::string *mixes) {
  PIPEC_ASSERT(inputs.size() == signature.inputs.size() && batchDimGiven.size() == inputs.size(),
               "bound inputs");
  auto batch = guessBatchDims(signature, inputs, batchDimGiven);
  if (!batch)
    return batch.takeError();
  auto example = runCopy(run, inputs);
  if (!example)
    return example.takeError();

  Trial trial;
  if (*batch > 0)
    trial = tryCandidates(signature, inputs, batchDimGiven, *batch, run);
  if (trial.runs.empty())
    trial.whole = samplesInLists(signature, inputs, batchDimGiven, run);
  if (trial.runs.empty() && trial.whole.empty() && *batch > 0)
    trial.whole = samplesByNumber(signature, inputs, kTrialSizes, run);
  std::vector<Run> runs = std::move(trial.runs);
  signature.batchSymbolic = !runs.empty();
  signature.batchSize = *batch;

  // Repeated samples can hide that a value depends on them, and fresh copies that it depends on
  // earlier calls: runs with other values, in a second call, tell. Not every model takes negative
  // numbers, and not every one shows by half the number what hangs on a sign.
  bool symbolic = !runs.empty();
  int64_t variedSize = symbolic ? kTrialSizes[1] : *batch;
  if (!symbolic)
    runs.push_back({*batch, *example});
  for (double factor : {0.5, -0.5}) {
    Values first, second;
    llvm::Error error = guardTorchVoid(ExitCode::Other, "changing the example inputs", [&] {
      for (size_t i = 0; i < inputs.size(); ++i)
        first.push_back(symbolic ? resizeBatch(inputs[i], signature.inputs[i].batchDim, variedSize)
                                 : inputs[i]);
      second = otherValues(signature, first, factor);
      first = ownCopies(first);
    });
    if (error)
      return error;
    if (auto leaves = run({std::move(first), std::move(second)}))
      runs.push_back({variedSize, std::move(*leaves)});
    else
      llvm::consumeError(leaves.takeError());
  }

  return guardTorchVoid(ExitCode::Other, "comparing outputs of several batch sizes", [&] {
    describeInputs(signature, inputs);
    const std::optional<int64_t> fixed =
        signature.batchSymbolic ? std::nullopt : std::optional<int64_t>(*batch);
    for (size_t l = 0; l < signature.leaves.size(); ++l) {
      std::vector<std::pair<int64_t, c10::IValue>> seen;
      for (const Run &one : runs)
        seen.emplace_back(one.size, one.leaves.at(l));
      signature.leaves[l].merge = findMergeRule(seen, fixed);
      signature.leaves[l].tensor = specOver(seen, (*example)[l]);
    }
    const LaterSamples &later = trial.later;
    if (mixes && trial.whole.empty() && !later.leaves.empty())
      *mixes = samplesThatMix(signature, *example, later.leaves, later.begin, later.count);
    // Who names a dimension wants it cut.
    if (!trial.whole.empty() && !anyDimGiven(signature, batchDimGiven)) {
      keepWhole(signature);
      if (whole)
        *whole = trial.whole;
    }
  });
}

bool follows(const OutputLeaf &leaf) {
  return leaf.merge.kind != MergeRule::Kind::Same && leaf.merge.kind != MergeRule::Kind::List;
}

bool hasSizes(const OutputLeaf &leaf) { return !leaf.tensor.shape.empty(); }

/// Whether other guesses need not be tried: micro-batches run, and what they give has to do with
/// their samples, or is no tensor with sizes.
bool isGood(const Signature &signature) {
  return signature.batchSymbolic &&
         (llvm::any_of(signature.leaves, follows) || llvm::none_of(signature.leaves, hasSizes));
}

/// Whether a guess is better than one that is not good: all results with sizes follow it.
bool isBetter(const Signature &signature) {
  return signature.batchSymbolic && llvm::any_of(signature.leaves, follows) &&
         llvm::all_of(signature.leaves,
                      [](const OutputLeaf &leaf) { return follows(leaf) || !hasSizes(leaf); });
}

} // namespace

llvm::Error batchTrial(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                       const std::vector<bool> &batchDimGiven, LeafRunner run, std::string *whole,
                       std::string *mixes) {
  const Signature untried = signature;
  std::string why;
  if (llvm::Error error = tryGuess(signature, inputs, batchDimGiven, run, &why, mixes))
    return error;
  std::vector<bool> leftOut = batchDimGiven;
  while (why.empty() && !isGood(signature) && leaveOutGuess(leftOut, untried, inputs)) {
    Signature other = untried;
    std::string mixesOfOther;
    if (llvm::Error error = tryGuess(other, inputs, leftOut, run, &why, &mixesOfOther)) {
      llvm::consumeError(std::move(error));
    } else if (!why.empty() || isBetter(other)) {
      signature = std::move(other);
      if (mixes)
        *mixes = std::move(mixesOfOther);
    }
  }
  if (whole)
    *whole = std::move(why);
  return llvm::Error::success();
}

} // namespace pipec
