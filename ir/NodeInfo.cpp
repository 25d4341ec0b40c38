#include "ir/NodeInfo.h"

#include "ir/NodeOrigin.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

std::string modulePathOf(torch::jit::Node *node) {
  torch::jit::ScopePtr scope = node->scope();
  if (scope && isOrigin(*scope))
    scope = scope->parent();
  if (!scope || scope->isBlank())
    return "";
  return scope->namesFromRoot();
}

void setModulePath(torch::jit::Node *node, const std::string &path) {
  torch::jit::ScopePtr root = c10::make_intrusive<torch::jit::Scope>();
  node->setScope(path.empty() ? root : root->push(c10::Symbol::scope(path)));
}

bool isWarningNumber(c10::Symbol attribute) {
  return llvm::StringRef(attribute.toUnqualString()) == "warn_id";
}

/// Ranges of a loaded file point into its own code/; the author's lines are one step further.
static torch::jit::SourceRange authorsRange(torch::jit::Node *node) {
  torch::jit::SourceRange range = node->sourceRange();
  if (range.source())
    if (auto original = range.source()->findSourceRangeThatGenerated(range))
      return *original;
  return range;
}

std::string sourceLineOf(torch::jit::Node *node) {
  auto place = authorsRange(node).file_line_col();
  if (!place)
    return "";
  const auto &[file, line, column] = *place;
  if (file.empty()) // code that was defined from a string
    return "";
  size_t slash = file.find_last_of('/');
  return fmt::format("{}:{}", slash == std::string::npos ? file : file.substr(slash + 1), line);
}

/// The line of the nearest node after it, else before it, in its block: TorchScript gives no line
/// to reads and writes of attributes.
static std::string lineNear(torch::jit::Node *node) {
  torch::jit::Node *last = node->owningBlock()->return_node();
  for (torch::jit::Node *next = node->next(); next != last; next = next->next())
    if (std::string line = sourceLineOf(next); !line.empty())
      return line;
  for (torch::jit::Node *before = node->prev(); before != last; before = before->prev())
    if (std::string line = sourceLineOf(before); !line.empty())
      return line;
  return "";
}

/// Whether a line of the author's statement is a return. TorchScript puts what follows an early
/// return into the other branch, so only the text shows it.
static bool hasReturn(torch::jit::Node *branch) {
  const torch::jit::SourceRange range = authorsRange(branch);
  if (!range.source())
    return false;
  llvm::SmallVector<llvm::StringRef> lines;
  const std::string text = range.text().str();
  llvm::StringRef(text).split(lines, '\n');
  return llvm::any_of(lines, [](llvm::StringRef line) {
    line = line.trim();
    if (!line.consume_front("return"))
      return line.contains(": return");
    return line.empty() || line.front() == ' ' || line.front() == '(';
  });
}

/// Control flow in the words of the author, other operators by their names.
static std::string nameOf(torch::jit::Node *node) {
  if (node->kind() == c10::prim::Loop)
    return "a loop";
  if (node->kind() == c10::prim::If)
    return hasReturn(node) ? "an early return" : "a branch";
  return node->kind().toQualString();
}

std::string describeNode(torch::jit::Node *node) {
  std::string text = nameOf(node);
  if (std::string line = sourceLineOf(node); !line.empty())
    text += " at " + line;
  else if (std::string near = lineNear(node); !near.empty())
    text += " near " + near;
  if (std::string path = modulePathOf(node); !path.empty())
    text += " in " + path;
  return text;
}

std::optional<size_t> inputIndex(const torch::jit::Node *node, llvm::StringRef name) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  const std::optional<size_t> index =
      schema ? schema->argumentIndexWithName(std::string_view(name.data(), name.size()))
             : std::nullopt;
  return index && *index < node->inputs().size() ? index : std::nullopt;
}

torch::jit::Value *inputNamed(torch::jit::Node *node, llvm::StringRef name) {
  const std::optional<size_t> index = inputIndex(node, name);
  return index ? node->input(*index) : nullptr;
}

bool writes(const torch::jit::Use &use) {
  const c10::FunctionSchema *schema = use.user->maybeSchema();
  if (!schema || use.offset >= schema->arguments().size())
    return false;
  const c10::AliasInfo *alias = schema->arguments()[use.offset].alias_info();
  return alias && alias->isWrite();
}

bool writesElements(const torch::jit::Node *node, size_t argument) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  const c10::AliasInfo *alias = schema && argument < schema->arguments().size()
                                    ? schema->arguments()[argument].alias_info()
                                    : nullptr;
  return alias && llvm::any_of(alias->containedTypes(),
                               [](const c10::AliasInfo &element) { return element.isWrite(); });
}

bool writesElements(const torch::jit::Node *node) {
  for (size_t i = 0; i < node->inputs().size(); ++i)
    if (writesElements(node, i))
      return true;
  return false;
}

std::optional<int64_t> constantInt(const torch::jit::Value *value) {
  const std::optional<c10::IValue> constant =
      value ? torch::jit::toIValue(value) : std::optional<c10::IValue>();
  return constant && constant->isInt() ? std::optional(constant->toInt()) : std::nullopt;
}

Draws drawsOf(torch::jit::Node *node) {
  return drawsWith(node->kind().toQualString(), [&](llvm::StringRef name) -> Argument {
    torch::jit::Value *input = inputNamed(node, name);
    if (!input)
      return {};
    std::optional<c10::IValue> value = torch::jit::toIValue(input);
    return value ? argumentOf(*value) : Argument{Argument::State::Unknown, 0};
  });
}

bool anyNodeInside(const torch::jit::Block *block,
                   llvm::function_ref<bool(torch::jit::Node *)> holds) {
  for (const torch::jit::Node *each : block->nodes()) {
    auto *node = const_cast<torch::jit::Node *>(each);
    if (holds(node))
      return true;
    for (const torch::jit::Block *inner : node->blocks())
      if (anyNodeInside(inner, holds))
        return true;
    if (node->hasAttribute(c10::attr::Subgraph) &&
        anyNodeInside(node->g(c10::attr::Subgraph)->block(), holds))
      return true;
  }
  return false;
}

/// Whether LibTorch calls the function when an object is read or written; the model itself never
/// does.
static bool isForFiles(const torch::jit::Function &function) {
  return function.name() == "__setstate__" || function.name() == "__getstate__";
}

bool anyNodeInside(const torch::jit::Module &module,
                   llvm::function_ref<bool(torch::jit::Node *)> holds) {
  for (torch::jit::Function *function : module._ivalue()->compilation_unit()->get_functions())
    if (auto *graph = torch::jit::tryToGraphFunction(*function);
        graph && !isForFiles(*function) && anyNodeInside(graph->graph()->block(), holds))
      return true;
  return false;
}

static bool computesGradients(const torch::jit::Node *node) {
  if (!node->kind().is_aten())
    return false;
  const llvm::StringRef name = node->kind().toUnqualString();
  return name == "grad" || name == "backward" || name == "_backward";
}

static bool drawsByValues(torch::jit::Node *node) {
  return drawCountFollowsValues(node->kind().toQualString()) && drawsOf(node) != Draws::Never;
}

/// The first node that `holds` is true for, in words.
template <typename Code, typename Holds>
static std::string describeFirst(const Code &code, Holds holds) {
  std::string found;
  (void)anyNodeInside(code, [&](torch::jit::Node *node) {
    if (holds(node))
      found = describeNode(node);
    return !found.empty();
  });
  return found;
}

std::string innerGradientIn(const torch::jit::Block *block) {
  return describeFirst(block, computesGradients);
}

std::string innerGradientIn(const torch::jit::Module &module) {
  return describeFirst(module, computesGradients);
}

static bool listsValues(const torch::jit::Node *node) {
  if (!node->kind().is_aten())
    return false;
  const llvm::StringRef name = node->kind().toUnqualString();
  return name.contains("unique") || name == "bincount";
}

std::string listsValuesIn(const torch::jit::Block *block) {
  return describeFirst(block, listsValues);
}

std::string listsValuesIn(const torch::jit::Module &module) {
  return describeFirst(module, listsValues);
}

std::string valueDependentDrawIn(const torch::jit::Block *block) {
  return describeFirst(block, drawsByValues);
}

std::string valueDependentDrawIn(const torch::jit::Module &module) {
  return describeFirst(module, drawsByValues);
}

bool mayUseGenerator(torch::jit::Node *node) {
  const c10::Symbol kind = node->kind();
  if (kind.is_aten())
    return drawsOf(node) != Draws::Never;
  if (kind.is_prim())
    return kind == c10::prim::CallMethod;
  const std::string space = kind.ns().toUnqualString();
  return space != "quantized" && space != "pipec";
}

Argument argumentOf(const c10::IValue &value) {
  if (value.isBool())
    return {Argument::State::Known, value.toBool() ? 1.0 : 0.0};
  if (value.isScalar() && !value.isComplexDouble())
    return {Argument::State::Known, value.toScalar().toDouble()};
  return {}; // None: the operator's default, which is on
}

} // namespace pipec
