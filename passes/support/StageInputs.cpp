#include "passes/support/StageInputs.h"

#include "ir/TensorBytes.h"
#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

StageAttribute stageAttribute(const Attribute &attribute) {
  StageAttribute entry;
  entry.name = attribute.name;
  entry.otherNames = attribute.otherNames;
  entry.kind = attribute.kind;
  entry.requiresGrad = attribute.requiresGrad;
  entry.written = attribute.written;
  entry.bytes = attribute.value.isTensor() ? byteCount(attribute.value.toTensor()) : 0;
  return entry;
}

size_t insertAttribute(Stage &stage, const StageAttribute &entry) {
  std::vector<StageAttribute> &entries = stage.plan.attributes;
  auto place = llvm::find_if(
      entries, [](const StageAttribute &a) { return a.kind == AttributeKind::Constant; });
  size_t index = place - entries.begin();
  entries.insert(place, entry);
  stage.graph->insertInput(stage.plan.inputs.size() + index)->setType(c10::TensorType::get());
  return index;
}

} // namespace pipec
