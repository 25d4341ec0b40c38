// Rules of fold-constants for questions about where and how a model runs: in an inference without
// gradients, without autocast, on CPUs and CUDA devices, on inputs that are no nested tensors.
// Modules of torch.nn test these to choose a fast path.
#include "passes/fold/FoldSurroundings.h"

#include "ir/support/Llvm.h"
#include "ir/values/MapTensors.h"
#include "passes/analysis/MemoryTypes.h"

#include <map>
#include <set>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

/// Whether a tensor is a nested one: never, always, or where a condition is true or false.
class Nestedness {
public:
  struct Answer {
    enum class Kind { Unknown, Constant, Condition } kind = Kind::Unknown;
    bool is = false; // Constant: whether it is; Condition: it is where the condition is that
    Value *condition = nullptr; // of the branch that decides
    bool operator==(const Answer &) const = default;
  };

  explicit Nestedness(const Model &model) : model_(model) {}

  Answer of(Value *tensor) {
    if (!mayBeMade())
      return constant(false);
    auto [known, isNew] = answers_.try_emplace(tensor);
    if (!isNew)
      return known->second;
    const Answer answer = find(tensor);
    answers_[tensor] = answer;
    return answer;
  }

private:
  /// Something in the model may make a nested tensor: an operator with that in its name, or one
  /// that is not LibTorch's; or an attribute is one.
  bool mayBeMade() {
    if (!mayBeMade_)
      mayBeMade_ = mayMake(*model_.graph->block()) ||
                   llvm::any_of(model_.attributes, [](const Attribute &attribute) {
                     return holdsNested(attribute.value);
                   });
    return *mayBeMade_;
  }

  static bool holdsNested(const c10::IValue &value) {
    return llvm::any_of(tensorsIn(value), [](const at::Tensor &tensor) {
      return tensor.defined() && tensor.is_nested();
    });
  }

  static bool mayMake(torch::jit::Block &block) {
    return llvm::any_of(block.nodes(), [](Node *node) {
      const c10::Symbol kind = node->kind();
      const bool isOwn = kind.is_aten() || kind.is_prim() || kind.is_cuda() ||
                         startsWith(kind.toQualString(), "quantized::") ||
                         startsWith(kind.toQualString(), "pipec::");
      const bool asks = kind == c10::Symbol::prim("is_nested");
      return !isOwn || (!asks && llvm::StringRef(kind.toUnqualString()).contains("nested")) ||
             llvm::any_of(node->blocks(), [](torch::jit::Block *inner) { return mayMake(*inner); });
    });
  }

  static Answer constant(bool is) { return {Answer::Kind::Constant, is, nullptr}; }

  Answer find(Value *tensor) {
    Node *node = tensor->node();
    const c10::Symbol kind = node->kind();
    if (kind == c10::prim::Param)
      return ofInput(tensor);
    if (kind == c10::prim::If)
      return ofBranches(node, tensor->offset());
    if (kind == c10::prim::Constant)
      return constant(false);
    static const c10::Symbol layer = c10::Symbol::aten("_transformer_encoder_layer_fwd"),
                             padded = c10::Symbol::aten("to_padded_tensor"),
                             fromMask = c10::Symbol::aten("_nested_tensor_from_mask");
    if (kind == layer || kind == c10::prim::unchecked_cast)
      return of(node->input(0));
    if (kind == padded || kind == fromMask)
      return constant(kind == fromMask);
    const bool isQuantized = startsWith(kind.toQualString(), "quantized::");
    const bool isOrdinary = (kind.is_aten() || kind.is_prim() || isQuantized) &&
                            node->blocks().empty() &&
                            !llvm::StringRef(kind.toUnqualString()).contains("nested");
    return isOrdinary && llvm::all_of(node->inputs(),
                                      [&](Value *input) {
                                        return !mayHoldTensor(*input->type()) ||
                                               of(input) == constant(false);
                                      })
               ? constant(false)
               : Answer();
  }

  /// No input of pipec is a nested tensor. Nor is an attribute, unless its value is one; then the
  /// answer stays open.
  Answer ofInput(const Value *tensor) const {
    const Node *node = tensor->node();
    if (node->owningBlock() != model_.graph->block())
      return {};
    if (tensor->offset() < model_.argumentCount())
      return constant(false);
    const size_t index = tensor->offset() - model_.argumentCount();
    return holdsNested(model_.attributes[index].value) ? Answer() : constant(false);
  }

  Answer ofBranches(Node *node, size_t index) {
    const Answer first = of(node->blocks()[0]->outputs()[index]),
                 second = of(node->blocks()[1]->outputs()[index]);
    if (first == second)
      return first;
    if (first.kind != Answer::Kind::Constant || second.kind != Answer::Kind::Constant)
      return {};
    return {Answer::Kind::Condition, first.is, node->input(0)};
  }

  const Model &model_;
  std::optional<bool> mayBeMade_;
  std::map<Value *, Answer> answers_; // looked up only
};

class SurroundingsFolder {
public:
  explicit SurroundingsFolder(Folding &folding) : folding_(folding) {}

  bool fold(Node *node) {
    static const c10::Symbol autocast = c10::Symbol::aten("is_autocast_enabled"),
                             autocastCpu = c10::Symbol::aten("is_autocast_cpu_enabled"),
                             gradEnabled = c10::Symbol::aten("is_grad_enabled"),
                             nested = c10::Symbol::prim("is_nested"),
                             contains = c10::Symbol::aten("__contains__");
    const c10::Symbol kind = node->kind();
    if (kind == autocast || kind == autocastCpu)
      return folding_.replaceByConstant(node->output(), false);
    if (kind == gradEnabled)
      return !mayHaveGradients() && folding_.replaceByConstant(node->output(), false);
    if (kind == nested)
      return foldNested(node);
    return kind == contains && foldDevice(node);
  }

private:
  bool anyNode(torch::jit::Block *block, llvm::function_ref<bool(Node *)> wanted) const {
    return llvm::any_of(block->nodes(), [&](Node *node) {
      return wanted(node) || llvm::any_of(node->blocks(), [&](torch::jit::Block *inner) {
               return anyNode(inner, wanted);
             });
    });
  }

  /// An inference has none, but where the model itself switches them on.
  bool mayHaveGradients() const {
    static const c10::Symbol set = c10::Symbol::aten("set_grad_enabled");
    const Model &model = folding_.model();
    return model.mode != Mode::Infer ||
           anyNode(model.graph->block(), [](Node *node) { return node->kind() == set; });
  }

  bool foldNested(Node *node) {
    const Nestedness::Answer answer = Nestedness(folding_.model()).of(node->input(0));
    switch (answer.kind) {
    case Nestedness::Answer::Kind::Unknown:
      return false;
    case Nestedness::Answer::Kind::Constant:
      return folding_.replaceByConstant(node->output(), answer.is);
    case Nestedness::Answer::Kind::Condition:
      break;
    }
    Value *result = answer.condition;
    if (!answer.is) {
      Node *other = node->owningGraph()->create(c10::aten::__not__, {result});
      other->insertBefore(node)->copyMetadata(node)->output()->setType(c10::BoolType::get());
      result = other->output();
    }
    return folding_.replace(node->output(), result);
  }

  /// `x.device.type in ["cpu", "cuda", ...]`: a model runs on one or the other.
  bool foldDevice(Node *node) {
    Node *list = folding_.fixedContainer(node->input(0), c10::prim::ListConstruct);
    Node *type = node->input(1)->node();
    if (type->kind() != c10::Symbol::prim("type") ||
        type->input(0)->node()->kind() != c10::prim::device || usesOtherDevices())
      return false;
    std::set<std::string> names;
    if (list)
      for (Value *input : list->inputs())
        if (std::optional<c10::IValue> name = Folding::constant(input); name && name->isString())
          names.insert(name->toStringRef());
    if (std::optional<c10::IValue> constant = Folding::constant(node->input(0));
        constant && constant->isList())
      for (const c10::IValue &name : constant->toListRef())
        if (name.isString())
          names.insert(name.toStringRef());
    return names.count("cpu") && names.count("cuda") &&
           folding_.replaceByConstant(node->output(), true);
  }

  /// The model names a device of another kind, or makes one up.
  bool usesOtherDevices() const {
    return anyNode(folding_.model().graph->block(), [](Node *node) {
      if (node->kind() == c10::aten::device)
        return true;
      if (node->kind() != c10::prim::Constant ||
          node->output()->type()->kind() != c10::TypeKind::DeviceObjType)
        return false;
      const std::optional<c10::IValue> device = torch::jit::toIValue(node->output());
      return !device || !device->isDevice() ||
             !(device->toDevice().is_cpu() || device->toDevice().is_cuda());
    });
  }

  Folding &folding_;
};

} // namespace

bool foldSurroundings(Folding &folding, Node *node) {
  return node->outputs().size() == 1 && node->output()->hasUses() &&
         SurroundingsFolder(folding).fold(node);
}

} // namespace pipec
