#include "ir/batch/MergeContainers.h"

#include "ir/support/Try.h"
#include "ir/values/Elements.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

namespace pipec {

llvm::Error differentTrees() {
  return makeError(ExitCode::Other, "the micro-batches returned results of different structure");
}

c10::IValue listOf(llvm::ArrayRef<c10::IValue> values) {
  bool tensors = llvm::all_of(values, [](const c10::IValue &value) { return value.isTensor(); });
  c10::impl::GenericList list(tensors ? c10::TypePtr(c10::TensorType::get())
                                      : c10::TypePtr(c10::AnyType::get()));
  for (const c10::IValue &value : values)
    list.push_back(value);
  return list;
}

bool areAlike(llvm::ArrayRef<c10::IValue> parts) {
  const c10::IValue &first = parts.front();
  return llvm::all_of(parts, [&](const c10::IValue &part) {
    if (part.tagKind() != first.tagKind())
      return false;
    if (first.isTuple())
      return part.toTupleRef().elements().size() == first.toTupleRef().elements().size();
    if (first.isList())
      return part.toListRef().size() == first.toListRef().size();
    if (!first.isGenericDict() || part.toGenericDict().size() != first.toGenericDict().size())
      return false;
    const c10::impl::GenericDict dict = part.toGenericDict();
    return llvm::all_of(first.toGenericDict(),
                        [&](const auto &entry) { return dict.contains(entry.key()); });
  });
}

llvm::Expected<c10::IValue> mapElements(llvm::ArrayRef<c10::IValue> parts, MergeColumn merge) {
  const c10::IValue &first = parts.front();
  if (first.isGenericDict()) {
    const c10::impl::GenericDict dict = first.toGenericDict();
    c10::impl::GenericDict merged(dict.keyType(), dict.valueType());
    for (const auto &entry : dict) {
      Values column;
      for (const c10::IValue &part : parts)
        column.push_back(part.toGenericDict().at(entry.key()));
      c10::IValue value = TRY(merge(column));
      merged.insert(entry.key(), std::move(value));
    }
    return merged;
  }
  std::vector<Values> elements;
  for (const c10::IValue &part : parts)
    elements.push_back(elementsIn(part));
  Values merged;
  for (size_t i = 0; i < elements.front().size(); ++i) {
    Values column;
    for (const Values &ofPart : elements)
      column.push_back(ofPart[i]);
    c10::IValue value = TRY(merge(column));
    merged.push_back(std::move(value));
  }
  if (first.isTuple())
    return c10::ivalue::Tuple::create(std::move(merged));
  c10::impl::GenericList list(first.toList().elementType());
  for (c10::IValue &value : merged)
    list.push_back(std::move(value));
  return list;
}

llvm::Expected<c10::IValue> joined(llvm::ArrayRef<c10::IValue> parts, int64_t depth) {
  const c10::IValue &first = parts.front();
  if (depth == 0) {
    if (!llvm::all_of(parts, [](const c10::IValue &part) { return part.isList(); }))
      return differentTrees();
    c10::impl::GenericList list(first.toList().elementType());
    for (const c10::IValue &part : parts)
      for (const c10::IValue &entry : part.toListRef())
        list.push_back(entry);
    return list;
  }
  if (!areAlike(parts))
    return differentTrees();
  return mapElements(parts,
                     [&](llvm::ArrayRef<c10::IValue> column) { return joined(column, depth - 1); });
}

bool areListsOfSamples(llvm::ArrayRef<c10::IValue> parts, llvm::ArrayRef<int64_t> samples) {
  for (size_t k = 0; k < parts.size(); ++k) {
    if (!parts[k].isList() || static_cast<int64_t>(parts[k].toListRef().size()) != samples[k])
      return false;
    const bool batches = llvm::all_of(parts[k].toListRef(), [&](const c10::IValue &entry) {
      return entry.isTensor() && entry.toTensor().dim() > 0 &&
             entry.toTensor().size(0) == samples[k];
    });
    if (batches)
      return false;
  }
  return true;
}

} // namespace pipec
