#include "ir/torchfile/SharedCode.h"

#include "ir/NodeInfo.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

namespace pipec {

namespace jit = torch::jit;

bool neverChanges(const c10::IValue &value) {
  if (value.isTuple()) {
    const auto &elements = value.toTupleRef().elements();
    return std::all_of(elements.begin(), elements.end(), neverChanges);
  }
  return value.isNone() || value.isScalar() || value.isString() || value.isDevice() ||
         value.isEnum();
}

namespace {

/// Such as the stride of a convolution. LibTorch puts the default of an operator's argument into
/// the graph.
bool isListOfFixed(const c10::IValue &value) {
  if (!value.isList())
    return false;
  const auto elements = value.toListRef();
  return std::all_of(elements.begin(), elements.end(), neverChanges);
}

bool isOnlyRead(const jit::Use &use) {
  const c10::FunctionSchema *schema =
      use.user->kind().is_aten() ? use.user->maybeSchema() : nullptr;
  return schema && use.offset < schema->arguments().size() &&
         !schema->arguments()[use.offset].alias_info();
}

bool mayWriteConstant(jit::Node *node) {
  if (node->kind() != c10::prim::Constant)
    return false;
  const auto value = jit::toIValue(node->output());
  if (!value || neverChanges(*value))
    return false;
  const auto &uses = node->output()->uses();
  return !isListOfFixed(*value) || !std::all_of(uses.begin(), uses.end(), isOnlyRead);
}

bool hasFixedDefaults(const c10::FunctionSchema &schema) {
  return std::all_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const c10::Argument &argument) {
                       return !argument.default_value() || neverChanges(*argument.default_value());
                     });
}

} // namespace

bool canShareCode(const jit::Module &module) {
  for (const jit::Function *function : module._ivalue()->compilation_unit()->get_functions())
    if (function->name() == "__setstate__")
      return false;
  // A call inside of the code has its defaults as constants.
  for (const jit::Method &method : module.get_methods())
    if (!hasFixedDefaults(method.function().getSchema()))
      return false;
  return !anyNodeInside(module, mayWriteConstant);
}

} // namespace pipec
