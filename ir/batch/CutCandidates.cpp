#include "ir/batch/CutCandidates.h"

#include "ir/batch/MicroBatch.h"
#include "ir/support/Try.h"
#include "ir/values/Values.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

#include <bit>

namespace pipec {

namespace {

/// The tensors of an argument that have a dimension.
std::vector<at::Tensor> tensorsWithDims(const c10::IValue &value) {
  std::vector<at::Tensor> tensors;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    if (tensor.defined() && tensor.dim() > 0)
      tensors.push_back(tensor);
  });
  return tensors;
}

bool allHave(const std::vector<at::Tensor> &tensors, int64_t dim, int64_t size) {
  return llvm::all_of(tensors, [&](const at::Tensor &tensor) {
    return dim < tensor.dim() && tensor.size(dim) == size;
  });
}

/// The first dimension, from `begin` on, along which all of an argument's tensors have `size`.
std::optional<int64_t> dimOfSize(const std::vector<at::Tensor> &tensors, int64_t size,
                                 int64_t begin = 0) {
  for (int64_t dim = begin; !tensors.empty() && dim < tensors[0].dim(); ++dim)
    if (allHave(tensors, dim, size))
      return dim;
  return std::nullopt;
}

/// Whether every tensor of the argument has `batch` along its first dimension.
bool followsFirst(const c10::IValue &value, int64_t batch) {
  bool any = false, all = true;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    any = true;
    all = all && tensor.defined() && tensor.dim() > 0 && tensor.size(0) == batch;
  });
  return any && all;
}

/// The first argument that a group may take the batch from.
std::optional<size_t> leaderOf(llvm::ArrayRef<c10::IValue> inputs, const std::vector<bool> &taken) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!taken[i] && !tensorsWithDims(inputs[i]).empty())
      return i;
  return std::nullopt;
}

CutDims cutOf(const Signature &signature) {
  CutDims dims;
  for (const InputSpec &input : signature.inputs)
    dims.push_back(input.batchDim);
  return dims;
}

/// Collects candidates of one group, each once.
class Group {
public:
  Group(std::vector<CutCandidate> &all, size_t group, int64_t batch)
      : all_(all), group_(group), batch_(batch) {}

  void add(const CutDims &dims, bool named = true) {
    if (llvm::none_of(all_, [&](const CutCandidate &other) { return other.dims == dims; }))
      all_.push_back({dims, batch_, group_, named});
  }

  /// `dims` without each of `arguments` in turn.
  void addAllButOne(const CutDims &dims, llvm::ArrayRef<size_t> arguments, bool named = true) {
    for (size_t argument : arguments) {
      CutDims fewer = dims;
      fewer[argument].reset();
      add(fewer, named);
    }
  }

private:
  std::vector<CutCandidate> &all_;
  size_t group_;
  int64_t batch_;
};

using Moves = std::vector<std::pair<size_t, int64_t>>; // an argument, and a dimension for it

std::vector<size_t> argumentsOf(const Moves &moves) {
  std::vector<size_t> arguments;
  for (const auto &[argument, dim] : moves)
    arguments.push_back(argument);
  return arguments;
}

CutDims moved(CutDims dims, const Moves &moves) {
  for (const auto &[argument, dim] : moves)
    dims[argument] = dim;
  return dims;
}

/// `base` with fewer and fewer of the followers; with many followers, with none.
void addFewer(Group &group, const CutDims &base, llvm::ArrayRef<size_t> followers) {
  constexpr size_t kMostFollowers = 4;
  const size_t count = followers.size();
  auto without = [&](size_t left) { // a bit for each follower that is left out
    CutDims dims = base;
    for (size_t k = 0; k < count; ++k)
      if (left >> k & 1)
        dims[followers[k]].reset();
    return dims;
  };
  if (count > kMostFollowers) {
    CutDims alone = base;
    for (size_t follower : followers)
      alone[follower].reset();
    return group.add(alone);
  }
  for (size_t leftOut = 2; leftOut <= count; ++leftOut)
    for (size_t left = 0; left < size_t(1) << count; ++left)
      if (static_cast<size_t>(std::popcount(left)) == leftOut)
        group.add(without(left));
}

/// If the user named dimensions, the others may follow along other dimensions than the first. An
/// equal size along the first dimension may be a coincidence, such as two layers of state for two
/// samples.
void addOtherDims(Group &group, const CutDims &base, int64_t batch,
                  llvm::ArrayRef<c10::IValue> inputs, const std::vector<bool> &given) {
  Moves added, moves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (given[i])
      continue;
    const std::optional<int64_t> other =
        dimOfSize(tensorsWithDims(inputs[i]), batch, base[i] ? *base[i] + 1 : 0);
    if (other)
      (base[i] ? moves : added).emplace_back(i, *other);
  }
  const CutDims more = moved(base, added), all = moved(more, moves);
  group.add(more, false);
  group.addAllButOne(more, argumentsOf(added), false);
  group.add(all, false);
  group.addAllButOne(all, argumentsOf(moves), false);
  for (const auto &move : moves) { // one stays, or only one moves
    CutDims stays = all;
    stays[move.first] = more[move.first];
    group.add(stays, false);
    group.add(moved(more, {move}), false);
  }
}

} // namespace

llvm::Expected<std::vector<CutCandidate>> cutCandidates(const Signature &signature,
                                                        llvm::ArrayRef<c10::IValue> inputs,
                                                        const std::vector<bool> &given) {
  std::vector<CutCandidate> candidates;
  const bool named = anyDimGiven(signature, given);
  std::vector<bool> taken = given; // arguments that must stay as given
  for (size_t number = 0;; ++number) {
    Signature cut = signature;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!given[i])
        cut.inputs[i].batchDim.reset();
    const std::optional<size_t> leader = leaderOf(inputs, taken);
    int64_t batch = 0;
    if (named) {
      int64_t size = TRY(batchSize(cut, inputs));
      batch = size;
    } else if (leader) {
      batch = tensorsWithDims(inputs[*leader]).front().size(0);
    }
    if (batch < 1)
      return candidates;
    std::vector<size_t> followers;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!taken[i] && followsFirst(inputs[i], batch)) {
        cut.inputs[i].batchDim = 0;
        if (named || i != *leader)
          followers.push_back(i);
      }
    const CutDims base = cutOf(cut);
    Group group(candidates, number, batch);
    group.add(base);
    group.addAllButOne(base, followers);
    if (!named)
      addFewer(group, base, followers);
    if (named) {
      addOtherDims(group, base, batch, inputs, given);
      return candidates;
    }
    taken[*leader] = true;
  }
}

std::vector<CutCandidate> secondDimensions(const Signature &signature,
                                           llvm::ArrayRef<c10::IValue> inputs,
                                           const std::vector<bool> &given) {
  const std::optional<size_t> leader = leaderOf(inputs, given);
  if (!leader || anyDimGiven(signature, given))
    return {};
  const std::vector<at::Tensor> tensors = tensorsWithDims(inputs[*leader]);
  const at::Tensor &first = tensors.front();
  const bool features = first.dim() == 2 && (first.is_floating_point() || first.is_complex());
  if (first.dim() < 2 || features || first.size(1) < 2)
    return {};
  CutCandidate all{CutDims(inputs.size()), first.size(1), 0, false};
  CutCandidate alone = all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<at::Tensor> other = tensorsWithDims(inputs[i]);
    if (given[i] || other.empty())
      continue;
    const bool alike = other.front().dim() > 2 && allHave(other, 1, all.batch);
    all.dims[i] = alike ? std::optional<int64_t>(1) : dimOfSize(other, all.batch);
  }
  all.dims[*leader] = alone.dims[*leader] = 1;
  if (alone.dims == all.dims)
    return {all};
  return {all, alone};
}

namespace {

/// The size along a batch dimension other than the first, which only a user can name.
std::optional<int64_t>
namedSize(const std::vector<std::pair<const InputSpec *, std::vector<at::Tensor>>> &inputs) {
  for (const auto &[input, tensors] : inputs)
    if (int64_t dim = input->batchDim.value_or(0); dim > 0 && dim < tensors[0].dim())
      return tensors[0].size(dim);
  return std::nullopt;
}

} // namespace

std::string suggestBatchDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  std::vector<std::pair<const InputSpec *, std::vector<at::Tensor>>> named;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (auto tensors = tensorsWithDims(inputs[i]); !tensors.empty())
      named.emplace_back(&signature.inputs[i], std::move(tensors));
  if (named.size() < 2)
    return "";
  // Without a name, the size along the first input's first dimension is the batch. An exception is
  // an input of steps, then samples: that size fits no other input, and the second size fits all.
  const at::Tensor &first = named[0].second[0];
  const std::optional<int64_t> known = namedSize(named);
  for (int64_t candidate = 0; candidate < (first.dim() > 2 && !known ? 2 : 1); ++candidate) {
    const int64_t size = known.value_or(first.size(candidate));
    std::string text;
    bool all = size > 1, isNew = false;
    for (const auto &[input, tensors] : named) {
      std::optional<int64_t> dim = input->batchDim && allHave(tensors, *input->batchDim, size)
                                       ? input->batchDim
                                       : dimOfSize(tensors, size);
      all = all && dim;
      if (dim.value_or(0) > 0) {
        text += fmt::format("{}{}={}", text.empty() ? "" : ",", input->name, *dim);
        isNew = isNew || input->batchDim != dim;
      }
    }
    if (all || (size > 1 && candidate == 0 && !text.empty()))
      return isNew ? text : "";
  }
  return "";
}

bool anyDimGiven(const Signature &signature, const std::vector<bool> &given) {
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] && signature.inputs[i].batchDim)
      return true;
  return false;
}

void setCut(Signature &signature, const CutDims &dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    signature.inputs[i].batchDim = dims[i];
}

} // namespace pipec
