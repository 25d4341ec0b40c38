#include "ir/batch/discovery/SizeTrial.h"

#include "ir/TorchError.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/values/CompareValues.h"

#include <ATen/core/Tensor.h>

#include <array>

namespace pipec {

namespace {

constexpr size_t kMostTrials = 8; // limits the time for a model with fixed sizes

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
                          ? resizeBatch(inputs[i], cutOf(signature.inputs[i]), kSizeTrialSamples)
                          : inputs[i]);
  }

  /// All that vary, in the runs that show it: at the sizes that are known, and at the longer sizes
  /// where the model takes them. Both go on at once, each twice, because a long run takes time.
  std::vector<Found> find(llvm::ArrayRef<Group> groups) {
    std::vector<Found> found;
    std::vector<std::vector<Twice>> first;
    for (const Group &group : groups)
      if (std::vector<Twice> runs = findIn(group, found, groups.size() == 1); !runs.empty())
        first.push_back(std::move(runs));
    if (found.empty())
      return found;
    runs_ = found.size() > 1 ? at(found, /*longer=*/true) : std::move(first.front());
    if (runs_.empty()) { // they do not vary together
      found.resize(1);
      runs_ = std::move(first.front());
    }
    if (runs_.size() == 1 && groups.size() > 1 && found.size() == 1)
      addLonger(found);
    repeatOthers();
    return found;
  }

  /// Whether a second run in other memory gives the same bits.
  bool isRepeated() const {
    return llvm::all_of(runs_, [](const Twice &run) {
      return run.again && areEqual(run.first.leaves, *run.again);
    });
  }

  std::vector<SizeRun> takeRuns() {
    std::vector<SizeRun> runs;
    for (Twice &run : runs_)
      runs.push_back(std::move(run.first));
    return runs;
  }

private:
  struct Twice {
    SizeRun first;
    std::optional<Values> again; // nothing: it did not run yet, or was refused
  };

  static bool areEqual(const Values &first, const Values &again) {
    if (again.size() != first.size())
      return false;
    for (size_t l = 0; l < first.size(); ++l)
      if (!compare(first[l], again[l], 0.0, 0.0).equal)
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

  std::vector<Twice> findIn(const Group &group, std::vector<Found> &found, bool longer) {
    for (size_t which : {0, 1})
      if (std::vector<Twice> runs = tryOne({group, which}, found, longer); !runs.empty())
        return runs;
    // One of them may have that size by coincidence, such as the width of a token.
    for (size_t left = 0; left < group.places.size() && group.places.size() > 1; ++left) {
      Group others = group;
      others.places.erase(others.places.begin() + static_cast<ptrdiff_t>(left));
      if (std::vector<Twice> runs = tryOne({std::move(others), 0}, found, longer); !runs.empty())
        return runs;
    }
    return {};
  }

  std::vector<Twice> tryOne(const Found &candidate, std::vector<Found> &found, bool longer) {
    if (trials_++ >= kMostTrials)
      return {};
    std::vector<Twice> runs = at({candidate}, longer);
    if (!runs.empty())
      found.push_back(candidate);
    return runs;
  }

  /// The model with these groups at the sizes that are known and, with `longer`, at the longer ones
  /// if they are others. Nothing where it refuses the former.
  std::vector<Twice> at(llvm::ArrayRef<Found> found, bool longer) const {
    std::vector<Values> inputs;
    if (std::optional<Values> known = inputsAt(found, std::nullopt))
      inputs.push_back(std::move(*known));
    else
      return {};
    if (longer && llvm::any_of(found, [](const Found &one) { return one.which == 0; }))
      if (std::optional<Values> known = inputsAt(found, 1))
        inputs.push_back(std::move(*known));
    std::vector<std::vector<Values>> experiments;
    for (size_t k = 0; k < (longer ? 2 : 1) * inputs.size(); ++k)
      experiments.push_back({ownCopies(inputs[k % inputs.size()])});
    const size_t repeated = experiments.size() - inputs.size();
    std::vector<llvm::Expected<Values>> results = runAll_(std::move(experiments), {1, repeated});
    std::vector<std::optional<Values>> leaves;
    for (llvm::Expected<Values> &result : results)
      leaves.push_back(leavesOf(std::move(result)));
    std::vector<Twice> runs;
    for (size_t k = 0; k < inputs.size() && leaves[k]; ++k)
      runs.push_back({{std::move(inputs[k]), std::move(*leaves[k])},
                      repeated ? std::move(leaves[inputs.size() + k]) : std::nullopt});
    return runs;
  }

  void repeatOthers() {
    for (Twice &run : runs_) {
      if (run.again)
        continue;
      std::vector<std::vector<Values>> one(1);
      one.front().push_back(ownCopies(run.first.inputs));
      run.again = leavesOf(std::move(runAll_(std::move(one), {0, 1}).front()));
    }
  }

  void addLonger(llvm::ArrayRef<Found> found) {
    if (found.front().which != 0)
      return;
    Found longer = found.front();
    longer.which = 1;
    llvm::append_range(runs_, at({longer}, /*longer=*/false));
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
    const bool fits = !error; // otherwise the size stays as in the example
    llvm::consumeError(std::move(error));
    return fits ? std::optional(std::move(resized)) : std::nullopt;
  }

  const Signature &signature_;
  ModelRuns runAll_;
  Values base_;
  size_t trials_ = 0;
  std::vector<Twice> runs_;
};

} // namespace

bool mayVary(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs, bool keepsFeatures) {
  return !groupsOf(signature, inputs, keepsFeatures).empty();
}

std::vector<SizeRun> sizeTrial(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                               bool keepsFeatures, ModelRuns runAll,
                               llvm::function_ref<bool(llvm::ArrayRef<c10::IValue>)> decidesAlike) {
  const std::vector<Group> groups = groupsOf(signature, inputs, keepsFeatures);
  if (groups.empty())
    return {};
  Trial trial(signature, inputs, runAll);
  if (trial.find(groups).empty() || !trial.isRepeated())
    return {};
  std::vector<SizeRun> runs = trial.takeRuns();
  if (!llvm::all_of(runs, [&](const SizeRun &run) { return decidesAlike(run.inputs); }))
    return {};
  const int64_t batch = signature.batchSymbolic ? kSizeTrialSamples : signature.batchSize;
  for (const SizeRun &run : runs)
    widen(signature, run, batch);
  return runs;
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
