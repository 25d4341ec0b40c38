#include "ir/TrainingModules.h"

#include "ir/NodeInfo.h"
#include "ir/support/Llvm.h"
#include "ir/support/Words.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <ATen/core/function_schema.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

constexpr size_t kMostNames = 4;

std::optional<c10::IValue> argument(Node *node, llvm::StringRef name, KnownValue valueOf) {
  Value *input = inputNamed(node, name);
  return input ? valueOf(input) : std::nullopt;
}

bool isTrue(const std::optional<c10::IValue> &value) {
  return value && value->isBool() && value->toBool();
}

/// Follows calls from the method, with the values of flags that modules hand to functions.
class Walk {
public:
  Walk(const torch::jit::Module &module, const std::string &method) {
    visit(*module._ivalue()->type()->findMethod(method), {nullptr, {}, module._ivalue(), ""});
  }

  TrainingModules found;

private:
  /// One call.
  struct Frame {
    const Frame *caller; // null: the method itself, whose first argument is `self`
    std::vector<Value *> arguments;
    c10::IValue self;
    std::string path; // of the module whose code this is
  };

  void visit(torch::jit::Function &function, const Frame &frame) {
    torch::jit::GraphFunction *code = torch::jit::tryToGraphFunction(function);
    if (!code)
      return;
    code->ensure_defined();
    visit(*code->graph()->block(), frame);
  }

  void visit(Block &block, const Frame &frame) {
    for (Node *node : block.nodes())
      visit(node, frame);
  }

  void visit(Node *node, const Frame &frame) {
    auto known = [&](Value *value) { return valueOf(value, frame); };
    if (isInTrainingMode(node, known))
      found.add(frame.path, node);
    if (node->kind() == c10::prim::CallFunction) {
      if (auto type = node->input(0)->type()->cast<c10::FunctionType>())
        visit(*type->function(), {&frame, node->inputs().slice(1).vec(), frame.self, frame.path});
      return;
    }
    if (node->kind() == c10::prim::CallMethod) {
      const std::optional<c10::IValue> object = known(node->input(0));
      if (object && object->isObject())
        if (auto *method = object->toObjectRef().type()->findMethod(node->s(c10::attr::name)))
          visit(*method, {&frame, node->inputs().vec(), *object, pathOf(node->input(0), frame)});
      return;
    }
    if (Block *taken = takenBranch(node, frame))
      return visit(*taken, frame);
    for (Block *inner : node->blocks())
      visit(*inner, frame);
  }

  /// Null if a run decides, and for other operators.
  Block *takenBranch(Node *node, const Frame &frame) const {
    if (node->kind() != c10::prim::If)
      return nullptr;
    const std::optional<c10::IValue> condition = valueOf(node->input(0), frame);
    return condition && condition->isBool() ? node->blocks()[condition->toBool() ? 0 : 1] : nullptr;
  }

  std::optional<c10::IValue> valueOf(Value *value, const Frame &frame) const {
    Node *node = value->node();
    if (node->kind() == c10::prim::Param && node->owningBlock() == node->owningGraph()->block()) {
      if (frame.caller)
        return valueOf(frame.arguments[value->offset()], *frame.caller);
      return value->offset() == 0 ? std::optional(frame.self) : std::nullopt;
    }
    if (node->kind() == c10::prim::GetAttr) {
      const std::optional<c10::IValue> object = valueOf(node->input(0), frame);
      return object && object->isObject()
                 ? std::optional(object->toObjectRef().getAttr(node->s(c10::attr::name)))
                 : std::nullopt;
    }
    if (Block *taken = takenBranch(node, frame))
      return valueOf(taken->outputs()[value->offset()], frame);
    return torch::jit::toIValue(value);
  }

  static std::string pathOf(Value *object, const Frame &frame) {
    Node *node = object->node();
    if (node->kind() == c10::prim::GetAttr) {
      const std::string holder = pathOf(node->input(0), frame);
      return (holder.empty() ? "" : holder + ".") + node->s(c10::attr::name);
    }
    return node->kind() == c10::prim::Param && frame.caller
               ? pathOf(frame.arguments[object->offset()], *frame.caller)
               : "";
  }
};

} // namespace

bool isInTrainingMode(Node *node, KnownValue valueOf) {
  if (node->kind() == c10::aten::instance_norm) { // without running statistics, both modes are one
    const std::optional<c10::IValue> mean = argument(node, "running_mean", valueOf);
    return isTrue(argument(node, "use_input_stats", valueOf)) && !(mean && mean->isNone());
  }
  if (!isTrue(argument(node, "train", valueOf)) && !isTrue(argument(node, "training", valueOf)))
    return false;
  for (const char *rate : {"dropout", "p", "dropout_p"})
    if (const auto value = argument(node, rate, valueOf);
        value && value->isDouble() && value->toDouble() == 0)
      return false;
  const std::optional<c10::IValue> statistics = argument(node, "running_mean", valueOf);
  return !(statistics && statistics->isNone());
}

/// Whether an operator computes with statistics of the whole micro-batch.
static bool isBatchNorm(llvm::StringRef name) {
  return name.contains("norm") && !name.contains("instance_norm");
}

static void addTo(std::vector<std::string> &names, const std::string &name) {
  if (!llvm::is_contained(names, name))
    names.push_back(name);
}

void TrainingModules::add(const std::string &path, Node *node) {
  const std::string module = path.empty() ? "the model itself" : path;
  const std::string name = node->kind().toUnqualString();
  addTo(modules_, module);
  addTo(operators_, name);
  if (isBatchNorm(name))
    addTo(norms_, module);
}

void TrainingModules::add(const TrainingModules &other) {
  for (const std::string &name : other.modules_)
    addTo(modules_, name);
  for (const std::string &name : other.operators_)
    addTo(operators_, name);
  for (const std::string &name : other.norms_)
    addTo(norms_, name);
}

std::string TrainingModules::norms() const { return someOf(norms_, kMostNames); }

/// What the operators do in training mode, each kind once, in program order.
static std::vector<std::string> effectsOf(llvm::ArrayRef<std::string> operators) {
  std::vector<std::string> effects;
  for (llvm::StringRef name : operators) {
    const std::string effect =
        name.contains("instance_norm") ? "instance norm updates its statistics in each micro-batch"
        : isBatchNorm(name) ? "batch norm uses and updates the statistics of each micro-batch"
                            : (startsWith(name, "rrelu") ? "rrelu" : "dropout") +
                                  std::string(" draws random numbers");
    if (!llvm::is_contained(effects, effect))
      effects.push_back(effect);
  }
  return effects;
}

std::string TrainingModules::note(const std::string &help) const {
  if (modules_.empty())
    return "";
  return fmt::format("{} {} in training mode ({}): {}; {}", someOf(modules_, kMostNames),
                     modules_.size() == 1 ? "is" : "are", llvm::join(operators_, ", "),
                     llvm::join(effectsOf(operators_), ", "), help);
}

TrainingModules trainingModules(const torch::jit::Module &module, const std::string &method) {
  return Walk(module, method).found;
}

} // namespace pipec
