#include "passes/fold/FoldTextLength.h"

#include "ir/NodeInfo.h"

#include <algorithm>
#include <limits>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Value;

constexpr int kMostNested = 64; // branches inside branches

/// Bytes, as aten::len counts them. Format replaces each "{}" by a text that may be empty.
int64_t leastLengthOfTemplate(llvm::StringRef text) {
  return static_cast<int64_t>(text.size() - 2 * text.count("{}"));
}

/// The least length, in bytes, of all texts that the value may be; 0 if nothing is known.
int64_t leastLength(const Value *text, int nested = 0) {
  const torch::jit::Node *node = text->node();
  if (const std::optional<c10::IValue> known = Folding::constant(text); known && known->isString())
    return static_cast<int64_t>(known->toStringRef().size());
  if (node->kind() == c10::aten::format) {
    const std::optional<c10::IValue> made = Folding::constant(node->input(0));
    return made && made->isString() ? leastLengthOfTemplate(made->toStringRef()) : 0;
  }
  if (node->kind() != c10::prim::If || nested == kMostNested)
    return 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Block *branch : node->blocks())
    least = std::min(least, leastLength(branch->outputs()[text->offset()], nested + 1));
  return least;
}

} // namespace

bool foldTextLength(Folding &folding, torch::jit::Node *node) {
  const c10::Symbol kind = node->kind();
  const bool isAbove = kind == c10::aten::gt || kind == c10::aten::ge || kind == c10::aten::ne;
  if ((!isAbove && kind != c10::aten::eq) || node->inputs().size() != 2)
    return false;
  const torch::jit::Node *length = node->input(0)->node();
  const std::optional<int64_t> bound = constantInt(node->input(1));
  if (!bound || length->kind() != c10::aten::len ||
      length->input(0)->type()->kind() != c10::TypeKind::StringType ||
      leastLength(length->input(0)) <= *bound)
    return false;
  return folding.replaceByConstant(node->output(), isAbove);
}

} // namespace pipec
