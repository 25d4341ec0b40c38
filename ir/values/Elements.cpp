#include "ir/values/Elements.h"

#include <ATen/core/Dict.h>

namespace pipec {

bool isContainer(const c10::IValue &value) {
  return value.isTuple() || value.isList() || value.isGenericDict();
}

std::vector<c10::IValue> elementsIn(const c10::IValue &value) {
  if (value.isTuple())
    return value.toTupleRef().elements().vec();
  if (value.isList())
    return value.toListRef().vec();
  std::vector<c10::IValue> values;
  if (value.isGenericDict())
    for (const auto &entry : value.toGenericDict())
      values.push_back(entry.value());
  return values;
}

} // namespace pipec
