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
    std::vector<at::Tensor> tensors;
    forEachTensor(value, [&](const at::Tensor &tensor) {
      if (tensor.defined())
        tensors.push_back(tensor);
    });
    return tensors;
  }
};

/// The first dimension of the first tensor that has dimensions.
int64_t firstDimension(const c10::IValue &value) {
  std::optional<int64_t> size;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    if (!size && tensor.defined() && tensor.dim() > 0)
      size = tensor.size(0);
  });
  return size.value_or(0);
}

} // namespace

std::string samplesInLists(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                           const std::vector<bool> &batchDimGiven, ModelRunner run) {
  if (anyDimGiven(signature, batchDimGiven))
    return "";
  std::optional<size_t> first;
  std::vector<c10::IValue> call(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!isCut(signature.inputs[i]))
      continue;
    if (!inputs[i].isList())
      return "";
    if (!first)
      first = i;
    call[i] = longer(inputs[i]);
  }
  if (!first)
    return "";
  auto after = run({ownCopies(call)});
  auto before = after ? run({ownCopies(inputs)}) : std::vector<c10::IValue>();
  if (!after || !before) { // the list has a fixed length, so its entries are no samples
    llvm::consumeError(after.takeError());
    llvm::consumeError(before.takeError());
    return "";
  }
  Results results;
  results.compare(before->front(), after->front(), firstDimension(inputs[*first]));
  if (!results.follow || results.keepBatch)
    return "";
  return fmt::format("{} is a list with an entry per sample", signature.inputs[*first].name);
}

} // namespace pipec
