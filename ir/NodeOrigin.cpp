#include "ir/NodeOrigin.h"

#include "ir/NodeInfo.h"
#include "ir/support/Llvm.h"
#include "llvm/ADT/StringExtras.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

/// The scope of a node is that of its module; one that begins with this is the origin within it.
constexpr char kOriginMark = '@';

using torch::jit::Block;
using torch::jit::Node;

/// In-place operators count with their pure forms, which may take their places.
std::string withoutUnderscore(llvm::StringRef name) {
  if (endsWith(name, "_") && !endsWith(name, "__"))
    name = name.drop_back();
  return name.str();
}

void setOrigin(Node *node, const std::string &origin) {
  torch::jit::ScopePtr module = node->scope();
  if (!module)
    module = c10::make_intrusive<torch::jit::Scope>();
  else if (isOrigin(*module))
    module = module->parent();
  node->setScope(module->push(c10::Symbol::scope(kOriginMark + origin)));
}

using Counts = std::map<std::pair<std::string, std::string>, size_t>; // by module and operator

void nameOrigins(Block *block, Counts &counts) {
  for (Node *node : block->nodes()) {
    if (node->kind() != c10::prim::Constant) {
      const std::string name = withoutUnderscore(node->kind().toQualString());
      setOrigin(node,
                name + " #" + std::to_string(++counts[std::make_pair(modulePathOf(node), name)]));
    }
    for (Block *inner : node->blocks())
      nameOrigins(inner, counts);
  }
}

} // namespace

bool isOrigin(const torch::jit::Scope &scope) {
  return !scope.isRoot() && scope.name().toUnqualString()[0] == kOriginMark;
}

/// "aten::add #2.0.3"; empty: none.
static std::string originOf(const Node *node) {
  const torch::jit::ScopePtr scope = const_cast<Node *>(node)->scope();
  return scope && isOrigin(*scope) ? scope->name().toUnqualString() + 1 : "";
}

void nameOrigins(torch::jit::Graph &graph) {
  if (anyNodeInside(graph.block(), [](Node *node) { return !originOf(node).empty(); }))
    return;
  Counts counts;
  nameOrigins(graph.block(), counts);
}

size_t unrolledAround(const Node *node) { return llvm::StringRef(originOf(node)).count('.'); }

void addIteration(Node *node, size_t outer, int64_t iteration) {
  if (const std::string origin = originOf(node); !origin.empty()) {
    llvm::SmallVector<llvm::StringRef, 4> parts;
    llvm::StringRef(origin).split(parts, '.');
    const std::string number = std::to_string(iteration);
    parts.insert(parts.begin() + std::min(outer + 1, parts.size()), number);
    setOrigin(node, llvm::join(parts, "."));
  }
  for (Block *block : node->blocks())
    for (Node *inner : block->nodes())
      addIteration(inner, outer, iteration);
}

std::string nameWithOrigin(Node *node) {
  std::string text = node->kind().toQualString();
  if (const std::string origin = originOf(node); !origin.empty()) {
    auto [name, number] = llvm::StringRef(origin).rsplit(" #");
    text += name == withoutUnderscore(text) ? " #" + number.str() : " at " + origin;
  }
  if (const std::string path = modulePathOf(node); !path.empty())
    text += " in " + path;
  return text;
}

} // namespace pipec
