#include "ir/text/GraphText.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/TorchError.h"
#include "ir/support/Json.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/text/TextLine.h"
#include "ir/text/ValueText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/ranges.h>

#include <torch/csrc/jit/frontend/script_type_parser.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <cmath>
#include <sstream>
#include <unordered_map>

namespace pipec {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

const char *const kJson = "json";
const char *const kScopeComment = "  # in ";

bool isKeyword(llvm::StringRef word) {
  static const llvm::StringSet<> words = {
      "def",  "if",    "else",   "elif", "while",  "return",   "is",
      "True", "False", "None",   "and",  "or",     "not",      "global",
      "for",  "in",    "raise",  "del",  "assert", "break",    "continue",
      "pass", "class", "import", "with", "as",     "Ellipsis", "NoneType"};
  return words.contains(word);
}

/// `name` as an identifier of LibTorch's lexer.
std::string identifier(const std::string &name) {
  std::string out;
  for (const char c : name)
    out += llvm::isAlnum(c) ? c : '_';
  if (!out.empty() && (llvm::isDigit(out[0]) || isKeyword(out)))
    out = "_" + out;
  return out;
}

/// Types print in LibTorch's own form, which for tensors includes the known shape and strides. Its
/// parser refuses strides beside sizes that are not all known, and symbolic sizes. These sizes
/// print as `*`, without strides.
std::string typeText(const c10::TypePtr &type) {
  std::ostringstream out;
  out << *type;
  std::string text = out.str();
  for (size_t at = text.find("SS("); at != std::string::npos; at = text.find("SS("))
    text.replace(at, text.find(')', at) + 1 - at, "*");
  const size_t strides = text.find(", strides=[");
  if (strides != std::string::npos && text.find('*') < strides)
    text.erase(strides, text.find(']', strides) + 1 - strides);
  return text;
}

class GraphPrinter {
public:
  GraphPrinter(llvm::raw_ostream &os, bool scopes) : os_(os), scopes_(scopes) {}

  void print(const Graph &graph, unsigned indent, const std::vector<std::string> &inputNames) {
    nameInputs(graph, inputNames);
    os_.indent(indent) << "graph(";
    const std::string separator = ",\n" + std::string(indent + 6, ' ');
    for (size_t i = 0; i < graph.inputs().size(); ++i)
      os_ << (i ? separator : "") << typed(graph.inputs()[i]);
    os_ << "):\n";
    for (const Node *node : graph.nodes())
      print(node, indent + 2);
    os_.indent(indent + 2) << "return (" << names(graph.outputs()) << ")\n";
  }

private:
  void nameInputs(const Graph &graph, const std::vector<std::string> &inputNames) {
    llvm::StringSet<> taken;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const Value *value = graph.inputs()[i];
      const bool given = i < inputNames.size() && !inputNames[i].empty();
      if (!given && !value->hasDebugName())
        continue;
      const std::string base = identifier(given ? inputNames[i] : value->debugName());
      std::string unique = base;
      for (int k = 2; !taken.insert(unique).second; ++k)
        unique = base + "_" + std::to_string(k);
      names_[value] = unique;
    }
  }

  std::string name(const Value *value) {
    const auto [it, fresh] = names_.try_emplace(value);
    if (fresh)
      it->second = std::to_string(next_++);
    return "%" + it->second;
  }

  std::string typed(const Value *value) { return name(value) + " : " + typeText(value->type()); }

  std::string names(at::ArrayRef<const Value *> values) {
    std::string out;
    for (const Value *value : values)
      out += (out.empty() ? "" : ", ") + name(value);
    return out;
  }

  void print(const Node *node, unsigned indent) {
    os_.indent(indent);
    for (size_t i = 0; i < node->outputs().size(); ++i)
      os_ << (i ? ", " : "") << typed(node->outputs()[i]);
    os_ << (node->outputs().empty() ? "" : " = ") << node->kind().toQualString();
    printAttributes(node);
    os_ << '(' << names(node->inputs()) << ')';
    if (scopes_)
      if (const std::string path = modulePathOf(const_cast<Node *>(node)); !path.empty())
        os_ << kScopeComment << path;
    os_ << '\n';
    for (size_t i = 0; i < node->blocks().size(); ++i)
      print(node->blocks()[i], i, indent + 2);
  }

  void print(const Block *block, size_t index, unsigned indent) {
    os_.indent(indent) << "block" << index << '(';
    for (size_t i = 0; i < block->inputs().size(); ++i)
      os_ << (i ? ", " : "") << typed(block->inputs()[i]);
    os_ << "):\n";
    for (const Node *node : block->nodes())
      print(node, indent + 2);
    os_.indent(indent + 2) << "-> (" << names(block->outputs()) << ")\n";
  }

  void printAttributes(const Node *node) {
    std::vector<std::string> parts;
    for (const c10::Symbol symbol : node->attributeNames())
      if (!isWarningNumber(symbol))
        parts.push_back(attribute(node, symbol));
    if (!parts.empty())
      os_ << '[' << llvm::join(parts, ", ") << ']';
  }

  static std::string attribute(const Node *node, c10::Symbol symbol);
  static std::string json(const c10::IValue &value);

  llvm::raw_ostream &os_;
  const bool scopes_;
  size_t next_ = 0;
  std::unordered_map<const Value *, std::string> names_; // look-ups only
};

/// A string literal that LibTorch's lexer reads back; nullopt for characters that it cannot.
std::optional<std::string> stringLiteral(llvm::StringRef text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (!llvm::isPrint(c))
      return std::nullopt;
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + '"';
}

std::string GraphPrinter::json(const c10::IValue &value) {
  llvm::Expected<llvm::json::Value> converted = valueToJson(value);
  if (!converted)
    return "value=<" + describe(converted.takeError()).message +
           ">"; // for people only: does not parse
  // ASCII only, for the literal: other characters as JSON's own escapes are not needed, bytes above
  // 127 pass the lexer.
  std::string literal = "\"";
  for (const char c : jsonText(*converted))
    literal += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return fmt::format("{}={}\"", kJson, literal);
}

std::string GraphPrinter::attribute(const Node *node, c10::Symbol symbol) {
  const std::string name = symbol.toUnqualString();
  switch (node->kindOf(symbol)) {
  case torch::jit::AttributeKind::i:
    return fmt::format("{}={}", name, node->i(symbol));
  case torch::jit::AttributeKind::f: {
    const double value = node->f(symbol);
    if (!std::isfinite(value))
      return json(value);
    return fmt::format("{}={}", name, floatText(value));
  }
  case torch::jit::AttributeKind::s: {
    const std::optional<std::string> literal = stringLiteral(node->s(symbol));
    return literal ? fmt::format("{}={}", name, *literal) : json(node->s(symbol));
  }
  case torch::jit::AttributeKind::c:
    return json(node->c(symbol));
  case torch::jit::AttributeKind::t:
    return json(node->t(symbol));
  case torch::jit::AttributeKind::ival:
    return json(node->ival(symbol));
  case torch::jit::AttributeKind::ty:
    return fmt::format("{}={}", name, typeText(node->ty(symbol)));
  case torch::jit::AttributeKind::tys: {
    std::vector<std::string> types;
    for (const c10::TypePtr &type : node->tys(symbol))
      types.push_back(typeText(type));
    return fmt::format("{}=[{}]", name, llvm::join(types, ", "));
  }
  case torch::jit::AttributeKind::is:
    return fmt::format("{}=[{}]", name, fmt::join(node->is(symbol), ", "));
  case torch::jit::AttributeKind::g:
    return fmt::format(
        "{}=<graph of {} nodes>", name,
        std::distance(node->g(symbol)->nodes().begin(), node->g(symbol)->nodes().end()));
  case torch::jit::AttributeKind::fs:
  case torch::jit::AttributeKind::cs:
  case torch::jit::AttributeKind::ss:
  case torch::jit::AttributeKind::ts:
  case torch::jit::AttributeKind::gs:
    break;
  }
  return fmt::format("{}=<{}>", name, torch::jit::toString(node->kindOf(symbol)));
}

/// Turns `prim::Constant[json=...]` into the constants that they stand for.
llvm::Error fillConstants(Block *block) {
  const c10::Symbol key = c10::Symbol::attr(kJson);
  for (Node *node : block->nodes()) {
    for (Block *inner : node->blocks())
      TRY(fillConstants(inner));
    if (node->kind() != c10::prim::Constant || !node->hasAttribute(key))
      continue;
    llvm::Expected<llvm::json::Value> json = llvm::json::parse(node->s(key));
    if (!json)
      return makeError(ExitCode::Unreadable, "constant: " + llvm::toString(json.takeError()));
    c10::IValue value = TRY(valueFromJson(*json, node->output()->type()));
    node->removeAttribute(key);
    const c10::Symbol attr = c10::attr::value;
    if (value.isDouble())
      node->f_(attr, value.toDouble());
    else if (value.isComplexDouble())
      node->c_(attr, value.toComplexDouble());
    else if (value.isString())
      node->s_(attr, value.toStringRef());
    else if (value.isTensor())
      node->t_(attr, value.toTensor());
    else
      node->ival_(attr, value);
  }
  return llvm::Error::success();
}

/// The text without comment lines and common indentation, which the lexer would take for a nested
/// block.
std::string dedented(llvm::StringRef text) {
  size_t margin = llvm::StringRef::npos;
  std::string out;
  for (llvm::StringRef line : llvm::split(text, '\n')) {
    const llvm::StringRef trimmed = line.trim();
    if (trimmed.empty() || startsWith(trimmed, "#"))
      continue;
    if (margin == llvm::StringRef::npos)
      margin = line.size() - line.ltrim(' ').size();
    out += line.drop_front(std::min(margin, line.size())).str() + "\n";
  }
  return out;
}

/// Comments `# in enc.fc1` of the lines that hold a node, in order; empty for nodes without one.
std::vector<llvm::StringRef> scopeComments(llvm::StringRef text) {
  std::vector<llvm::StringRef> scopes;
  bool inHeader = true;
  for (llvm::StringRef line : llvm::split(text, '\n')) {
    const llvm::StringRef content = line.trim();
    if (content.empty() || startsWith(content, "#"))
      continue;
    const bool isNode = !inHeader && !startsWith(content, "->") &&
                        !startsWith(content, "return (") &&
                        !(startsWith(content, "block") && endsWith(content, "):"));
    inHeader = inHeader && !endsWith(content, "):");
    if (isNode)
      scopes.push_back(content.contains(kScopeComment) ? content.rsplit(kScopeComment).second.trim()
                                                       : "");
  }
  return scopes;
}

/// Nodes are in the text in the order of this walk.
void setScopes(Block *block, llvm::ArrayRef<llvm::StringRef> &scopes) {
  for (Node *node : block->nodes()) {
    if (scopes.empty())
      return;
    if (!scopes.front().empty())
      setModulePath(node, scopes.front().str());
    scopes = scopes.drop_front();
    for (Block *inner : node->blocks())
      setScopes(inner, scopes);
  }
}

/// Line of the first class type in the text that is no registered custom class; 0: none.
size_t lineOfClassType(llvm::StringRef text, std::string &type) {
  size_t line = 0;
  for (llvm::StringRef content : llvm::split(text, '\n')) {
    ++line;
    if (startsWith(content.trim(), "#"))
      continue;
    for (size_t at = content.find("__torch__."); at != llvm::StringRef::npos;
         at = content.find("__torch__.", at + 1)) {
      const llvm::StringRef name = content.drop_front(at).take_while(
          [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
      if (startsWith(name, "__torch__.torch.classes."))
        continue;
      type = name.str();
      return line;
    }
  }
  return 0;
}

} // namespace

void printGraph(const Graph &graph, llvm::raw_ostream &os, unsigned indent, bool scopes,
                const std::vector<std::string> &inputNames) {
  GraphPrinter(os, scopes).print(graph, indent, inputNames);
}

llvm::Expected<std::shared_ptr<Graph>> parseGraph(llvm::StringRef text, size_t firstLine) {
  std::string type;
  if (const size_t line = lineOfClassType(text, type))
    return refuseWith(Refusal::TypeOfModel, fmt::format("line {}", firstLine + line - 1), type);
  // A failed parse leaves the graph half built: a fresh one each time.
  auto graph = std::make_shared<Graph>();
  const std::string source = dedented(text);
  TRY(guardTorchVoid(ExitCode::Unreadable, fmt::format("graph at line {}", firstLine),
                     [&] { torch::jit::parseIR(source, graph.get()); }));
  if (llvm::Error error = fillConstants(graph->block()))
    return withContext(std::move(error), fmt::format("graph at line {}", firstLine));
  const std::vector<llvm::StringRef> scopes = scopeComments(text);
  llvm::ArrayRef<llvm::StringRef> rest = scopes;
  setScopes(graph->block(), rest);
  return graph;
}

GraphEnds endsOf(const Graph &graph) {
  GraphEnds ends;
  for (const Value *value : graph.inputs())
    ends.inputs.emplace_back(value->debugName(), value->type()->annotation_str());
  for (const Value *value : graph.outputs())
    ends.outputs.push_back(value->type()->annotation_str());
  return ends;
}

llvm::Expected<c10::TypePtr> typeFromText(llvm::StringRef text) {
  return guardTorch(ExitCode::Unreadable, fmt::format("type {}", text.str()),
                    [&] { return torch::jit::ScriptTypeParser().parseType(text.str()); });
}

} // namespace pipec
