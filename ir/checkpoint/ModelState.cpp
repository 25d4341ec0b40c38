#include "ir/checkpoint/ModelState.h"

#include "ir/artifact/StageFacts.h"
#include "ir/support/Check.h"
#include "ir/support/Llvm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <ATen/core/Dict.h>
#include <torch/csrc/jit/api/module.h>

#include <set>
#include <unordered_map>

namespace pipec {

namespace {

bool hasPlainForm(const c10::IValue &value) {
  if (value.isTensor())
    return value.toTensor().defined();
  if (value.isTuple())
    return llvm::all_of(value.toTupleRef().elements(), hasPlainForm);
  if (value.isList())
    return llvm::all_of(value.toListRef(), hasPlainForm);
  if (value.isGenericDict())
    return llvm::all_of(value.toGenericDict(), [](const auto &entry) {
      return hasPlainForm(entry.key()) && hasPlainForm(entry.value());
    });
  return value.isNone() || value.isInt() || value.isDouble() || value.isBool() ||
         value.isString() || value.isComplexDouble();
}

bool isFlag(llvm::StringRef name) {
  const llvm::StringRef last = name.rsplit('.').second.empty() ? name : name.rsplit('.').second;
  return last == "training" || last == "_is_full_backward_hook";
}

} // namespace

std::vector<ModelValue> modelState(const torch::jit::Module &module,
                                   std::vector<std::string> &objects) {
  std::set<std::string> parameters, buffers;
  for (const auto &[name, value] : module.named_parameters(/*recurse=*/true))
    parameters.insert(name);
  for (const auto &[name, value] : module.named_buffers(/*recurse=*/true))
    buffers.insert(name);
  std::vector<ModelValue> values;
  std::unordered_map<const void *, size_t> numbers; // of tensors; only looked up
  for (const auto &[name, value] : module.named_attributes(/*recurse=*/true)) {
    if (value.isModule() || isFlag(name) || (value.isTensor() && !value.toTensor().defined()))
      continue;
    if (!hasPlainForm(value)) {
      objects.push_back(name);
      continue;
    }
    const AttributeKind kind = parameters.count(name) ? AttributeKind::Parameter
                               : buffers.count(name)  ? AttributeKind::Buffer
                                                      : AttributeKind::Value;
    if (value.isTensor() && kind != AttributeKind::Value) {
      const auto [known, isNew] =
          numbers.emplace(value.toTensor().unsafeGetTensorImpl(), values.size());
      if (!isNew) {
        ModelValue &same = values[known->second];
        const bool isFirst =
            kind == AttributeKind::Parameter && same.kind != AttributeKind::Parameter;
        same.names.insert(isFirst ? same.names.begin() : same.names.end(), name);
        same.kind = isFirst ? kind : same.kind;
        continue;
      }
    }
    values.push_back({{name}, kind, value});
  }
  return values;
}

c10::TypePtr typeOfAttribute(const torch::jit::Module &module, const std::string &path) {
  return typeAt(module, path);
}

void setAttribute(const torch::jit::Module &module, const std::string &path, c10::IValue value) {
  auto [parent, name] = llvm::StringRef(path).rsplit('.');
  if (name.empty()) {
    module._ivalue()->setAttr(path, std::move(value));
    return;
  }
  const std::optional<c10::IValue> object = attributeAt(module, parent);
  PIPEC_ASSERT(object && object->isObject(), "the path is that of an attribute of the module");
  object->toObject()->setAttr(name.str(), std::move(value));
}

} // namespace pipec
