#include "ir/batch/SizeTrial.h"

#include "ir/TorchError.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/values/Values.h"

#include <ATen/core/Tensor.h>

#include <array>

namespace pipec {

namespace {

constexpr size_t kMostTrials = 8; // limits the time for a model with fixed sizes
constexpr int64_t kSamples = 3;   // as in the batch's trial: a single sample is a special case for
                                  // some models

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

/// Size 1 shows too little, because it broadcasts with every size.
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

/// A shorter size first, because tables of positions are limited. Then a longer one: some arguments
/// hold positions, and networks that halve an image and join it again need multiples of 16 or 32.
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
  Trial(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs, ModelRuns runAll)
      : signature_(signature), runAll_(runAll) {
    for (size_t i = 0; i < inputs.size(); ++i)
      base_.push_back(signature.batchSymbolic
                          ? resizeBatch(inputs[i], signature.inputs[i].batchDim, kSamples)
                          : inputs[i]);
  }

  /// All that vary, in the run that shows it.
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
    return found;
  }

  /// Adds the run at the longer sizes where the model takes them. False where the same inputs, in
  /// other memory, give other bits. All of it runs at once: a long run takes time.
  bool confirm(llvm::ArrayRef<Found> found) {
    std::vector<std::vector<Values>> experiments = {{ownCopies(runs_.front().inputs)}};
    std::optional<Values> longer;
    if (llvm::any_of(found, [](const Found &one) { return one.which == 0; }))
      longer = inputsAt(found, 1);
    for (int twice = 0; longer && twice < 2; ++twice)
      experiments.push_back({ownCopies(*longer)});
    std::vector<llvm::Expected<Values>> results = runAll_(std::move(experiments));
    std::vector<std::optional<Values>> leaves;
    for (llvm::Expected<Values> &result : results)
      leaves.push_back(leavesOf(std::move(result)));
    if (!isRepeated(runs_.front().leaves, leaves[0]))
      return false;
    if (!longer || !leaves[1])
      return true;
    runs_.push_back({std::move(*longer), std::move(*leaves[1])});
    return isRepeated(runs_.back().leaves, leaves[2]);
  }

  std::vector<SizeRun> &runs() { return runs_; }

private:
  static bool isRepeated(const Values &first, const std::optional<Values> &again) {
    if (!again || again->size() != first.size())
      return false;
    for (size_t l = 0; l < first.size(); ++l)
      if (!compare(first[l], (*again)[l], 0.0, 0.0).equal)
        return false;
    return true;
  }

  /// Returns nullopt if the model refused the inputs, which is not an error of the user.
  std::optional<Values> leavesOf(llvm::Expected<Values> results) const {
    llvm::Expected<Values> leaves =
        results ? flattenOutputs(signature_, results->front()) : results.takeError();
    if (leaves)
      return std::move(*leaves);
    llvm::consumeError(leaves.takeError());
    return std::nullopt;
  }

  std::optional<SizeRun> findIn(const Group &group, std::vector<Found> &found) {
    for (size_t which : {0, 1})
      if (std::optional<SizeRun> run = tryOne({group, which}, found))
        return run;
    // One of them may have that size by coincidence, such as the width of a token.
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
  /// refuses them.
  std::optional<SizeRun> at(llvm::ArrayRef<Found> found, std::optional<size_t> which) {
    std::optional<Values> inputs = inputsAt(found, which);
    if (!inputs)
      return std::nullopt;
    std::vector<std::vector<Values>> one = {{ownCopies(*inputs)}};
    std::optional<Values> leaves = leavesOf(std::move(runAll_(std::move(one)).front()));
    if (!leaves)
      return std::nullopt;
    return SizeRun{std::move(*inputs), std::move(*leaves)};
  }

  /// Returns nullopt if the example cannot be resized in this way.
  std::optional<Values> inputsAt(llvm::ArrayRef<Found> found, std::optional<size_t> which) const {
    Values resized = base_;
    llvm::Error error = guardTorchVoid(ExitCode::Other, "resizing", [&] {
      for (const Found &one : found)
        for (const Place &place : one.group.places)
          resized[place.input] = resizeBatch(resized[place.input], place.dim,
                                             otherSizes(one.group.size)[which.value_or(one.which)]);
      resized = ownCopies(resized);
    });
    const bool fits = !error;
    llvm::consumeError(std::move(error));
    return fits ? std::optional(std::move(resized)) : std::nullopt;
  }

  const Signature &signature_;
  ModelRuns runAll_;
  Values base_;
  size_t trials_ = 0;
  std::vector<SizeRun> runs_;
};

} // namespace

std::vector<SizeRun> sizeTrial(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                               bool keepsFeatures, ModelRuns runAll,
                               llvm::function_ref<bool(llvm::ArrayRef<c10::IValue>)> decidesAlike) {
  const std::vector<Group> groups = groupsOf(signature, inputs, keepsFeatures);
  if (groups.empty())
    return {};
  Trial trial(signature, inputs, runAll);
  const std::vector<Found> found = trial.find(groups);
  if (found.empty() || !trial.confirm(found))
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
