#include "ir/batch/SamplesInLists.h"

#include "ir/batch/CutCandidates.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/values/CompareValues.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace pipec {

namespace {

/// The list with its last entry twice.
c10::IValue longer(const c10::IValue &value) {
  if (!value.isList() || value.toListRef().empty())
    return value;
  c10::List<c10::IValue> list = value.toList().copy();
  list.push_back(value.toListRef().back());
  return list;
}

/// What the results of a list and of the list with one more entry have in common.
struct Results {
  bool follow = false;    // one more entry gives more of something
  bool grows = false;     // one more entry gives more tensors
  bool keepBatch = false; // a first dimension is the entries' own, with any number of them

  void compare(const c10::IValue &before, const c10::IValue &after, int64_t batch) {
    if (before.isTuple() && after.isTuple() &&
        before.toTupleRef().size() == after.toTupleRef().size()) {
      for (size_t i = 0; i < before.toTupleRef().size(); ++i)
        compare(before.toTupleRef().elements()[i], after.toTupleRef().elements()[i], batch);
      return;
    }
    if (before.isGenericDict() && after.isGenericDict()) {
      const c10::impl::GenericDict second = after.toGenericDict();
      for (const auto &entry : before.toGenericDict())
        if (second.contains(entry.key()))
          compare(entry.value(), second.at(entry.key()), batch);
      return;
    }
    const std::vector<at::Tensor> a = tensorsOf(before), b = tensorsOf(after);
    auto isBatch = [&](const at::Tensor &tensor) {
      return tensor.dim() > 0 && tensor.size(0) == batch;
    };
    auto others = [&](const std::vector<at::Tensor> &tensors) {
      return tensors.size() - static_cast<size_t>(llvm::count_if(tensors, isBatch));
    };
    grows |= b.size() > a.size();
    if (a.size() != b.size())
      follow |= others(b) > others(a);
    else
      for (size_t t = 0; t < a.size(); ++t) {
        const bool keeps = isBatch(a[t]) && isBatch(b[t]);
        keepBatch |= keeps;
        follow |= !keeps && a[t].sizes() != b[t].sizes();
      }
  }

private:
  static std::vector<at::Tensor> tensorsOf(const c10::IValue &value) {
    std::vector<at::Tensor> tensors = tensorsIn(value);
    llvm::erase_if(tensors, [](const at::Tensor &tensor) { return !tensor.defined(); });
    return tensors;
  }
};

/// Whether all entries are vectors of features: a row of numbers has no samples.
bool areVectors(const c10::IValue &value) {
  return llvm::all_of(tensorsIn(value), [](const at::Tensor &tensor) {
    return tensor.defined() && tensor.dim() == 1 && tensor.is_floating_point();
  });
}

/// The first dimension of the first tensor that has dimensions.
int64_t firstDimension(const c10::IValue &value) {
  std::optional<int64_t> size;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    if (!size && tensor.defined() && tensor.dim() > 0)
      size = tensor.size(0);
  });
  return size.value_or(0);
}

bool haveOneShape(const c10::IValue &value) {
  std::optional<std::vector<int64_t>> shape;
  bool all = true;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    all = all && tensor.defined() && (!shape || *shape == tensor.sizes());
    if (tensor.defined())
      shape = tensor.sizes().vec();
  });
  return all && shape;
}

/// What one more entry changes.
struct Longer {
  size_t first = 0; // the first list
  Results results;
};

/// Nullopt: not only lists are cut, or they have a fixed length, so that entries are no samples.
std::optional<Longer> tryLonger(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                                const std::vector<bool> &batchDimGiven, ModelRunner run) {
  if (anyDimGiven(signature, batchDimGiven))
    return std::nullopt;
  std::optional<size_t> first;
  std::vector<c10::IValue> call(inputs.begin(), inputs.end());
  const bool none = !isCut(signature);
  auto mayHaveSamples = [&](size_t i) {
    return none ? !batchDimGiven[i] && inputs[i].isList() && !tensorsByPath(inputs[i]).empty()
                : isCut(signature.inputs[i]);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!mayHaveSamples(i))
      continue;
    if (!inputs[i].isList())
      return std::nullopt;
    if (!first)
      first = i;
    if (!none || inputs[i].toListRef().size() == inputs[*first].toListRef().size())
      call[i] = longer(inputs[i]);
  }
  if (!first)
    return std::nullopt;
  auto after = run({ownCopies(call)});
  auto before = after ? run({ownCopies(inputs)}) : std::vector<c10::IValue>();
  if (!after || !before) {
    llvm::consumeError(after.takeError());
    llvm::consumeError(before.takeError());
    return std::nullopt;
  }
  Longer longer;
  longer.first = *first;
  const bool hasBatch = !none && !areVectors(inputs[*first]);
  longer.results.compare(before->front(), after->front(),
                         hasBatch ? firstDimension(inputs[*first]) : -1);
  return longer;
}

} // namespace

std::string samplesInLists(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                           const std::vector<bool> &batchDimGiven, ModelRunner run) {
  const std::optional<Longer> tried = tryLonger(signature, inputs, batchDimGiven, run);
  if (!tried || !tried->results.follow || tried->results.keepBatch)
    return "";
  return fmt::format("{} is a list with an entry per sample, and lists are not cut by entries "
                     "(pass a part of it per call, or all samples in one tensor)",
                     signature.inputs[tried->first].name);
}

std::string noteOnEntries(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                          const std::vector<bool> &batchDimGiven, ModelRunner run) {
  const std::optional<Longer> tried = tryLonger(signature, inputs, batchDimGiven, run);
  if (!tried || !(tried->results.grows || tried->results.follow) ||
      !haveOneShape(inputs[tried->first]))
    return "";
  const InputSpec &input = signature.inputs[tried->first];
  return fmt::format(
      "dimension {} of the entries of {} is cut, {} rows in each of {} entries: if {} "
      "has an entry per sample, pass --batch-dim {}=none, which gives the "
      "list whole, in one micro-batch",
      cutOf(input).dim.value_or(0), input.name, firstDimension(inputs[tried->first]),
      inputs[tried->first].toListRef().size(), input.name, input.name);
}

} // namespace pipec
