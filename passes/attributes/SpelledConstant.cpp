#include "passes/attributes/SpelledConstant.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/support/Try.h"
#include "llvm/ADT/ArrayRef.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

/// A node that stands for the read of an attribute, as messages call the read.
std::string describeRead(torch::jit::Node *read) {
  return "prim::GetAttr" +
         describeNode(read).substr(std::string(read->kind().toQualString()).size());
}

} // namespace

llvm::Expected<torch::jit::Value *>
spelledConstant(const c10::IValue &value, const c10::TypePtr &type, const std::string &path,
                torch::jit::Node *read,
                llvm::function_ref<torch::jit::Value *(const at::Tensor &)> valueOf) {
  torch::jit::Graph &graph = *read->owningGraph();
  auto elements = [&](llvm::ArrayRef<c10::IValue> values,
                      auto typeOf) -> llvm::Expected<std::vector<Value *>> {
    std::vector<Value *> result;
    for (size_t i = 0; i < values.size(); ++i) {
      Value *element = TRY(spelledConstant(values[i], typeOf(i), path, read, valueOf));
      result.push_back(element);
    }
    return result;
  };
  auto insert = [&](Node *node) { return graph.insertNode(node->copyMetadata(read))->output(); };
  if (value.isTensor() && valueOf)
    return valueOf(value.toTensor());
  if (value.isList()) {
    c10::TypePtr elementType = value.type()->expect<c10::ListType>()->getElementType();
    const auto inner = TRY(elements(value.toListRef().vec(), [&](size_t) { return elementType; }));
    return insert(graph.createList(elementType, inner));
  }
  if (value.isTuple()) {
    auto tupleType = value.type()->expect<c10::TupleType>();
    const auto inner = TRY(elements(value.toTupleRef().elements().vec(),
                                    [&](size_t i) { return tupleType->elements()[i]; }));
    return insert(graph.createTuple(inner, tupleType->schema() ? tupleType : nullptr));
  }
  if (value.isGenericDict()) {
    auto dictType = value.type()->expect<c10::DictType>();
    std::vector<c10::IValue> keys, values;
    for (const auto &item : value.toGenericDict()) {
      keys.push_back(item.key());
      values.push_back(item.value());
    }
    const auto keyValues = TRY(elements(keys, [&](size_t) { return dictType->getKeyType(); }));
    const auto valueValues =
        TRY(elements(values, [&](size_t) { return dictType->getValueType(); }));
    return insert(
        graph.createDict(dictType->getKeyType(), dictType->getValueType(), keyValues, valueValues));
  }
  std::optional<Value *> inserted = torch::jit::tryInsertConstant(graph, value);
  if (!inserted)
    return refuseWith(Refusal::AttributeType, describeRead(read), path, type->annotation_str());
  return *inserted;
}

} // namespace pipec
