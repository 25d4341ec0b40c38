// remove-inplace: a write becomes a new value where the difference cannot be observed. A cut may
// then stand between maker and writer. Let x be the fresh result of an operator:
//
//   %x = aten::conv2d(...)            %x = aten::conv2d(...)
//   %w = aten::relu_(%x)       =>     %w = aten::relu(%x)
//   %y = aten::add(%x, %w)            %y = aten::add(%w, %w)
//
// A write to a view of x gives a new x too: the part is put into a copy. Later users of x get the
// copy, and later users of a view of x get the same view of the copy:
//
//   %a = aten::select(%x, 0, 1)       %a = aten::select(%x, 0, 1)
//   %b = aten::view(%x, ...)          %n = aten::relu(%a)
//   %w = aten::relu_(%a)       =>     %x2 = aten::select_scatter(%x, %n, 0, 1)
//   %y = aten::neg(%b)                %b2 = aten::view(%x2, ...)
//                                     %y = aten::neg(%b2)
//
// One walk in program order keeps the current version of every fresh tensor, as in the construction
// of SSA form. A write stays if something unknown (a list, the result of a branch) still shows its
// memory. It then changes the current version, and all current views are real views of that.
//
// The new value has the dtype and strides of the old one, and the gradient formula gives the same
// bits: the written view is made again just before the write, so its gradient is added to that of x
// at the place where the engine adds the gradient of the write. In training both the part and the
// new x have contiguous gradients, as behind a write (PureWrites::withContiguousGradient).
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/Passes.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"
#include "passes/inplace/MemoryReaders.h"
#include "passes/inplace/PureWrites.h"
#include "passes/inplace/StateSnapshots.h"

#include <torch/csrc/jit/ir/ir.h>

#include <deque>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// Every write to a view copies the whole tensor; with more writes than this nothing is gained.
constexpr size_t kMostWriters = 256;

class RemoveInplace : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    alias_ = aliasesOf(model, context);
    const AliasAnalysis &alias = *alias_;
    model_ = &model;
    if (joinHandedOn(model.graph->block()))
      return true; // the analysis knows of values that are gone
    writes_.emplace(model, context.answers, context.trains,
                    [this](Node *made, Node *writer) { readers_->placeAs(made, writer); });
    readers_.emplace(model, alias);
    const size_t memories = alias.memories().size();
    leave_.assign(memories, false);
    for (const AliasAnalysis::Effect &effect : alias.effects())
      for (size_t memory : alias.writesOf(effect.node))
        leave_[memory] = true;
    for (size_t i = 0; i < memories; ++i)
      leave_[i] = leave_[i] || isLeft(alias.memories()[i]);
    tensors_.clear();
    names_.clear();
    nameOf_.clear();
    removed_.clear();
    visit(model.graph->block());
    // Only now: until the end the analysis refers to their results.
    for (Node *writer : llvm::reverse(removed_))
      writer->destroy();
    return !removed_.empty() || makeStateSnapshots(model, alias, readers_->heldBy());
  }

private:
  /// A fresh result, or an argument, and its versions after the writes so far.
  struct Tensor {
    Value *made, *now;
    size_t version = 0, memory;
    bool contiguous;          // PureWrites::makesContiguous
    bool argument = false;    // the caller decides its strides
    bool fixed = false;       // no new versions
    bool mayBeShared = false; // a value that may be a view may also be the tensor itself
  };
  /// The meaning of a value of the source: a tensor, a view of another name, or an alias of it.
  struct Name {
    Tensor *tensor;
    Node *view = nullptr;  // null: an alias
    Name *whole = nullptr; // null: the tensor itself
    Value *now = nullptr;  // as of `version`; for the tensor itself see there
    size_t version = 0;
    Name *became = nullptr; // the name that values of this name have from here on
  };

  /// If a branch chooses between an attribute or input and a tensor that the model makes, they are
  /// in one class. They are no names, so writes into them stay.
  static bool isLeft(const AliasAnalysis::Memory &memory) {
    return !memory.written() || llvm::any_of(memory.writers, [](const Node *writer) {
      return mayChangeForm(writer) && pureFormOf(writer) != PureForm::View;
    });
  }

  /// Writes into the result of a switched-off dropout are writes into its input. LibTorch's reader
  /// does not know that, and would drop them.
  bool joinHandedOn(Block *block) {
    bool changed = false;
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      Node *node = *it;
      ++it;
      for (Block *inner : node->blocks())
        changed |= joinHandedOn(inner);
      if (!returnsFirstInput(node) || !alias_->isWritten(node->output()))
        continue;
      node->output()->replaceAllUsesWith(node->input(0));
      node->destroy();
      changed = true;
    }
    return changed;
  }

  void visit(Block *block) {
    for (Value *input : block->inputs())
      if (!defineArgument(input))
        noteUnknown(input);
    for (Node *node = *block->nodes().begin(); node != block->return_node();) {
      Node *next = node->next();
      Name *first = node->inputs().empty() ? nullptr : nameOf(node->input(0));
      takePresent(node);
      for (Block *inner : node->blocks())
        visit(inner);
      if (!first || !remove(first, node))
        define(node, first);
      node = next;
    }
    takePresent(block->return_node());
  }

  // Names of values.

  Name *nameOf(const Value *value) const {
    auto found = nameOf_.find(value);
    if (found == nameOf_.end())
      return nullptr;
    Name *name = found->second;
    while (Name *form = firstOf(name)->became)
      name = form;
    return name;
  }

  /// The tensor under the name of its maker: all names have its form.
  static Name *firstOf(Name *name) {
    while (name->whole && !name->view)
      name = name->whole;
    return name;
  }

  Name *newName(Name name) {
    names_.push_back(name);
    return &names_.back();
  }

  /// The memory of tensors that may be functionalised.
  std::optional<size_t> memoryOf(const Value *value) const {
    std::optional<size_t> memory = alias_->memoryOf(value);
    if (!memory || leave_[*memory] || value->type()->kind() != c10::TypeKind::TensorType)
      return std::nullopt;
    return memory;
  }

  void noteUnknown(Value *value) {
    if (std::optional<size_t> memory = alias_->memoryOf(value); memory && !leave_[*memory])
      readers_->note(*memory, value);
  }

  /// An argument tensor that the model may change freely.
  bool defineArgument(Value *input) {
    if (model_->mode != Mode::Infer || input->node() != model_->graph->param_node() ||
        input->offset() >= model_->argumentCount())
      return false;
    std::optional<size_t> memory = memoryOf(input);
    if (!memory || alias_->memories()[*memory].attribute)
      return false;
    tensors_.push_back({input, input, 0, *memory, false, true});
    nameOf_[input] = newName({&tensors_.back()});
    return true;
  }

  void define(Node *node, Name *first) {
    for (Value *output : node->outputs()) {
      std::optional<size_t> memory = memoryOf(output);
      if (!memory) {
        noteUnknown(output);
        continue;
      }
      if (isFresh(output)) {
        tensors_.push_back({output, output, 0, *memory, writes_->makesContiguous(node)});
        nameOf_[output] = newName({&tensors_.back()});
      } else if (first && (returnsWrittenValue(node) || isKnownView(node, *first->tensor))) {
        Node *view = returnsWrittenValue(node) ? nullptr : node;
        first->tensor->mayBeShared |= view && viewOf(view) == ViewOf::Contiguous;
        nameOf_[output] = newName({first->tensor, view, first, output, first->tensor->version});
      } else {
        noteUnknown(output);
      }
    }
  }

  bool isKnownView(Node *node, const Tensor &tensor) {
    const ViewOf view = viewOf(node);
    if (view == ViewOf::None || (view == ViewOf::Contiguous && tensor.argument) ||
        llvm::any_of(node->inputs().slice(1), [&](const Value *argument) {
          return argument->type()->kind() != c10::TypeKind::TensorType &&
                 alias_->isWritten(argument);
        }))
      return false;
    return view == ViewOf::Any || writes_->isContiguous(false, node, node->input(0));
  }

  // Current versions.

  /// Replaces the node's inputs by their current versions.
  void takePresent(Node *node) {
    for (size_t i = 0; i < node->inputs().size(); ++i)
      if (Name *name = nameOf(node->input(i)))
        if (Value *now = present(name, node); now != node->input(i))
          node->replaceInput(i, now);
  }

  Value *present(Name *name, Node *user) {
    std::vector<Name *> outdated;
    for (; name->whole && name->version != name->tensor->version; name = name->whole)
      outdated.push_back(name);
    Value *now = name->whole ? name->now : name->tensor->now;
    for (Name *view : llvm::reverse(outdated)) {
      now = view->view ? viewAgain(view, now, placeFor(view->view, user)) : now;
      view->now = now;
      view->version = view->tensor->version;
    }
    return now;
  }

  /// Versions change only in the block of the tensor, so the view is made again there.
  static Node *placeFor(const Node *view, Node *user) { return nodeIn(view->owningBlock(), user); }

  Value *viewAgain(const Name *name, Value *whole, Node *before) {
    std::vector<Value *> inputs = name->view->inputs().vec();
    inputs[0] = whole;
    Node *made = before->owningGraph()->create(name->view->kind(), inputs);
    made->insertBefore(before)->copyMetadata(name->view);
    made->output()->setType(name->view->output()->type());
    readers_->placeAs(made, before);
    return made->output();
  }

  // Writes.

  bool remove(Name *name, Node *writer) {
    const PureForm form = pureFormOf(writer);
    Tensor &tensor = *name->tensor;
    if (form == PureForm::None || writer->outputs().size() != 1 || tensor.fixed)
      return false;
    const bool isPossible = tensor.made->node()->owningBlock() == writer->owningBlock() &&
                            !readers_->see(tensor.memory, tensor.made->node(), writer);
    if (form == PureForm::View) {
      if (isPossible && !tensor.mayBeShared && becomeView(name, writer))
        return true;
      fixForm(tensor, writer);
      return false;
    }
    std::vector<Name *> views; // from the part to the tensor
    for (Name *part = name; part->whole; part = part->whole)
      if (part->view)
        views.push_back(part);
    Value *made = !isPossible     ? nullptr
                  : views.empty() ? writeWhole(tensor, writer, form)
                                  : writePart(tensor, views, writer, form);
    if (!made)
      return false;
    made->setType(tensor.now->type());
    tensor.now = made;
    ++tensor.version;
    nameOf_[writer->output()] = name;
    removed_.push_back(writer);
    return true;
  }

  /// t_ and the like do not change the memory: from here on the tensor has another form.
  bool becomeView(Name *name, Node *writer) {
    Value *made = writes_->pure(writer, writer->input(0));
    if (!made)
      return false;
    firstOf(name)->became =
        newName({name->tensor, made->node(), name, made, name->tensor->version});
    nameOf_[writer->output()] = name;
    removed_.push_back(writer);
    return true;
  }

  /// The form of the current version changes, so views of it cannot be made again later.
  void fixForm(Tensor &tensor, Node *writer) {
    for (Name &name : names_)
      if (name.tensor == &tensor && name.view &&
          name.view->owningBlock() == tensor.made->node()->owningBlock())
        (void)present(&name, writer);
    tensor.fixed = true;
  }

  Value *writeWhole(const Tensor &tensor, Node *writer, PureForm form) {
    if (!writes_->keepsForm(tensor.now, tensor.contiguous, writer, form))
      return nullptr;
    if (form == PureForm::Copy)
      return writes_->replaced(writer, tensor.now, writes_->like(writer, tensor.now));
    Value *made = writes_->pure(writer, tensor.now);
    return made && tensor.argument && writes_->hasDims(writer, tensor.now)
               ? writes_->replaced(writer, tensor.now, made)
               : made;
  }

  Value *writePart(const Tensor &tensor, llvm::ArrayRef<Name *> views, Node *writer,
                   PureForm form) {
    const bool isExact = keepsStridesOfWhole(views.back()->view);
    if (alias_->memories()[tensor.memory].writers.size() > kMostWriters ||
        !PureWrites::hasNoRounding(writer) ||
        !writes_->isContiguous(tensor.contiguous, writer, tensor.now) ||
        (!isExact && !writes_->hasDims(writer, tensor.now)))
      return nullptr;
    Node *start = writer->prev();
    std::vector<Value *> wholes = {tensor.now};
    for (const Name *view : llvm::reverse(views))
      wholes.push_back(viewAgain(view, wholes.back(), writer));
    Value *part = wholes.back();
    part = form == PureForm::Copy ? writes_->like(writer, part) : writes_->pure(writer, part);
    const bool isNumber = form == PureForm::Fill && !readsOtherTensor(writer); // has no gradient
    if (part && !isNumber)
      part = writes_->withContiguousGradient(writer, part);
    for (size_t i = 0; part && i < views.size(); ++i)
      part = withPart(views[i]->view, wholes[views.size() - 1 - i], part, writer);
    if (part && !isExact)
      part = writes_->replaced(writer, tensor.now, part);
    if (part)
      part = writes_->withContiguousGradient(writer, part);
    while (!part && writer->prev() != start) {
      readers_->forget(writer->prev());
      writer->prev()->destroy();
    }
    return part;
  }

  Model *model_ = nullptr;
  std::shared_ptr<const AliasAnalysis> alias_;
  std::optional<PureWrites> writes_;
  std::optional<MemoryReaders> readers_;
  std::deque<Tensor> tensors_;
  std::deque<Name> names_;
  llvm::DenseMap<const Value *, Name *> nameOf_; // look-ups only; the order of iteration does not
                                                 // matter
  std::vector<bool> leave_;                      // by memory: leave it unchanged
  std::vector<Node *> removed_;
};

} // namespace

PassInfo removeInplace() {
  return {.name = "remove-inplace",
          .description = "replaces in-place operators by their pure forms, also through views, "
                         "where no result changes",
          .requires_ =
              "a flat graph; types with strides (infer-types) for operators with two tensors",
          .guarantees = "values, dtypes, strides and gradients keep their bits; writes to weights "
                        "and shared memory stay; reads of state after its last write read a copy",
          .example = R"(
    %2 : Tensor = aten::linear(%1, %w, %b)
    %3 : Tensor = aten::relu_(%2)
    return (%2)
    =>
    %2 : Tensor = aten::linear(%1, %w, %b)
    %3 : Tensor = aten::relu(%2)
    return (%3))",
          .make = withoutOptions<RemoveInplace>()};
}

} // namespace pipec
