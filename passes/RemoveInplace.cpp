// remove-inplace: `relu_(x)` becomes `relu(x)` where nobody can tell the difference, so that a cut
// may go between maker and writer.
//
// Let x be the fresh result of an operator and w = op_(x, ...) a writer in the same block. Whatever
// else refers to x's memory was made after x; if none of it is used after w, then only x itself can
// show the write, and its later uses can be given the new value:
//
//   %x = aten::conv2d(...)            %x = aten::conv2d(...)
//   %w = aten::relu_(%x)       =>     %w = aten::relu(%x)
//   %y = aten::add(%x, %w)            %y = aten::add(%w, %w)
//
// The new value must also have the dtype and strides of the old one, and the same gradient formula
// to the bit.
#include "ir/plan/Check.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "passes/Passes.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/MemoryTypes.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

enum class Form { None, Unary, Binary };

/// Elementwise operators whose gradient has the same bits in both forms. elu_, celu_ and selu_
/// compute theirs from the result, elu from the input: they are not here.
Form formOf(const Node *node) {
  if (!node->kind().is_aten())
    return Form::None;
  return llvm::StringSwitch<Form>(node->kind().toUnqualString())
      .Cases("relu_", "relu6_", "hardtanh_", "hardswish_", "hardsigmoid_", "silu_", "mish_",
             Form::Unary)
      .Cases("gelu_", "sigmoid_", "tanh_", "leaky_relu_", "threshold_", "clamp_", "clamp_min_",
             Form::Unary)
      .Cases("clamp_max_", "neg_", "exp_", "sqrt_", "rsqrt_", "abs_", Form::Unary)
      .Cases("add_", "sub_", "mul_", "div_", Form::Binary)
      .Default(Form::None);
}

/// Makers of fresh, dense results. Without example inputs nothing else is known of strides.
bool makesDense(const Node *node) {
  if (!node->kind().is_aten())
    return false;
  return llvm::StringSwitch<bool>(node->kind().toUnqualString())
      .Cases("conv1d", "conv2d", "conv3d", "_convolution", "convolution", "batch_norm", "linear",
             "addmm", true)
      .Cases("add", "sub", "mul", "div", "relu", "hardswish", "hardtanh", "silu", "sigmoid",
             "clone", true)
      .Cases("layer_norm", "group_norm", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "cat",
             true)
      .Cases("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "relu6", "leaky_relu",
             true)
      .Cases("hardsigmoid", "mish", "gelu", "tanh", "clamp", "neg", "exp", "sqrt", "rsqrt", "abs",
             true)
      .Default(false);
}

/// The strides an elementwise operator gives its result when every operand has these sizes and
/// strides; for operands that are dense.
std::vector<int64_t> elementwiseStrides(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  auto isOrder = [&](const std::vector<int64_t> &wanted) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] != 1 && strides[i] != wanted[i])
        return false;
    }
    return true;
  };
  std::vector<int64_t> contiguous = c10::TensorType::contiguousStridesOf(sizes);
  if (isOrder(contiguous))
    return contiguous;
  if (sizes.size() == 4) {
    const int64_t c = sizes[1], h = sizes[2], w = sizes[3];
    std::vector<int64_t> channelsLast{h * w * c, 1, w * c, c};
    if (isOrder(channelsLast))
      return channelsLast;
  }
  return strides.vec();
}

bool isDense(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<size_t> order;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1)
      order.push_back(i);
  }
  llvm::sort(order, [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (size_t dim : order) {
    if (strides[dim] != expected)
      return false;
    expected *= sizes[dim];
  }
  return true;
}

struct Layout {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes, strides;
};

std::optional<Layout> layoutOf(const Value *value) {
  auto type = value->type()->cast<c10::TensorType>();
  if (!type || !type->scalarType())
    return std::nullopt;
  auto sizes = type->sizes().concrete_sizes();
  auto strides = type->strides().concrete_sizes();
  if (!sizes || !strides)
    return std::nullopt;
  return Layout{*type->scalarType(), *sizes, *strides};
}

/// Every elementwise operator keeps these strides as they are.
bool keepsStrides(const Layout &layout) {
  return isDense(layout.sizes, layout.strides) &&
         elementwiseStrides(layout.sizes, layout.strides) == layout.strides;
}

class RemoveInplace : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model) override {
    AliasAnalysis alias(model);
    alias_ = &alias;
    answers_ = &model.answers;
    run_ = model.answers.runs++;
    question_ = 0;
    order_.clear();
    heldBy_.assign(alias.memories().size(), {});
    opaque_.assign(alias.memories().size(), false);
    size_t next = 0;
    number(model.graph->block(), next);
    for (size_t i = 0; i < alias.memories().size(); ++i) {
      for (size_t held : alias.memories()[i].holds)
        heldBy_[held].push_back(i);
    }
    for (const AliasAnalysis::Effect &effect : alias.effects()) {
      for (size_t memory : alias.writesOf(effect.node))
        opaque_[memory] = true;
    }
    memoryOfMade_.clear();
    removed_.clear();
    visit(*model.graph, model.graph->block());
    // Only now: until the end the analysis names their results.
    for (Node *writer : llvm::reverse(removed_))
      writer->destroy();
    return !removed_.empty();
  }

private:
  /// In order of execution; a node with blocks comes after them, as its results do.
  void number(Block *block, size_t &next) {
    order_[block->param_node()] = next++;
    for (Node *node : block->nodes()) {
      for (Block *inner : node->blocks())
        number(inner, next);
      order_[node] = next++;
    }
    order_[block->return_node()] = next++;
  }

  size_t orderOf(const Node *node) const {
    auto found = order_.find(node);
    PIPEC_ASSERT(found != order_.end(),
                 "every node is numbered, and new ones take the number of the old");
    return found->second;
  }

  void visit(torch::jit::Graph &graph, Block *block) {
    for (Node *node = *block->nodes().begin(); node != block->return_node();) {
      Node *next = node->next();
      for (Block *inner : node->blocks())
        visit(graph, inner);
      const Form form = formOf(node);
      if (form != Form::None && isRemovable(node, form))
        remove(graph, node);
      node = next;
    }
  }

  bool isRemovable(Node *writer, Form form) {
    Value *x = writer->input(0);
    if (writer->outputs().size() != 1 || x->type()->kind() != c10::TypeKind::TensorType)
      return false;
    return isFresh(x) && x->node()->owningBlock() == writer->owningBlock() &&
           !isSeenThroughOthers(writer, x) && keepsForm(writer, form);
  }

  /// The value is memory that its own node has just made.
  static bool isFresh(const Value *value) {
    const Node *node = value->node();
    if ((!node->kind().is_aten() && !node->kind().is_prim()) || mayReturnInput(node) ||
        !node->blocks().empty())
      return false;
    const torch::jit::Operator *op = node->maybeOperator();
    if (!op || op->aliasAnalysisKind() == c10::AliasAnalysisKind::CONSERVATIVE)
      return false;
    const std::vector<c10::Argument> &returns = op->schema().returns();
    return value->offset() < returns.size() && !returns[value->offset()].alias_info();
  }

  /// dtype and strides of `op(x, ...)` are those that x has. What types say otherwise than
  /// operators is noted, and taken from the notes where they are given.
  bool keepsForm(const Node *writer, Form form) {
    const bool untyped = form == Form::Unary && keepsFormWith(std::nullopt, writer, form);
    const size_t question = question_++;
    if (answers_->given) {
      auto noted = answers_->forms.find(run_);
      return untyped != (noted != answers_->forms.end() &&
                         std::binary_search(noted->second.begin(), noted->second.end(), question));
    }
    std::optional<Layout> layout = layoutOf(writer->input(0));
    const bool typed = layout ? keepsFormWith(layout, writer, form) : untyped;
    if (typed != untyped)
      answers_->forms[run_].push_back(question);
    return typed;
  }

  static bool keepsFormWith(const std::optional<Layout> &layout, const Node *writer, Form form) {
    const Value *x = writer->input(0);
    if (form == Form::Unary) {
      for (size_t i = 1; i < writer->inputs().size(); ++i) {
        const c10::TypeKind kind = writer->inputs()[i]->type()->kind();
        if (kind == c10::TypeKind::TensorType)
          return false; // a tensor bound: another operand that may broadcast
      }
      return layout ? c10::isFloatingType(layout->dtype) && keepsStrides(*layout)
                    : makesDense(x->node());
    }
    if (!layout || !keepsStrides(*layout) || !c10::isFloatingType(layout->dtype))
      return false;
    const Value *other = writer->input(1);
    if (other->type()->kind() != c10::TypeKind::TensorType) {
      const c10::TypeKind kind = other->type()->kind();
      return kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
             kind == c10::TypeKind::BoolType;
    }
    std::optional<Layout> second = layoutOf(other);
    return second && second->dtype == layout->dtype && second->sizes == layout->sizes &&
           second->strides == layout->strides && hasNoRounding(writer);
  }

  /// div_(x, y, rounding_mode=...) is another operator to its gradient.
  static bool hasNoRounding(const Node *writer) {
    return writer->kind() != c10::Symbol::aten("div_") || writer->inputs().size() == 2;
  }

  size_t definedAt(const Value *value) const { return orderOf(value->node()); }

  bool isUsedAfter(const Value *value, size_t order) const {
    return llvm::any_of(value->uses(),
                        [&](const torch::jit::Use &use) { return orderOf(use.user) > order; });
  }

  std::optional<size_t> memoryOf(const Value *value) const {
    auto made = memoryOfMade_.find(value);
    return made == memoryOfMade_.end() ? alias_->memoryOf(value) : made->second;
  }

  bool isSeenThroughOthers(Node *writer, Value *x) const {
    const size_t made = definedAt(x), written = orderOf(writer);
    const std::optional<size_t> memory = memoryOf(x);
    if (!memory)
      return true;
    const AliasAnalysis::Memory &all = alias_->memories()[*memory];
    if (all.attribute || all.userInput || opaque_[*memory])
      return true;
    // Values are in order of definition: those between x and the writer are few. Older ones are
    // other memory of the same class.
    auto at = std::partition_point(all.values.begin(), all.values.end(),
                                   [&](const Value *value) { return definedAt(value) <= made; });
    for (; at != all.values.end() && definedAt(*at) < written; ++at) {
      if (isUsedAfter(*at, written))
        return true;
    }
    return isHeldAcross(*memory, writer);
  }

  static bool isInside(const Node *node, const Node *outer) {
    while (node && node != outer)
      node = node->owningBlock()->owningNode();
    return node == outer;
  }

  /// Made outside a loop around the writer and used in that loop: the next round comes after the
  /// write, wherever in the loop it stands.
  static bool isUsedNextRound(const Value *value, const Node *writer) {
    for (const Node *loop = writer->owningBlock()->owningNode(); loop;
         loop = loop->owningBlock()->owningNode())
      if (loop->kind() == c10::prim::Loop && !isInside(value->node(), loop) &&
          llvm::any_of(value->uses(),
                       [&](const torch::jit::Use &use) { return isInside(use.user, loop); }))
        return true;
    return false;
  }

  /// A list, tuple or object made before the writer and used after it may show the write.
  bool isHeldAcross(size_t memory, const Node *writer) const {
    const size_t written = orderOf(writer);
    std::vector<size_t> work = heldBy_[memory];
    llvm::DenseSet<size_t> done;
    while (!work.empty()) {
      const size_t holder = work.back();
      work.pop_back();
      if (!done.insert(holder).second)
        continue;
      const AliasAnalysis::Memory &container = alias_->memories()[holder];
      if (container.attribute || container.userInput)
        return true;
      for (const Value *value : container.values) {
        if (definedAt(value) < written &&
            (isUsedAfter(value, written) || isUsedNextRound(value, writer)))
          return true;
      }
      work.insert(work.end(), heldBy_[holder].begin(), heldBy_[holder].end());
    }
    return false;
  }

  void remove(torch::jit::Graph &graph, Node *writer) {
    std::string name = writer->kind().toUnqualString();
    name.pop_back();
    Node *made = graph.create(c10::Symbol::aten(name), writer->inputs().vec());
    made->insertBefore(writer)->copyMetadata(writer);
    if (!made->maybeOperator()) { // no such form with these arguments
      made->destroy();
      return;
    }
    Value *x = writer->input(0);
    made->output()->setType(x->type());
    order_[made] = orderOf(writer);
    memoryOfMade_[made->output()] = *memoryOf(x);
    writer->output()->replaceAllUsesWith(made->output());
    giveLaterUses(x, orderOf(writer), made->output());
    removed_.push_back(writer);
  }

  /// Uses of `old` after the position become uses of `by`, which stands in the same block as `old`.
  void giveLaterUses(Value *old, size_t order, Value *by) const {
    const std::vector<torch::jit::Use> uses = old->uses();
    for (const torch::jit::Use &use : uses) {
      if (orderOf(use.user) > order)
        use.user->replaceInput(use.offset, by);
    }
  }

  const AliasAnalysis *alias_ = nullptr;
  TypeAnswers *answers_ = nullptr;
  size_t run_ = 0, question_ = 0;
  llvm::DenseMap<const Node *, size_t> order_;
  llvm::DenseMap<const Value *, size_t> memoryOfMade_;
  std::vector<std::vector<size_t>> heldBy_;
  std::vector<bool> opaque_; // memories that a node of unknown effects saw
  std::vector<Node *> removed_;
};

} // namespace

PassInfo removeInplace() {
  return {.name = "remove-inplace",
          .description = "replaces elementwise in-place operators by their pure forms where nobody "
                         "can tell the difference",
          .requires_ =
              "a flat graph; types with strides (infer-types) for operators with two tensors",
          .guarantees = "values, dtypes, strides and gradients keep their bits; writes to weights, "
                        "inputs and shared memory stay",
          .example = R"(
    %2 : Tensor = aten::linear(%1, %w, %b)
    %3 : Tensor = aten::relu_(%2)
    return (%2)
    =>
    %2 : Tensor = aten::linear(%1, %w, %b)
    %3 : Tensor = aten::relu(%2)
    return (%3))",
          .options = "",
          .make = withoutOptions<RemoveInplace>()};
}

} // namespace pipec
