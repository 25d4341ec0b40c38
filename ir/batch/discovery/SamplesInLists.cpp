#include "ir/batch/discovery/SamplesInLists.h"

#include "ir/TorchError.h"
#include "ir/batch/CutCandidates.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/values/CompareValues.h"
#include "ir/values/Elements.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace pipec {

namespace {

constexpr int64_t kMostPerSample = 4; // entries of a list

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

std::string entryPerSample(const std::string &name, const char *otherwise) {
  return fmt::format("{} is a list with an entry per sample, and lists are not cut by entries "
                     "(pass a part of it per call, or {})",
                     name, otherwise);
}

/// The value with one more sample: each list of `batch` entries, or of several entries per sample,
/// gets those of the new one. Entries repeat as resizeBatch() repeats samples. `plain`: only lists
/// without tensors.
c10::IValue withEntries(const c10::IValue &value, int64_t batch, bool plain, bool &any) {
  if (value.isTuple()) {
    Values elements;
    for (const c10::IValue &element : value.toTupleRef().elements())
      elements.push_back(withEntries(element, batch, plain, any));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (value.isGenericDict()) {
    c10::impl::GenericDict dict = value.toGenericDict().copy();
    for (const auto &entry : value.toGenericDict())
      dict.insert_or_assign(entry.key(), withEntries(entry.value(), batch, plain, any));
    return dict;
  }
  if (!value.isList() || (plain && !tensorsIn(value).empty()))
    return value;
  const Values entries = elementsIn(value);
  const auto length = static_cast<int64_t>(entries.size());
  if (length == 0 || length % batch != 0 || length / batch > kMostPerSample)
    return value;
  any = true;
  const int64_t each = length / batch;
  c10::impl::GenericList list(value.toList().elementType());
  for (int64_t sample = 0; sample <= batch; ++sample)
    for (int64_t e = 0; e < each; ++e)
      list.push_back(entries[static_cast<size_t>(sample * batch / (batch + 1) * each + e)]);
  return list;
}

/// Kinds, lengths and sizes of a result, without its values.
std::string outlineOf(const c10::IValue &value) {
  if (value.isTensor())
    return value.toTensor().defined()
               ? fmt::format("[{}]", fmt::join(value.toTensor().sizes(), ","))
               : "none";
  std::string text = value.tagKind() + "(";
  if (isContainer(value))
    for (const c10::IValue &element : elementsIn(value))
      text += outlineOf(element) + ",";
  return text + ")";
}

/// The outline of the result; nothing if the model refuses the call.
std::optional<std::string> outlineOf(llvm::ArrayRef<c10::IValue> call, ModelRunner run) {
  llvm::Expected<Values> results = run({ownCopies(call)});
  if (results)
    return outlineOf(results->front());
  llvm::consumeError(results.takeError()); // a refusal is one of the answers
  return std::nullopt;
}

/// Calls with one more sample, with the entries of one more, and with both.
struct LongerCalls {
  Values samples, entries, both;

  /// Whether entries follow samples: both run, but each alone fails or changes nothing.
  bool follow(ModelRunner run) const {
    const std::optional<std::string> together = outlineOf(both, run);
    if (!together)
      return false;
    const std::optional<std::string> samplesAlone = outlineOf(samples, run);
    if (!samplesAlone)
      return true;
    const std::optional<std::string> entriesAlone = outlineOf(entries, run);
    return !entriesAlone || (samplesAlone == entriesAlone && samplesAlone != together);
  }
};

} // namespace

std::string listsBesideBatch(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                             ModelRunner run) {
  const int64_t batch = isCut(signature) ? batchSizeOr(0, signature, inputs) : 0;
  if (batch == 0)
    return "";
  LongerCalls all; // all lists are longer
  std::vector<size_t> lists;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool any = false;
    all.entries.push_back(withEntries(inputs[i], batch, isCut(signature.inputs[i]), any));
    if (any)
      lists.push_back(i);
  }
  if (lists.empty())
    return "";
  llvm::Error error = guardTorchVoid(ExitCode::Other, "resizing", [&] {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ArgumentCut cut = cutOf(signature.inputs[i]);
      bool any = false;
      all.samples.push_back(resizeBatch(inputs[i], cut, batch + 1));
      all.both.push_back(withEntries(all.samples[i], batch, cut.any(), any));
    }
  });
  if (error) { // what cannot be resized shows nothing
    llvm::consumeError(std::move(error));
    return "";
  }
  auto why = [&](size_t i) {
    return entryPerSample(signature.inputs[i].name, tensorsIn(inputs[i]).empty()
                                                        ? "a tensor with a row per sample"
                                                        : "all samples in one tensor");
  };
  for (size_t i : lists) {
    LongerCalls one{all.samples, inputs.vec(), all.samples};
    one.entries[i] = all.entries[i];
    one.both[i] = all.both[i];
    if (one.follow(run))
      return why(i);
  }
  return lists.size() > 1 && all.follow(run) ? why(lists.front()) : "";
}

std::string samplesInLists(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                           const std::vector<bool> &batchDimGiven, ModelRunner run) {
  const std::optional<Longer> tried = tryLonger(signature, inputs, batchDimGiven, run);
  if (!tried || !tried->results.follow || tried->results.keepBatch)
    return "";
  return entryPerSample(signature.inputs[tried->first].name, "all samples in one tensor");
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
