// unroll-loops: a loop whose number of iterations is known becomes its body, that many times over.
#include "passes/UnrollLoops.h"

#include "ir/NodeInfo.h"
#include "ir/NodeOrigin.h"
#include "llvm/ADT/DenseMap.h"
#include "passes/Passes.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

std::optional<bool> constantBool(Value *value) {
  std::optional<c10::IValue> known = torch::jit::toIValue(value);
  return known && known->isBool() ? std::optional<bool>(known->toBool()) : std::nullopt;
}

int64_t countNodes(Block *block) {
  int64_t count = 0;
  for (Node *node : block->nodes()) {
    ++count;
    for (Block *inner : node->blocks())
      count += countNodes(inner);
  }
  return count;
}

class UnrollLoops : public ModelPass {
public:
  explicit UnrollLoops(const UnrollLoopsOptions &options)
      : left_(static_cast<int64_t>(options.growth)) {}

  llvm::Expected<bool> run(Model &model, PassContext &) override {
    graph_ = model.graph.get();
    changed_ = false;
    visit(graph_->block());
    return changed_;
  }

private:
  /// Inner loops first, so that the copied body is already straight code.
  void visit(Block *block) {
    for (Node *node = *block->nodes().begin(); node != block->return_node();) {
      for (Block *inner : node->blocks())
        visit(inner);
      Node *next = node->next();
      if (node->kind() == c10::prim::Loop)
        unroll(node);
      node = next;
    }
  }

  /// The number of iterations, if it is certain.
  static std::optional<int64_t> iterations(Node *loop) {
    std::optional<bool> starts = constantBool(loop->input(1));
    std::optional<int64_t> trips = constantInt(loop->input(0));
    if (starts == false || (trips && *trips <= 0))
      return 0;
    if (starts != true)
      return std::nullopt;
    // The condition is a value of the body, or a constant outside it.
    std::optional<bool> goesOn = constantBool(loop->blocks()[0]->outputs()[0]);
    if (goesOn == false)
      return 1;
    return goesOn == true ? trips : std::nullopt;
  }

  void unroll(Node *loop) {
    std::optional<int64_t> times = iterations(loop);
    if (!times)
      return;
    const int64_t size = countNodes(loop->blocks()[0]) + 1;
    if (*times > 1 && *times - 1 > left_ / size)
      return;
    if (*times > 1)
      left_ -= (*times - 1) * size;
    std::vector<Value *> carried(loop->inputs().begin() + 2, loop->inputs().end());
    for (int64_t i = 0; i < *times; ++i)
      carried = copyBody(loop, i, carried);
    for (size_t i = 0; i < carried.size(); ++i)
      loop->outputs()[i]->replaceAllUsesWith(carried[i]);
    loop->destroy();
    changed_ = true;
  }

  /// Puts one iteration before the loop and returns its carried values.
  std::vector<Value *> copyBody(Node *loop, int64_t iteration,
                                const std::vector<Value *> &carried) {
    Block *body = loop->blocks()[0];
    llvm::DenseMap<Value *, Value *> copies;
    for (size_t i = 0; i < carried.size(); ++i)
      copies[body->inputs()[i + 1]] = carried[i];
    if (body->inputs()[0]->hasUses()) {
      torch::jit::WithInsertPoint guard(loop);
      copies[body->inputs()[0]] =
          graph_->insertConstant(iteration, loop->sourceRange(), loop->scope());
    }
    auto copyOf = [&](Value *value) {
      auto found = copies.find(value);
      return found == copies.end() ? value : found->second;
    };
    for (Node *node : body->nodes()) {
      Node *copy = graph_->createClone(node, copyOf)->insertBefore(loop);
      addIteration(copy, unrolledAround(loop), iteration);
      for (size_t i = 0; i < node->outputs().size(); ++i)
        copies[node->outputs()[i]] = copy->outputs()[i];
    }
    std::vector<Value *> next;
    for (size_t i = 1; i < body->outputs().size(); ++i)
      next.push_back(copyOf(body->outputs()[i]));
    return next;
  }

  torch::jit::Graph *graph_ = nullptr;
  int64_t left_; // nodes that may still be added
  bool changed_ = false;
};

} // namespace

OptionFields<UnrollLoopsOptions> UnrollLoopsOptions::fields() {
  return {countOption("growth=N", "how many nodes may be added in all (default 20000)",
                      &UnrollLoopsOptions::growth)};
}

PassInfo unrollLoops() {
  return {.name = "unroll-loops",
          .description = "repeats the body of a loop whose number of iterations is known",
          .requires_ = "a flat graph",
          .guarantees = "the graph grows by at most the allowed number of nodes; other loops stay",
          .example = R"(
    %2 : int = prim::Constant[value=2]()
    %5 : Tensor = prim::Loop(%2, %true, %1)
      block0(%3 : int, %4 : Tensor): %6 : Tensor = aten::relu(%4) -> (%true, %6)
    =>
    %7 : Tensor = aten::relu(%1)
    %8 : Tensor = aten::relu(%7))",
          .options = optionsOf<UnrollLoopsOptions>(),
          .make = withOptions<UnrollLoops, UnrollLoopsOptions>()};
}

} // namespace pipec
