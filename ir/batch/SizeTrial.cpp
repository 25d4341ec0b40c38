#include "ir/batch/SizeTrial.h"

#include "ir/TorchError.h"
#include "ir/values/Values.h"

#include <ATen/core/Tensor.h>

#include <array>

namespace pipec {

namespace {

constexpr size_t kMostTrials = 8; // a model that fixes its sizes pays for them too
constexpr int64_t kSamples = 3;   // as batchTrial: one sample alone is special to some models

/// A dimension of an argument that is one tensor.
struct Place {
  size_t input;
  int64_t dim;
};

/// Dimensions that vary together.
struct Group {
  int64_t size; // in the example
  std::vector<Place> places;
};

/// Size 1 says too little, as everything broadcasts with it.
std::vector<Group> groupsOf(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                            bool keepsFeatures) {
  std::vector<Group> groups;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    if (!input.tensor.known || !inputs[i].isTensor())
      continue;
    const at::Tensor &tensor = inputs[i].toTensor();
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      if (keepsFeatures && d == tensor.dim() - 1 &&
          (tensor.is_floating_point() || tensor.is_complex()))
        continue;
      if (d == input.batchDim || input.tensor.shape[d].dynamic || tensor.size(d) < 2)
        continue;
      auto same =
          llvm::find_if(groups, [&](const Group &group) { return group.size == tensor.size(d); });
      if (same == groups.end())
        same = groups.insert(groups.end(), {tensor.size(d), {}});
      same->places.push_back({i, d});
    }
  }
  return groups;
}

/// A shorter one first: tables of positions end somewhere. Then a longer one: some arguments hold
/// positions, and networks that halve an image and join it again want multiples of 16 or 32.
std::array<int64_t, 2> otherSizes(int64_t size) {
  const int64_t shorter = size >= 4 ? size / 2 : size == 3 ? 2 : 3;
  const int64_t step = std::min<int64_t>(32, size & -size);
  return {shorter, size + step};
}

/// A group, and which of its two other sizes the model is known to take.
struct Found {
  Group group;
  size_t which = 0;
};

class Trial {
public:
  Trial(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs, ModelRunner run)
      : signature_(signature), run_(run) {
    for (size_t i = 0; i < inputs.size(); ++i)
      base_.push_back(signature.batchSymbolic
                          ? resizeBatch(inputs[i], signature.inputs[i].batchDim, kSamples)
                          : inputs[i]);
  }

  /// All that vary, in the run that shows it; afterwards runs() has a second one where there is
  /// one.
  std::vector<Found> find(llvm::ArrayRef<Group> groups) {
    std::vector<Found> found;
    std::vector<SizeRun> first;
    for (const Group &group : groups)
      if (std::optional<SizeRun> run = findIn(group, found))
        first.push_back(std::move(*run));
    if (found.empty())
      return found;
    std::optional<SizeRun> all = found.size() > 1 ? at(found, std::nullopt) : std::nullopt;
    if (!all) { // they do not vary together
      found.resize(1);
      all = std::move(first.front());
    }
    runs_.push_back(std::move(*all));
    if (llvm::any_of(found, [](const Found &one) { return one.which == 0; }))
      if (std::optional<SizeRun> longer = at(found, 1))
        runs_.push_back(std::move(*longer));
    return found;
  }

  std::vector<SizeRun> &runs() { return runs_; }

  /// The same inputs, in other memory, give the same bits.
  bool repeats() {
    return llvm::all_of(runs_, [&](const SizeRun &first) {
      bool same = false;
      llvm::Error error = guardTorchVoid(ExitCode::Other, "running again", [&] {
        llvm::Expected<Values> again = leavesOf(ownCopies(first.inputs));
        if (!again)
          return llvm::consumeError(again.takeError());
        same = again->size() == first.leaves.size();
        for (size_t l = 0; same && l < again->size(); ++l)
          same = compare(first.leaves[l], (*again)[l], 0.0, 0.0).equal;
      });
      const bool ran = !error;
      llvm::consumeError(std::move(error));
      return ran && same;
    });
  }

private:
  llvm::Expected<Values> leavesOf(Values inputs) {
    llvm::Expected<std::vector<c10::IValue>> results = run_({std::move(inputs)});
    if (!results)
      return results.takeError();
    return flattenOutputs(signature_, results->front());
  }

  std::optional<SizeRun> findIn(const Group &group, std::vector<Found> &found) {
    for (size_t which : {0, 1})
      if (std::optional<SizeRun> run = tryOne({group, which}, found))
        return run;
    // One of them may have the size by chance, as the width of a token has.
    for (size_t left = 0; left < group.places.size() && group.places.size() > 1; ++left) {
      Group others = group;
      others.places.erase(others.places.begin() + static_cast<ptrdiff_t>(left));
      if (std::optional<SizeRun> run = tryOne({std::move(others), 0}, found))
        return run;
    }
    return std::nullopt;
  }

  std::optional<SizeRun> tryOne(const Found &candidate, std::vector<Found> &found) {
    if (trials_++ >= kMostTrials)
      return std::nullopt;
    std::optional<SizeRun> run = at({candidate}, std::nullopt);
    if (run)
      found.push_back(candidate);
    return run;
  }

  /// The model with these groups at the sizes that are known, or at `which`; nothing where it
  /// refuses them, which is no error of the user's.
  std::optional<SizeRun> at(llvm::ArrayRef<Found> found, std::optional<size_t> which) {
    SizeRun result;
    llvm::Error error = guardTorchVoid(ExitCode::Other, "resizing", [&] {
      Values resized = base_;
      for (const Found &one : found)
        for (const Place &place : one.group.places)
          resized[place.input] = resizeBatch(resized[place.input], place.dim,
                                             otherSizes(one.group.size)[which.value_or(one.which)]);
      result.inputs = ownCopies(resized);
      resized = ownCopies(resized);
      if (llvm::Expected<Values> leaves = leavesOf(std::move(resized)))
        result.leaves = std::move(*leaves);
      else {
        llvm::consumeError(leaves.takeError());
        result.inputs.clear();
      }
    });
    const bool runs = !error && !result.inputs.empty();
    llvm::consumeError(std::move(error));
    return runs ? std::optional(std::move(result)) : std::nullopt;
  }

  const Signature &signature_;
  ModelRunner run_;
  Values base_;
  size_t trials_ = 0;
  std::vector<SizeRun> runs_;
};

} // namespace

std::vector<SizeRun> sizeTrial(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                               bool keepsFeatures, ModelRunner run,
                               llvm::function_ref<bool(llvm::ArrayRef<c10::IValue>)> decidesAlike) {
  const std::vector<Group> groups = groupsOf(signature, inputs, keepsFeatures);
  if (groups.empty())
    return {};
  Trial trial(signature, inputs, run);
  if (trial.find(groups).empty() || !trial.repeats())
    return {};
  for (const SizeRun &one : trial.runs())
    if (!decidesAlike(one.inputs))
      return {};
  const int64_t batch = signature.batchSymbolic ? kSamples : signature.batchSize;
  for (const SizeRun &one : trial.runs())
    widen(signature, one, batch);
  return std::move(trial.runs());
}

void widen(Signature &signature, const SizeRun &run, int64_t batch) {
  auto specOfValue = [](const c10::IValue &value) {
    return value.isTensor() ? specOf(value.toTensor()) : TensorSpec();
  };
  for (size_t i = 0; i < run.inputs.size(); ++i)
    widen(signature.inputs[i].tensor, specOfValue(run.inputs[i]), batch);
  for (size_t l = 0; l < run.leaves.size(); ++l)
    widen(signature.leaves[l].tensor, specOfValue(run.leaves[l]), batch);
}

void widen(TensorSpec &spec, const TensorSpec &other, int64_t batch) {
  if (!spec.known)
    return;
  if (!other.known || other.dtype != spec.dtype || other.shape.size() != spec.shape.size()) {
    spec = {};
    return;
  }
  for (std::vector<Dim> TensorSpec::*field : {&TensorSpec::shape, &TensorSpec::strides})
    for (size_t d = 0; d < other.shape.size(); ++d)
      if (Dim &dim = (spec.*field)[d]; dim.at(batch) != (other.*field)[d].constant)
        dim = {.perBatch = 0, .constant = 0, .dynamic = true};
}

} // namespace pipec
