#include "compiler/emit/CarryMetadata.h"

#include "ir/NodeInfo.h"
#include "ir/support/CommonSubsequence.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// A constant in either form: LibTorch writes a constant list as a list made of constants.
bool isConstant(const Node *node) {
  if (node->kind() == c10::prim::Constant)
    return true;
  return (node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::TupleConstruct) &&
         llvm::all_of(node->inputs(), [](const Value *input) { return isConstant(input->node()); });
}

std::vector<Block *> blocksOf(Node *node) {
  std::vector<Block *> blocks = node->blocks().vec();
  if (node->hasAttribute(c10::attr::Subgraph))
    blocks.push_back(node->g(c10::attr::Subgraph)->block());
  return blocks;
}

std::vector<Node *> operatorsOf(Block &block) {
  std::vector<Node *> nodes;
  for (Node *node : block.nodes())
    if (!isConstant(node))
      nodes.push_back(node);
  return nodes;
}

/// The place among the graph's arguments and weights, which both graphs have in the same order.
std::string argumentText(const Value *value) {
  const Node *node = value->node();
  return node->kind() == c10::prim::Param && node == value->owningGraph()->param_node()
             ? fmt::format("#{}", value->offset())
             : "";
}

std::string inputText(Value *value) {
  if (std::string argument = argumentText(value); !argument.empty())
    return argument;
  if (!isConstant(value->node()))
    return value->node()->kind().toQualString();
  const std::optional<c10::IValue> content = torch::jit::toIValue(value);
  if (content && content->isInt())
    return std::to_string(content->toInt());
  if (content && content->isDouble())
    return fmt::format("{}", content->toDouble());
  return "constant";
}

class Carrying {
public:
  void carry(Block &from, Block &to) {
    const std::vector<Node *> source = operatorsOf(from), target = operatorsOf(to);
    std::vector<std::pair<size_t, size_t>> equal = equalOperators(source, target);
    equal.emplace_back(source.size(), target.size());
    size_t s = 0, t = 0;
    for (const auto &[nextS, nextT] : equal) {
      pairBetween(llvm::ArrayRef<Node *>(source).slice(s, nextS - s),
                  llvm::ArrayRef<Node *>(target).slice(t, nextT - t));
      if (nextT < target.size())
        of_[target[nextT]] = source[nextS];
      s = nextS + 1, t = nextT + 1;
    }
    for (Node *node : target)
      if (auto origin = of_.find(node); origin != of_.end())
        carryInto(*origin->second, *node);
    takeFromSurroundings(to);
  }

private:
  void carryInto(Node &from, Node &to) {
    to.copyMetadata(&from);
    const std::vector<Block *> source = blocksOf(&from), target = blocksOf(&to);
    for (size_t i = 0; i < std::min(source.size(), target.size()); ++i)
      carry(*source[i], *target[i]);
  }

  /// Equal for operators that read the same weights and constants and have equal blocks.
  const std::string &exactText(Node *node) {
    std::string &text = exact_[node];
    if (!text.empty())
      return text;
    std::string made = node->kind().toQualString();
    for (Value *input : node->inputs())
      made += " " + inputText(input);
    for (Block *block : blocksOf(node)) {
      made += " {";
      for (Node *inner : operatorsOf(*block))
        made += std::to_string(numberOf(exactText(inner))) + ",";
      made += "}";
    }
    return exact_[node] = made;
  }

  /// What LibTorch does not change of an operator that it folds in part.
  static std::string roughText(Node *node) {
    std::string text = node->kind().toQualString();
    for (Value *input : node->inputs())
      if (std::string argument = argumentText(input); !argument.empty())
        text += " " + argument;
    return text;
  }

  size_t numberOf(const std::string &text) {
    return numbers_.try_emplace(text, numbers_.size()).first->second;
  }

  std::vector<std::pair<size_t, size_t>> equalOperators(const std::vector<Node *> &source,
                                                        const std::vector<Node *> &target) {
    std::vector<size_t> a, b;
    for (Node *node : source)
      a.push_back(numberOf(exactText(node)));
    for (Node *node : target)
      b.push_back(numberOf(exactText(node)));
    return commonSubsequence(a, b);
  }

  /// Between equal operators: the k-th of one kind in both graphs, if both have as many of it.
  void pairBetween(llvm::ArrayRef<Node *> source, llvm::ArrayRef<Node *> target) {
    std::map<std::string, std::pair<std::vector<Node *>, std::vector<Node *>>> kinds;
    for (Node *node : source)
      kinds[roughText(node)].first.push_back(node);
    for (Node *node : target)
      kinds[roughText(node)].second.push_back(node);
    for (const auto &[kind, nodes] : kinds)
      if (nodes.first.size() == nodes.second.size())
        for (size_t i = 0; i < nodes.first.size(); ++i)
          of_[nodes.second[i]] = nodes.first[i];
  }

  /// Operators without a counterpart, also those that only make constants.
  void takeFromSurroundings(Block &block) {
    Node *before = nullptr;
    for (Node *node : block.nodes()) {
      if (of_.count(node)) {
        before = node;
        continue;
      }
      if (node->kind() == c10::prim::Constant)
        continue;
      forget(node);
      if (Node *reader = knownReader(node))
        node->copyMetadata(reader);
      else if (Node *after = nextKnown(node);
               before && after && modulePathOf(before) == modulePathOf(after))
        node->copyMetadata(before);
    }
  }

  static void forget(Node *node) {
    node->setSourceRange(torch::jit::SourceRange());
    node->setScope(c10::make_intrusive<torch::jit::Scope>());
    for (Block *block : node->blocks())
      for (Node *inner : block->nodes())
        forget(inner);
  }

  Node *knownReader(Node *node) const {
    for (Value *output : node->outputs())
      for (const torch::jit::Use &use : output->uses())
        if (use.user->owningBlock() == node->owningBlock() && of_.count(use.user))
          return use.user;
    return nullptr;
  }

  Node *nextKnown(Node *node) const {
    for (Node *next = node->next(); next != node->owningBlock()->return_node(); next = next->next())
      if (of_.count(next))
        return next;
    return nullptr;
  }

  std::unordered_map<Node *, Node *> of_;         // looked up by pointer only
  std::unordered_map<Node *, std::string> exact_; // the same
  std::map<std::string, size_t> numbers_;         // of texts
};

} // namespace

void carryMetadata(torch::jit::Graph &from, torch::jit::Graph &to) {
  Carrying().carry(*from.block(), *to.block());
}

} // namespace pipec
