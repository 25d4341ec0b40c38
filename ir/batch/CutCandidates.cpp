#include "ir/batch/CutCandidates.h"

#include "ir/batch/DimsOfSize.h"
#include "ir/batch/MicroBatch.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>

#include <bit>

namespace pipec {

namespace {

/// The first argument that a group may take the batch from.
std::optional<size_t> leaderOf(llvm::ArrayRef<c10::IValue> inputs, const std::vector<bool> &taken) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!taken[i] && !tensorsWithDims(inputs[i]).empty())
      return i;
  return std::nullopt;
}

/// Tensors of one argument that are cut together along their first dimension.
struct Unit {
  size_t argument;
  int64_t size;                   // along that dimension
  std::vector<std::string> paths; // of the tensors; empty: all of the argument
  bool mayBeCut = true;           // false: another argument may follow its size

  void add(CutDims &dims) const {
    if (!mayBeCut)
      return;
    if (paths.empty())
      dims[argument].dim = 0;
    for (const std::string &path : paths)
      dims[argument].set(path, 0);
  }

  void remove(CutDims &dims) const {
    if (!mayBeCut)
      return;
    if (paths.empty())
      dims[argument].dim.reset();
    llvm::erase_if(dims[argument].parts,
                   [&](const PartDim &part) { return llvm::is_contained(paths, part.path); });
  }
};

/// A dict or tuple has a unit for each size of its tensors, a list one: a list whose entries differ
/// has an entry per sample, most often.
void addUnits(std::vector<Unit> &units, size_t argument, const c10::IValue &value,
              const ArgumentCut &given) {
  constexpr size_t kMostSizes = 4;
  std::vector<Unit> own;
  bool all = given.parts.empty(); // of the argument's tensors are in a unit
  for (const auto &[path, tensor] : tensorsByPath(value)) {
    if (given.partOf(path))
      continue;
    if (!tensor.defined() || tensor.dim() == 0) {
      all = false;
      continue;
    }
    auto same = llvm::find_if(own, [&](const Unit &unit) { return unit.size == tensor.size(0); });
    if (same == own.end())
      same = own.insert(own.end(), {argument, tensor.size(0), {}});
    same->paths.push_back(path);
  }
  if (own.size() == 1 && all)
    own.front().paths.clear();
  else if ((value.isList() && given.parts.empty()) || own.size() > kMostSizes) {
    own.resize(std::min<size_t>(own.size(), 1));
    for (Unit &unit : own)
      unit.mayBeCut = false;
  }
  llvm::append_range(units, own);
}

/// The cut as the user gave it: nothing else is cut.
CutDims givenCut(const Signature &signature, const std::vector<bool> &given) {
  CutDims dims;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    dims.push_back(cutOf(signature.inputs[i]));
    if (!given[i])
      dims.back().dim.reset();
  }
  return dims;
}

/// What no unit has of an argument that is cut in part is whole, and says so: another call may have
/// further parts.
void nameOthers(CutDims &dims, llvm::ArrayRef<c10::IValue> inputs) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (!dims[i].dim && dims[i].any())
      for (const auto &[path, tensor] : tensorsByPath(inputs[i]))
        if (!dims[i].partOf(path))
          dims[i].set(path, std::nullopt);
}

/// Which of `count` things are left out, as bits: at least `least`, first few, then more. Of many
/// things at most two, so that the number of candidates stays small.
std::vector<size_t> leftOut(size_t count, size_t least) {
  constexpr size_t kFew = 4, kMost = 8;
  std::vector<size_t> all;
  for (size_t number = least; number <= (count <= kFew ? count : 2) && count <= kMost; ++number)
    for (size_t left = 0; left < size_t(1) << count; ++left)
      if (static_cast<size_t>(std::popcount(left)) == number)
        all.push_back(left);
  return all;
}

/// Collects candidates of one group, each once.
class Group {
public:
  Group(std::vector<CutCandidate> &all, size_t group, int64_t batch,
        llvm::ArrayRef<c10::IValue> inputs)
      : all_(all), group_(group), batch_(batch), inputs_(inputs) {}

  void add(CutDims dims, bool named = true) {
    nameOthers(dims, inputs_);
    if (llvm::none_of(all_, [&](const CutCandidate &other) { return other.dims == dims; }))
      all_.push_back({std::move(dims), batch_, group_, named});
  }

  /// `dims` without each of `arguments` in turn.
  void addAllButOne(const CutDims &dims, llvm::ArrayRef<size_t> arguments, bool named = true) {
    for (size_t argument : arguments) {
      CutDims fewer = dims;
      fewer[argument].dim.reset();
      add(fewer, named);
    }
  }

  /// The same for units.
  void addAllButOne(const CutDims &dims, llvm::ArrayRef<const Unit *> units) {
    for (const Unit *unit : units) {
      CutDims fewer = dims;
      unit->remove(fewer);
      add(fewer);
    }
  }

  /// `dims` without one tensor of a unit, then without several, if they are few.
  void addFewerParts(const CutDims &dims, const Unit &unit) {
    const c10::IValue &value = inputs_[unit.argument];
    std::vector<std::string> paths = unit.paths;
    if (paths.empty() && (value.isTuple() || value.isGenericDict() || value.isTensorList()))
      for (const auto &[path, tensor] : tensorsByPath(value))
        paths.push_back(path);
    if (!unit.mayBeCut || paths.size() < 2)
      return;
    for (const size_t left : leftOut(paths.size(), 1)) {
      if (left + 1 == size_t(1) << paths.size())
        continue; // all: that is the argument without a cut
      CutDims fewer = dims;
      fewer[unit.argument].dim.reset();
      for (size_t k = 0; k < paths.size(); ++k)
        fewer[unit.argument].set(paths[k],
                                 left >> k & 1 ? std::nullopt : std::optional<int64_t>(0));
      add(fewer);
    }
  }

private:
  std::vector<CutCandidate> &all_;
  size_t group_;
  int64_t batch_;
  llvm::ArrayRef<c10::IValue> inputs_;
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
    dims[argument].dim = dim;
  return dims;
}

/// `base` with fewer and fewer of the followers, and with none.
void addFewer(Group &group, const CutDims &base, llvm::ArrayRef<const Unit *> followers) {
  const size_t count = followers.size();
  for (const size_t left : leftOut(count, 2)) {
    CutDims dims = base;
    for (size_t k = 0; k < count; ++k)
      if (left >> k & 1)
        followers[k]->remove(dims);
    group.add(dims);
  }
  CutDims alone = base;
  for (const Unit *follower : followers)
    follower->remove(alone);
  if (count > 1)
    group.add(alone);
}

/// The arguments that are cut, without one.
std::vector<size_t> cutBeside(size_t leader, const CutDims &dims) {
  std::vector<size_t> arguments;
  for (size_t i = 0; i < dims.size(); ++i)
    if (i != leader && dims[i].any())
      arguments.push_back(i);
  return arguments;
}

/// If the user named dimensions, the others may follow along other dimensions than the first. An
/// equal size along the first dimension may be a coincidence, such as two layers of state for two
/// samples.
void addOtherDims(Group &group, const CutDims &base, int64_t batch,
                  llvm::ArrayRef<c10::IValue> inputs, const std::vector<bool> &given) {
  Moves added, moves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (given[i] || !base[i].parts.empty())
      continue;
    const std::optional<int64_t> now = base[i].dim, other = dimOfSize(tensorsWithDims(inputs[i]),
                                                                      batch, now ? *now + 1 : 0);
    if (other)
      (now ? moves : added).emplace_back(i, *other);
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
  for (size_t i = 0; i < inputs.size(); ++i)
    TRY(expectParts(signature.inputs[i], inputs[i]));
  const CutDims asGiven = givenCut(signature, given);
  std::vector<Unit> units;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!given[i])
      addUnits(units, i, inputs[i], asGiven[i]);
  const bool named = anyDimGiven(signature, given);
  int64_t namedBatch = 0;
  if (named) {
    Signature cut = signature;
    setCut(cut, asGiven);
    int64_t size = TRY(batchSize(cut, inputs));
    namedBatch = size;
  }
  for (size_t number = 0; named ? number == 0 : number < units.size(); ++number) {
    const int64_t batch = named ? namedBatch : units[number].size;
    if (batch < 1)
      return candidates;
    CutDims base = asGiven;
    std::vector<const Unit *> followers, cut;
    for (size_t u = number; u < units.size(); ++u)
      if (units[u].size == batch && units[u].mayBeCut) {
        units[u].add(base);
        cut.push_back(&units[u]);
        if (named || u != number)
          followers.push_back(&units[u]);
      }
    Group group(candidates, number, batch, inputs);
    group.add(base);
    group.addAllButOne(base, followers);
    if (!named)
      addFewer(group, base, followers);
    for (const Unit *unit : cut)
      group.addFewerParts(base, *unit);
    if (named)
      addOtherDims(group, base, batch, inputs, given);
  }
  return candidates;
}

std::vector<CutCandidate> otherDimensions(const std::vector<CutCandidate> &tried,
                                          llvm::ArrayRef<c10::IValue> inputs,
                                          std::vector<bool> given) {
  constexpr size_t kMost = 8; // a model with a fixed size refuses each of them
  if (tried.empty())
    return {};
  const CutCandidate &base = tried.front();
  const auto first = llvm::find_if(base.dims, [](const ArgumentCut &cut) { return cut.any(); });
  if (first != base.dims.end())
    given[static_cast<size_t>(first - base.dims.begin())] = true;
  std::vector<CutCandidate> all = tried;
  Group group(all, base.group, base.batch, inputs);
  addOtherDims(group, base.dims, base.batch, inputs, given);
  all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(tried.size()));
  all.resize(std::min(all.size(), kMost));
  return all;
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
  CutCandidate alike = all; // y[steps, samples] of x[steps, samples], with as many of each
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const std::vector<at::Tensor> other = tensorsWithDims(inputs[i]);
        all.dims[i].any() && other.front().sizes().slice(0, 1) == first.sizes().slice(0, 1) &&
        allHave(other, 1, all.batch))
      alike.dims[i] = 1;
  std::vector<CutCandidate> ways;
  Group group(ways, all.group, all.batch, inputs);
  group.add(all.dims, all.named);
  group.add(alike.dims, all.named);
  group.addAllButOne(all.dims, cutBeside(*leader, all.dims), all.named);
  group.add(alone.dims, all.named);
  return ways;
}

std::vector<CutCandidate> laterDimensions(const Signature &signature,
                                          llvm::ArrayRef<c10::IValue> inputs,
                                          const std::vector<bool> &given, bool ofFeatures) {
  constexpr size_t kMost = 6;
  const std::optional<size_t> leader = leaderOf(inputs, given);
  if (!leader || anyDimGiven(signature, given))
    return {};
  const std::vector<at::Tensor> tensors = tensorsWithDims(inputs[*leader]);
  const at::Tensor &first = tensors.front();
  std::vector<CutCandidate> ways;
  for (int64_t dim = first.dim() - 1; dim > (first.dim() == 2 && ofFeatures ? 0 : 1); --dim) {
    const int64_t batch = first.size(dim);
    if (batch < 2 || !allHave(tensors, dim, batch))
      continue;
    CutDims all(inputs.size()), alone(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<at::Tensor> other = tensorsWithDims(inputs[i]);
      if (given[i] || other.empty())
        continue;
      const bool alike = other.front().dim() == first.dim() && allHave(other, dim, batch);
      all[i] = alike ? std::optional<int64_t>(dim) : dimOfSize(other, batch);
    }
    all[*leader] = alone[*leader] = dim;
    Group group(ways, /*group=*/0, batch, inputs);
    group.add(all, /*named=*/false);
    group.addAllButOne(all, cutBeside(*leader, all), /*named=*/false);
    group.add(alone, /*named=*/false);
  }
  ways.resize(std::min(ways.size(), kMost));
  return ways;
}

bool anyDimGiven(const Signature &signature, const std::vector<bool> &given) {
  for (size_t i = 0; i < given.size(); ++i)
    if ((given[i] && signature.inputs[i].batchDim) ||
        llvm::any_of(signature.inputs[i].parts,
                     [](const PartDim &part) { return part.dim.has_value(); }))
      return true;
  return false;
}

void setCut(Signature &signature, const CutDims &dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    setCut(signature.inputs[i], dims[i]);
}

} // namespace pipec
