#include "passes/analysis/MemoryTypes.h"

#include <ATen/core/jit_type.h>

namespace pipec {

namespace {

bool anyContained(const c10::Type &type, bool (*predicate)(const c10::Type &)) {
  for (const c10::TypePtr &contained : type.containedTypes()) {
    if (predicate(*contained))
      return true;
  }
  return false;
}

} // namespace

bool hasMemory(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::ComplexType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::StringType:
  case c10::TypeKind::NumberType:
  case c10::TypeKind::NoneType:
  case c10::TypeKind::DeviceObjType:
  case c10::TypeKind::StreamObjType:
  case c10::TypeKind::EnumType:
  case c10::TypeKind::ScalarTypeType:
  case c10::TypeKind::LayoutType:
  case c10::TypeKind::MemoryFormatType:
  case c10::TypeKind::SymIntType:
  case c10::TypeKind::SymFloatType:
  case c10::TypeKind::SymBoolType:
  case c10::TypeKind::FunctionType:
    return false;
  case c10::TypeKind::OptionalType:
  case c10::TypeKind::UnionType:
  case c10::TypeKind::TupleType: // a tuple itself cannot be written
    return anyContained(type, hasMemory);
  default: // tensors, lists, dicts, objects, and whatever LibTorch adds
    return true;
  }
}

bool mayHold(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return false;
  case c10::TypeKind::OptionalType:
  case c10::TypeKind::UnionType:
    return anyContained(type, mayHold);
  case c10::TypeKind::ListType:
  case c10::TypeKind::DictType:
  case c10::TypeKind::TupleType:
  case c10::TypeKind::FutureType:
    return anyContained(type, hasMemory);
  default:
    return hasMemory(type);
  }
}

bool holdsTensors(const c10::Type &type) {
  return type.kind() == c10::TypeKind::TensorType || anyContained(type, holdsTensors);
}

bool mayHoldTensor(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::ComplexType:
  case c10::TypeKind::NumberType:
  case c10::TypeKind::StringType:
  case c10::TypeKind::NoneType:
  case c10::TypeKind::DeviceObjType:
    return false;
  case c10::TypeKind::ListType:
  case c10::TypeKind::DictType:
  case c10::TypeKind::TupleType:
  case c10::TypeKind::OptionalType:
    return anyContained(type, mayHoldTensor);
  default:
    return true;
  }
}

} // namespace pipec
