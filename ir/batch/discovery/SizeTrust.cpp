#include "ir/batch/discovery/SizeTrust.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <limits>

namespace pipec {

bool mayRunForEverAtOtherSizes(const torch::jit::Node *node) {
  const c10::Symbol kind = node->kind();
  if (kind == c10::prim::Loop) {
    const std::optional<c10::IValue> rounds = torch::jit::toIValue(node->input(0));
    return rounds && rounds->isInt() && rounds->toInt() == std::numeric_limits<int64_t>::max();
  }
  const std::string ns = kind.ns().toUnqualString();
  if (!kind.is_aten() && !kind.is_prim())
    return ns != "quantized" && ns != "pipec";
  const std::string name = kind.toUnqualString();
  if (name != "remainder" && name != "fmod" && name != "mod" && name != "__modulo__")
    return false;
  return node->inputs().size() > 1 && node->input(1)->type()->kind() == c10::TypeKind::IntType &&
         node->input(1)->node()->kind() != c10::prim::Constant;
}

} // namespace pipec
