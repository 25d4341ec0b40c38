#include "ir/values/MapTensors.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

namespace pipec {

void forEachTensor(const c10::IValue &value, llvm::function_ref<void(const at::Tensor &)> visit) {
  if (value.isTensor())
    return visit(value.toTensor());
  if (value.isTuple())
    for (const c10::IValue &element : value.toTupleRef().elements())
      forEachTensor(element, visit);
  if (value.isList())
    for (const c10::IValue &element : value.toListRef())
      forEachTensor(element, visit);
  if (value.isGenericDict())
    for (const auto &entry : value.toGenericDict())
      forEachTensor(entry.value(), visit);
}

std::vector<at::Tensor> tensorsIn(const c10::IValue &value) {
  std::vector<at::Tensor> tensors;
  forEachTensor(value, [&](const at::Tensor &tensor) { tensors.push_back(tensor); });
  return tensors;
}

bool hasGraph(const c10::IValue &value) {
  bool has = false;
  forEachTensor(value,
                [&](const at::Tensor &tensor) { has |= tensor.defined() && !tensor.is_leaf(); });
  return has;
}

c10::IValue mapTensors(const c10::IValue &value,
                       llvm::function_ref<at::Tensor(const at::Tensor &)> map) {
  if (value.isTensor())
    return map(value.toTensor());
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const c10::IValue &element : value.toTupleRef().elements())
      elements.push_back(mapTensors(element, map));
    auto type = value.type()->expect<c10::TupleType>();
    if (type->name())
      return c10::ivalue::Tuple::createNamed(std::move(elements), type);
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (value.isList()) {
    c10::List<c10::IValue> list = value.toList();
    c10::impl::GenericList result(list.elementType());
    result.reserve(list.size());
    for (const c10::IValue &element : value.toListRef())
      result.push_back(mapTensors(element, map));
    return result;
  }
  if (value.isGenericDict()) {
    c10::impl::GenericDict dict = value.toGenericDict();
    c10::impl::GenericDict result(dict.keyType(), dict.valueType());
    for (const auto &entry : dict)
      result.insert(entry.key(), mapTensors(entry.value(), map));
    return result;
  }
  return value;
}

} // namespace pipec
