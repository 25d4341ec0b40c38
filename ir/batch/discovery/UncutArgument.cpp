#include "ir/batch/discovery/UncutArgument.h"

#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/TrialValues.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

/// An argument, and its dimensions that may have `rows` entries per sample.
struct Follower {
  size_t argument;
  std::vector<int64_t> dims;
  int64_t rows = 1;

  std::string describe(const std::string &name) const {
    return rows > 1
               ? fmt::format("{} has {} rows per sample, and a cut gives every micro-batch one "
                             "row per sample, or all of it; for other sizes, let it have a "
                             "dimension of the batch's size, and reshape it in the model",
                             name, rows)
               : fmt::format("dimensions {} of {} have the size of the batch, and a cut is "
                             "along one dimension; for other sizes, compute it in the model",
                             fmt::join(dims, " and "), name);
  }
};

std::vector<Follower> followersOf(const CutTrial &trial, const Values &example) {
  constexpr size_t kMost = 4; // each is a run
  const int64_t batch = trial.candidate.batch;
  std::vector<Follower> found;
  bool isFirst = true; // of those that are cut: the batch is its size
  for (size_t i = 0; i < example.size(); ++i) {
    if (std::exchange(isFirst, isFirst && !trial.candidate.dims[i].any()) &&
        trial.candidate.dims[i].any())
      continue;
    if (!example[i].isTensor() || !example[i].toTensor().defined())
      continue;
    const at::Tensor &tensor = example[i].toTensor();
    Follower square{i, {}, 1};
    for (int64_t d = 0; d < tensor.dim(); ++d)
      if (tensor.size(d) == batch)
        square.dims.push_back(d);
    if (square.dims.size() > 1)
      found.push_back(square);
    else if (tensor.dim() > 0 && tensor.size(0) > batch && tensor.size(0) % batch == 0)
      found.push_back({i, {0}, tensor.size(0) / batch});
  }
  found.resize(std::min(found.size(), kMost));
  return found;
}

bool runsAt(int64_t samples, llvm::ArrayRef<Follower> followers, const CutTrial &trial,
            ModelRunner run) {
  const Values &example = trial.example.calls.front();
  return doesRun(run, [&] {
    Values inputs = resized(example, trial.candidate.dims, samples);
    for (const Follower &one : followers) {
      inputs[one.argument] = example[one.argument];
      for (const int64_t dim : one.dims)
        inputs[one.argument] = resizeBatch(inputs[one.argument], dim, one.rows * samples);
    }
    return inputs;
  });
}

} // namespace

std::string uncutArgument(const Signature &signature, const CutTrial &trial, ModelRunner run) {
  const Values &example = trial.example.calls.front();
  if (trial.runs() || trial.candidate.batch < 2)
    return "";
  const int64_t samples = trial.candidate.batch == 3 ? 2 : 3;
  const std::vector<Follower> followers = followersOf(trial, example);
  for (const Follower &one : followers)
    if (runsAt(samples, one, trial, run))
      return one.describe(signature.inputs[one.argument].name);
  if (followers.size() > 1 && runsAt(samples, followers, trial, run))
    return followers.front().describe(signature.inputs[followers.front().argument].name);
  return "";
}

} // namespace pipec
