#include "ir/artifact/StageFacts.h"

#include "ir/NodeInfo.h"
#include "ir/TensorBytes.h"
#include "ir/TensorKey.h"
#include "ir/TorchError.h"
#include "ir/WholeNumbers.h"
#include "ir/support/Try.h"
#include "ir/text/CanonicalText.h"
#include "ir/text/TensorText.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace jit = torch::jit;

namespace {

/// An attribute of a module with its declaration in the class.
struct Slot {
  c10::IValue value;
  bool isParameter = false, isBuffer = false;
};

std::optional<Slot> slotAt(const jit::Module &module, llvm::StringRef path) {
  Slot slot{module._ivalue(), false, false};
  while (!path.empty()) {
    auto [part, rest] = path.split('.');
    if (!slot.value.isObject())
      return std::nullopt;
    auto object = slot.value.toObject();
    auto index = object->type()->findAttributeSlot(part.str());
    if (!index)
      return std::nullopt;
    bool isModule = object->type()->is_module();
    slot = {object->getSlot(*index), isModule && object->type()->is_parameter(*index),
            isModule && object->type()->is_buffer(*index)};
    path = rest;
  }
  return slot;
}

/// The same distinction as in lower-attributes.
AttributeKind kindOf(const Slot &slot) {
  if (slot.isParameter)
    return AttributeKind::Parameter;
  if (slot.isBuffer || slot.value.isTensor())
    return AttributeKind::Buffer;
  return slot.value.isObject() || slot.value.isCapsule() ? AttributeKind::Object
                                                         : AttributeKind::Value;
}

StageFacts::Attribute factsOf(const Slot &slot) {
  StageFacts::Attribute facts;
  facts.kind = kindOf(slot);
  if (slot.value.isTensor() && slot.value.toTensor().defined()) {
    const at::Tensor &tensor = slot.value.toTensor();
    facts.requiresGrad = tensor.requires_grad();
    facts.bytes = byteCount(tensor);
    if (llvm::Expected<std::string> dtype = dtypeText(tensor.scalar_type());
        dtype && facts.requiresGrad && tensor.layout() == at::kStrided) {
      facts.dtype = *dtype;
      facts.shape = tensor.sizes().vec();
      facts.strides = tensor.strides().vec();
    } else if (!dtype) {
      llvm::consumeError(dtype.takeError()); // quantised
    }
  }
  return facts;
}

/// Types of the results in the emitter's packing: none, one bare, several in a tuple.
std::vector<std::string> resultTypes(const c10::TypePtr &type, size_t expected) {
  auto tuple = type->cast<c10::TupleType>();
  if (expected == 1)
    return {canonicalType(type)};
  if (expected == 0 && type->kind() == c10::TypeKind::NoneType)
    return {};
  if (!tuple)
    return {canonicalType(type)};
  std::vector<std::string> types;
  for (const c10::TypePtr &element : tuple->elements())
    types.push_back(canonicalType(element));
  return types;
}

void noteEffects(jit::Block &block, StageFacts &facts) {
  for (jit::Node *node : block.nodes()) {
    facts.randomOps += drawsOf(node) != Draws::Never;
    facts.prints |= node->kind() == c10::prim::Print;
    facts.raises |= node->kind() == c10::prim::RaiseException;
    for (jit::Block *inner : node->blocks())
      noteEffects(*inner, facts);
  }
}

void noteAttributes(const jit::Module &module, const StagePlan &plan, StageFacts &facts) {
  std::vector<at::Tensor> held;
  for (const StageAttribute &entry : plan.attributes) {
    std::optional<Slot> slot = entry.channel ? std::nullopt : slotAt(module, entry.name);
    facts.attributes.push_back(slot ? std::optional(factsOf(*slot)) : std::nullopt);
    held.push_back(slot && slot->value.isTensor() ? slot->value.toTensor() : at::Tensor());
  }
  facts.storages = storageIds(held);
}

} // namespace

std::optional<c10::IValue> attributeAt(const jit::Module &module, llvm::StringRef path) {
  std::optional<Slot> slot = slotAt(module, path);
  return slot ? std::optional(slot->value) : std::nullopt;
}

bool isPlainTensor(const jit::Module &module, llvm::StringRef path) {
  std::optional<Slot> slot = slotAt(module, path);
  return slot && slot->value.isTensor() && !slot->isParameter && !slot->isBuffer;
}

c10::TypePtr typeAt(const jit::Module &module, llvm::StringRef path) {
  auto [holder, leaf] = path.rsplit('.');
  bool isOwn = leaf.empty(); // no dot: an attribute of the module itself
  std::optional<c10::IValue> object = attributeAt(module, isOwn ? llvm::StringRef() : holder);
  if (!object || !object->isObject())
    return nullptr;
  return object->toObject()->type()->findAttribute((isOwn ? path : leaf).str());
}

llvm::Expected<StageFacts> stageFacts(const jit::Module &module, const StagePlan &plan) {
  StageFacts facts;
  TRY(guardTorchError(ExitCode::BadArtifact, "reading the stage", [&]() -> llvm::Error {
    auto method = module.find_method("pipec_forward");
    if (!method)
      return makeError(ExitCode::BadArtifact,
                       "expected a stage with the method pipec_forward, got a module without it");
    const c10::FunctionSchema &schema = method->function().getSchema();
    if (schema.returns().size() != 1)
      return failf(ExitCode::BadArtifact, "pipec_forward: expected one return value, got {}",
                   schema.returns().size());
    for (size_t i = 1; i < schema.arguments().size(); ++i)
      facts.arguments.push_back(
          {schema.arguments()[i].name(), canonicalType(schema.arguments()[i].type())});
    facts.results = resultTypes(schema.returns()[0].type(), plan.outputs.size());
    jit::Block &block = *jit::toGraphFunction(method->function()).graph()->block();
    noteEffects(block, facts);
    countWholeNumberOps(block, facts.wholeNumberOps);
    noteAttributes(module, plan, facts);
    return llvm::Error::success();
  }));
  return facts;
}

} // namespace pipec
