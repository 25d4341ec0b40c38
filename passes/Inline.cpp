// inline: pastes every called method and function until no call is left, and writes on each node
// the module that it came from.
#include "ir/NodeInfo.h"
#include "ir/NodeOrigin.h"
#include "ir/Refusals.h"
#include "ir/TorchError.h"
#include "ir/support/Llvm.h"
#include "ir/support/StringSwitch.h"
#include "ir/support/Try.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/GradRegions.h"
#include "passes/Passes.h"
#include "passes/analysis/ModuleNames.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <unordered_map>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// LibTorch's Inline pastes one level and loses instance paths. This inliner walks the module
/// objects along with the calls, so that interface calls find their class, and two calls of one
/// module stay distinct.
class Inliner {
public:
  explicit Inliner(torch::jit::Module root) : root_(std::move(root)) {}

  bool changed() const { return changed_; }
  /// Scope of each module call, in program order.
  std::vector<std::string> takeModuleCalls() { return std::move(moduleCalls_); }

  llvm::Error run(Graph &graph) {
    if (graph.inputs().size() > 0)
      paths_[graph.inputs()[0]] = "";
    return inlineBlock(*graph.block());
  }

private:
  struct Callee {
    std::shared_ptr<Graph> graph;
    std::string scope; // of the pasted nodes
  };

  llvm::Error inlineBlock(Block &block) {
    for (Node *node = *block.nodes().begin(); node != *block.nodes().end();) {
      notePath(node);
      if (node->kind() == c10::prim::CallMethod || isInlinableFunctionCall(node)) {
        Node *next = TRY(paste(node));
        node = next;
        continue;
      }
      if (node->kind() == c10::prim::awaitable)
        return refuseWith(Refusal::Awaitable, describeNode(node));
      TRY(inlineInside(node));
      node = node->next();
    }
    return llvm::Error::success();
  }

  llvm::Error inlineInside(Node *node) {
    for (Block *inner : node->blocks())
      TRY(inlineBlock(*inner));
    if (!node->hasAttribute(c10::attr::Subgraph))
      return llvm::Error::success();
    // The inputs of a fork's body are the values that the fork node captured.
    std::shared_ptr<Graph> body = node->g(c10::attr::Subgraph);
    for (size_t i = 0; i < body->inputs().size(); ++i)
      if (auto known = paths_.find(node->input(i)); known != paths_.end())
        paths_[body->inputs()[i]] = known->second;
    return inlineBlock(*body->block());
  }

  /// Notes the path of a module. Calls get modules from chains of prim::GetAttr from self.
  void notePath(Node *node) {
    if (node->kind() != c10::prim::GetAttr)
      return;
    auto base = paths_.find(node->input());
    if (base == paths_.end())
      return;
    const std::string &name = node->s(c10::attr::name);
    paths_[node->output()] = base->second.empty() ? name : base->second + "." + name;
  }

  /// Calls of pipe_split stay: resolve-markers turns them into boundaries.
  static bool isInlinableFunctionCall(Node *node) {
    return node->kind() == c10::prim::CallFunction && functionOf(node).name() != "pipe_split";
  }

  /// TorchScript names the variants of an overloaded forward forward__0, forward__1 (nn.LSTM) or
  /// forward_tensor (a quantised LSTM). A trace names the second call of a module forward1.
  static bool isForwardName(llvm::StringRef method) {
    return method.consume_front("forward") &&
           (startsWith(method, "_") || llvm::all_of(method, llvm::isDigit));
  }

  static torch::jit::Function &functionOf(Node *node) {
    return *node->input(0)->type()->expect<c10::FunctionType>()->function();
  }

  llvm::Expected<torch::jit::Module> moduleAt(const std::string &path) {
    return guardTorch(ExitCode::Internal, "module " + path, [&] {
      torch::jit::Module module = root_;
      for (llvm::StringRef rest = path; !rest.empty();) {
        auto [head, tail] = rest.split('.');
        module = module.attr(head.str()).toModule();
        rest = tail;
      }
      return module;
    });
  }

  llvm::Expected<Callee> calleeOf(Node *node) {
    // Functions and helper methods belong to the module that calls them.
    const std::string outerScope = modulePathOf(node);
    if (node->kind() == c10::prim::CallFunction)
      return graphOf(functionOf(node), node, outerScope);
    const std::string &method = node->s(c10::attr::name);
    auto known = paths_.find(node->input(0));
    if (known == paths_.end()) {
      auto type = node->input(0)->type()->cast<c10::ClassType>();
      if (!type)
        return refuseWith(Refusal::ClassUnknown, describeNode(node), method,
                          node->input(0)->type()->annotation_str());
      return graphOf(type->getMethod(method), node, outerScope);
    }
    torch::jit::Module module = TRY(moduleAt(known->second));
    const bool isForward = isForwardName(method);
    if (known->second.empty() || !isForward || withoutCallNumbers(outerScope) == known->second)
      return graphOf(module.type()->getMethod(method), node, outerScope);
    return graphOf(module.type()->getMethod(method), node, scopeOfCall(known->second));
  }

  /// The path with the ordinal of this call on its last component, and the ordinals of the
  /// enclosing calls on the others.
  std::string scopeOfCall(const std::string &path) {
    const int call = ++calls_[path];
    std::string parent = llvm::StringRef(path).rsplit('.').first.str();
    std::string last = path;
    std::string prefix;
    if (parent != path) {
      last = path.substr(parent.size() + 1);
      prefix = parentScope(parent) + ".";
    }
    moduleCalls_.push_back(prefix + last + (call > 1 ? "#" + std::to_string(call) : ""));
    return moduleCalls_.back();
  }

  std::string parentScope(const std::string &path) {
    auto [parent, last] = llvm::StringRef(path).rsplit('.');
    std::string prefix;
    std::string name = path;
    if (!last.empty()) {
      prefix = parentScope(parent.str()) + ".";
      name = last.str();
    }
    auto known = calls_.find(path);
    int call = known == calls_.end() ? 1 : known->second;
    return prefix + name + (call > 1 ? "#" + std::to_string(call) : "");
  }

  static llvm::Expected<Callee> graphOf(torch::jit::Function &function, Node *node,
                                        std::string scope) {
    torch::jit::GraphFunction *graphFunction = torch::jit::tryToGraphFunction(function);
    if (!graphFunction)
      return refuseWith(Refusal::NoBody, describeNode(node), function.qualname().qualifiedName());
    return Callee{graphFunction->graph(), std::move(scope)};
  }

  /// Returns the node to continue with: the first pasted one.
  llvm::Expected<Node *> paste(Node *call) {
    Callee callee = TRY(calleeOf(call));
    changed_ = true;
    Graph &graph = *call->owningGraph();
    Node *before = call->prev();
    std::vector<Value *> arguments = call->inputs().vec();
    if (call->kind() == c10::prim::CallFunction)
      arguments.erase(arguments.begin());
    std::unordered_map<Value *, Value *> valueMap;
    std::vector<Value *> results;
    {
      torch::jit::WithInsertPoint guard(call);
      results = torch::jit::insertGraph(graph, *callee.graph, arguments, valueMap);
    }
    for (Node *node = before->next(); node != call; node = node->next())
      stamp(node, callee.scope);
    for (size_t i = 0; i < results.size(); ++i)
      call->output(i)->replaceAllUsesWith(results[i]);
    Node *next = before->next();
    if (next == call)
      next = call->next();
    Node *function = call->kind() == c10::prim::CallFunction ? call->input(0)->node() : nullptr;
    call->destroy();
    // Text cannot name a function.
    if (function && function != next && !function->hasUses())
      function->destroy();
    return next;
  }

  static void stamp(Node *node, const std::string &scope) {
    setModulePath(node, scope);
    for (Block *block : node->blocks())
      for (Node *inner : block->nodes())
        stamp(inner, scope);
  }

  torch::jit::Module root_;
  std::unordered_map<Value *, std::string> paths_;
  std::map<std::string, int> calls_;
  std::vector<std::string> moduleCalls_;
  bool changed_ = false;
};

bool hasForks(Block &block) {
  return llvm::any_of(block.nodes(), [](Node *node) {
    return node->kind() == c10::prim::fork ||
           llvm::any_of(node->blocks(), [](Block *inner) { return hasForks(*inner); });
  });
}

/// The type with every future replaced by its element type, also inside containers.
c10::TypePtr withoutFutures(const c10::TypePtr &type) {
  if (auto future = type->cast<c10::FutureType>())
    return withoutFutures(future->getElementType());
  switch (type->kind()) {
  case c10::TypeKind::ListType:
  case c10::TypeKind::DictType:
  case c10::TypeKind::TupleType:
  case c10::TypeKind::OptionalType:
  case c10::TypeKind::UnionType: {
    std::vector<c10::TypePtr> contained;
    for (const c10::TypePtr &part : type->containedTypes())
      contained.push_back(withoutFutures(part));
    return type->containedTypes().equals(contained) ? type : type->withContained(contained);
  }
  default: // nothing else holds a future in the open
    return type;
  }
}

/// Computes a forked call where it is forked. A future becomes its value, also in lists, branches
/// and loops, and waiting for it does nothing. (LibTorch's InlineForkWait leaves lists of futures
/// that hold no futures.)
void computeForks(Block &block) {
  auto retype = [](at::ArrayRef<Value *> values) {
    for (Value *value : values)
      if (c10::TypePtr type = withoutFutures(value->type()); type != value->type())
        value->setType(type);
  };
  retype(block.inputs());
  for (Node *node = *block.nodes().begin(); node != *block.nodes().end();) {
    Node *next = node->next();
    if (node->kind() == c10::prim::fork) {
      Node *before = node->prev();
      torch::jit::WithInsertPoint guard(node);
      std::vector<Value *> results = torch::jit::insertGraph(
          *block.owningGraph(), *node->g(c10::attr::Subgraph), node->inputs());
      node->output()->replaceAllUsesWith(results.at(0));
      next = before->next() == node ? next : before->next(); // it may contain forks
      node->destroy();
    } else if (node->kind() == c10::aten::wait) {
      node->output()->replaceAllUsesWith(node->input());
      node->destroy();
    } else {
      for (Block *inner : node->blocks())
        computeForks(*inner);
      retype(node->outputs());
    }
    node = next;
  }
}

/// Whether a `with` block of this class has no effect: a name for profilers; autocast, which only
/// LibTorch's graph optimiser applies, and pipec runs without it; no_grad, whose effect is lowered.
bool hasNoEffect(llvm::StringRef context) {
  return StringSwitch<bool>(context)
      .Cases({"__torch__.torch.autograd.grad_mode.no_grad",
              "__torch__.torch.autograd.profiler.record_function",
              "__torch__.torch.amp.autocast_mode.autocast",
              "__torch__.torch.cpu.amp.autocast_mode.autocast",
              "__torch__.torch.cuda.amp.autocast_mode.autocast"},
             true)
      .Default(false);
}

std::string classOf(const Value *object) {
  const auto type = object->type()->cast<c10::ClassType>();
  return type && type->name() ? type->name()->qualifiedName() : "";
}

/// Whether an object is the context of such a block and has no other use.
bool isIdleContext(Node *object) {
  if (object->kind() != c10::prim::CreateObject || !hasNoEffect(classOf(object->output())))
    return false;
  return llvm::all_of(object->output()->uses(), [](const torch::jit::Use &use) {
    Node *user = use.user;
    if (user->kind() == c10::prim::SetAttr)
      return use.offset == 0;
    return (user->kind() == c10::prim::Enter || user->kind() == c10::prim::Exit) &&
           !user->hasUses();
  });
}

void noteAutocast(PassContext &context) {
  const std::string note =
      "torch.autocast in the model has no effect: in a script only LibTorch's graph optimiser "
      "applies it, and pipec does not run that; cast explicitly";
  if (!llvm::is_contained(context.notes, note))
    context.notes.push_back(note);
}

bool dropIdleContexts(Block &block, PassContext &context) {
  bool changed = false;
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    Node *node = *it;
    ++it;
    for (Block *inner : node->blocks())
      changed |= dropIdleContexts(*inner, context);
    if (!isIdleContext(node))
      continue;
    if (endsWith(classOf(node->output()), ".autocast"))
      noteAutocast(context);
    while (!node->output()->uses().empty()) {
      Node *user = node->output()->uses()[0].user;
      if (it != block.nodes().end() && *it == user)
        ++it;
      user->destroy();
    }
    node->destroy();
    changed = true;
  }
  return changed;
}

class Inline : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    if (!model.self.isObject())
      return false;
    Inliner inliner{torch::jit::Module(model.self.toObject())};
    bool dropped = false, forks = false;
    if (llvm::Error error =
            guardTorchError(ExitCode::Internal, "inlining the model's calls", [&]() -> llvm::Error {
              TRY(inliner.run(*model.graph));
              forks = hasForks(*model.graph->block()); // of called modules, too
              if (forks)
                computeForks(*model.graph->block());
              bool lowered = TRY(lowerGradRegions(model));
              dropped = dropIdleContexts(*model.graph->block(), context) || lowered;
              nameOrigins(*model.graph);
              return llvm::Error::success();
            }))
      return std::move(error);
    if (inliner.changed()) // a second run must not forget the notes of the first
      context.moduleCalls = inliner.takeModuleCalls();
    return inliner.changed() || dropped || forks;
  }
};

} // namespace

PassInfo inlineCalls() {
  return {
      .name = "inline",
      .description =
          "inlines every called method and function until no call is left; computes futures where "
          "they are forked; removes `with` blocks without effect: record_function, and autocast "
          "(which "
          "only LibTorch's graph optimiser applies); removes what sets the grad mode (no_grad, "
          "set_grad_enabled), and detaches in a training what its operators read",
      .requires_ = "the graph's first input is the module",
      .guarantees = "no prim::CallMethod, and no prim::CallFunction but calls of pipe_split; "
                    "each node knows its module path",
      .example = R"(
    %y : Tensor = prim::CallMethod[name="forward"](%fc, %x)
    =>
    %y : Tensor = aten::linear(%x, %weight, %bias)  # in fc)",
      .make = withoutOptions<Inline>()};
}

} // namespace pipec
