#include "ir/text/CanonicalText.h"

#include "ir/MarkerOps.h"
#include "ir/NodeInfo.h"
#include "ir/WholeNumbers.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Sha256.h"
#include "ir/support/StringSwitch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// Text of a graph that a node holds. Its inputs have names; all else is written as in a model.
std::string graphText(const torch::jit::Graph &graph) {
  CanonicalWriter writer;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    writer.name(const_cast<Value *>(graph.inputs()[i]), fmt::format("input {}", i));
  for (const Node *node : graph.nodes())
    writer.write(const_cast<Node *>(node));
  std::string text = "{" + llvm::join(writer.lines(), ";") + "; ->";
  for (const Value *output : graph.outputs())
    text += " " + writer.nameOf(const_cast<Value *>(output));
  return text + "}";
}

template <typename List, typename Print>
std::string textsOf(const List &values, const Print &print) {
  std::string text;
  for (const auto &value : values)
    text += print(value) + ",";
  return "[" + text + "]";
}

/// A quote inside the text does not end it.
std::string inQuotes(llvm::StringRef text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + '"';
}

/// Every kind has a text that distinguishes its values. The switch has no default, so a new kind of
/// a later LibTorch does not compile until it has a text.
std::string attributeText(Node *node, c10::Symbol name) {
  using Kind = torch::jit::AttributeKind;
  auto ofContent = [](const auto &value) { return contentText(c10::IValue(value)); };
  auto ofGraph = [](const std::shared_ptr<torch::jit::Graph> &graph) { return graphText(*graph); };
  auto ofType = [](const c10::TypePtr &type) { return canonicalType(type); };
  switch (node->kindOf(name)) {
  case Kind::s:
    return inQuotes(node->s(name));
  case Kind::ss:
    return textsOf(node->ss(name), ofContent);
  case Kind::i:
    return std::to_string(node->i(name));
  case Kind::is:
    return textsOf(node->is(name), ofContent);
  case Kind::f:
    return fmt::format("{:a}", node->f(name));
  case Kind::fs:
    return textsOf(node->fs(name), ofContent);
  case Kind::c:
    return ofContent(node->c(name));
  case Kind::cs:
    return textsOf(node->cs(name), ofContent);
  case Kind::t:
    return ofContent(node->t(name));
  case Kind::ts:
    return textsOf(node->ts(name), ofContent);
  case Kind::g:
    return ofGraph(node->g(name));
  case Kind::gs:
    return textsOf(node->gs(name), ofGraph);
  case Kind::ty:
    return ofType(node->ty(name));
  case Kind::tys:
    return textsOf(node->tys(name), ofType);
  case Kind::ival:
    return contentText(node->ival(name), Detail::Exact);
  }
  llvm_unreachable("covered switch");
}

/// Expressions grow with their operands, so long ones are replaced by their digest.
std::string shortened(const std::string &expression) {
  constexpr size_t kLimit = 120;
  if (expression.size() <= kLimit)
    return expression;
  return expression.substr(0, expression.find('(')) + "#" + sha256Hex(expression).substr(0, 32);
}

/// Equal texts have one number; numbers are in the order of the texts.
std::vector<size_t> ranksOf(const std::vector<std::string> &texts) {
  std::vector<std::string> sorted = texts;
  llvm::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<size_t> ranks;
  for (const std::string &text : texts)
    ranks.push_back(llvm::lower_bound(sorted, text) - sorted.begin());
  return ranks;
}

size_t countOf(const std::vector<size_t> &ranks) {
  return ranks.empty() ? 0 : *std::max_element(ranks.begin(), ranks.end()) + 1;
}

} // namespace

struct CanonicalWriter::Impl {
  // Looked up by pointer only.
  std::unordered_map<Value *, std::string> names, constants;
  std::vector<std::string> lines;
  std::vector<Node *> nodes; // of each line; null for one that no node wrote
  size_t next = 0;
  std::string indent;

  std::string fresh(Value *value) { return names[value] = "%" + std::to_string(next++); }

  std::string operationOf(Node *node) {
    std::string text = node->kind().toQualString();
    if (const torch::jit::Operator *op = node->maybeOperator())
      text += "." + op->schema().overload_name();
    std::vector<c10::Symbol> attributes = node->attributeNames();
    llvm::sort(attributes, [](c10::Symbol a, c10::Symbol b) {
      return llvm::StringRef(a.toUnqualString()) < llvm::StringRef(b.toUnqualString());
    });
    for (c10::Symbol attribute : attributes)
      if (attribute != c10::attr::Subgraph && !isWarningNumber(attribute))
        text += std::string("[") + attribute.toUnqualString() + "=" +
                attributeText(node, attribute) + "]";
    return text;
  }

  std::string rightHandSide(Node *node, CanonicalWriter &writer) {
    std::vector<std::string> inputs;
    for (Value *input : node->inputs())
      inputs.push_back(writer.nameOf(input));
    return operationOf(node) + "(" + llvm::join(inputs, ", ") + ")";
  }

  void writeBlock(Block &block, CanonicalWriter &writer) {
    std::string head = indent + "  block(";
    for (Value *input : block.inputs())
      head += fresh(input) + ": " + canonicalType(input->type()) + ", ";
    lines.push_back(head + ")");
    writeBody(block, writer);
    std::string tail = indent + "  ->";
    for (Value *output : block.outputs())
      tail += " " + writer.nameOf(output);
    lines.push_back(tail);
  }

  void writeBody(Block &block, CanonicalWriter &writer) {
    std::string saved = indent;
    indent += "  ";
    for (Node *node : block.nodes())
      writer.write(node);
    indent = saved;
  }

  /// LibTorch's parser orders the results of an If by first use. That order differs between a stage
  /// and the whole model, so the results are sorted by what the branches return. Results for which
  /// both branches return the same are one result.
  void writeIf(Node *node, const std::string &right, CanonicalWriter &writer) {
    const size_t header = beginNode(node), first = next;
    next += node->outputs().size();
    std::vector<std::string> texts(node->outputs().size());
    std::vector<size_t> tails;
    for (Block *block : node->blocks()) {
      lines.push_back(indent + "  block()");
      writeBody(*block, writer);
      tails.push_back(lines.size());
      lines.emplace_back();
      for (size_t i = 0; i < texts.size(); ++i)
        texts[i] += writer.nameOf(block->outputs()[i]) + " ";
    }
    for (size_t i = 0; i < texts.size(); ++i)
      texts[i] += canonicalType(node->outputs()[i]->type());
    const std::vector<size_t> ranks = ranksOf(texts);
    lines[header] = indent + declared(node->outputs(), ranks, first) + "= " + right;
    for (size_t b = 0; b < tails.size(); ++b)
      lines[tails[b]] =
          indent + "  ->" + namesByRank(node->blocks()[b]->outputs(), ranks, writer, " ");
  }

  /// The same for carried values of a loop. Two carried values are one if they begin as the same
  /// value and every iteration makes the same value of both.
  void writeLoop(Node *node, const std::string &operation, CanonicalWriter &writer) {
    Block &body = *node->blocks()[0];
    at::ArrayRef<Value *> results = node->outputs(), begins = node->inputs(),
                          carried = body.inputs(), given = body.outputs();
    begins = begins.slice(2), carried = carried.slice(1), given = given.slice(1);
    const std::vector<size_t> ranks = carriedRanks(body, begins, writer);
    const size_t header = beginNode(node);
    const std::string left = declared(results, ranks, next);
    next += results.size();
    lines[header] = indent + left + "= " + operation + "(" + writer.nameOf(node->input(0)) + ", " +
                    writer.nameOf(node->input(1)) + namesByRank(begins, ranks, writer, ", ") + ")";
    std::string head = indent + "  block(" + fresh(body.inputs()[0]) + ": int, ";
    lines.push_back(head + declared(carried, ranks, next) + ")");
    next += carried.size();
    writeBody(body, writer);
    lines.push_back(indent + "  -> " + writer.nameOf(body.outputs()[0]) +
                    namesByRank(given, ranks, writer, " "));
  }

  /// At first, values with the same initial value are one. Rounds of writing the body separate
  /// those for which it returns different values, until no more differ.
  std::vector<size_t> carriedRanks(Block &body, at::ArrayRef<Value *> begins,
                                   CanonicalWriter &writer) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < begins.size(); ++i)
      texts.push_back(writer.nameOf(begins[i]) + " " + canonicalType(body.inputs()[i + 1]->type()));
    std::vector<size_t> ranks = ranksOf(texts);
    for (size_t before = 0; before < countOf(ranks) && countOf(ranks) < ranks.size();) {
      before = countOf(ranks);
      const size_t savedNext = next, savedLines = lines.size(), savedNodes = nodes.size();
      fresh(body.inputs()[0]);
      declared(body.inputs().slice(1), ranks, next);
      next += ranks.size();
      writeBody(body, writer);
      for (size_t i = 0; i < ranks.size(); ++i)
        texts[i] = fmt::format("{:08} {}", ranks[i], writer.nameOf(body.outputs()[i + 1]));
      ranks = ranksOf(texts);
      next = savedNext;
      lines.resize(savedLines);
      nodes.resize(savedNodes);
    }
    return ranks;
  }

  /// A line of its own, to be filled in.
  size_t beginNode(Node *node) {
    nodes.resize(lines.size());
    nodes.push_back(node);
    lines.emplace_back();
    return lines.size() - 1;
  }

  /// Names values by their rank, counted from `first`, and lists them.
  std::string declared(at::ArrayRef<Value *> values, const std::vector<size_t> &ranks,
                       size_t first) {
    std::vector<std::string> list(countOf(ranks));
    for (size_t i = 0; i < values.size(); ++i) {
      names[values[i]] = "%" + std::to_string(first + ranks[i]);
      list[ranks[i]] = names[values[i]] + ": " + canonicalType(values[i]->type()) + ", ";
    }
    return llvm::join(list, "");
  }

  static std::string namesByRank(at::ArrayRef<Value *> values, const std::vector<size_t> &ranks,
                                 CanonicalWriter &writer, const char *before) {
    std::vector<std::string> list(countOf(ranks));
    for (size_t i = 0; i < values.size(); ++i)
      list[ranks[i]] = before + writer.nameOf(values[i]);
    return llvm::join(list, "");
  }
};

CanonicalWriter::CanonicalWriter() : impl_(std::make_unique<Impl>()) {}
CanonicalWriter::~CanonicalWriter() = default;

void CanonicalWriter::name(Value *value, std::string text) {
  impl_->names[value] = std::move(text);
}
void CanonicalWriter::line(std::string text) { impl_->lines.push_back(std::move(text)); }
Node *CanonicalWriter::nodeOf(size_t line) const {
  return line < impl_->nodes.size() ? impl_->nodes[line] : nullptr;
}
const std::vector<std::string> &CanonicalWriter::lines() const { return impl_->lines; }

std::string CanonicalWriter::nameOf(Value *value) {
  if (auto known = impl_->names.find(value); known != impl_->names.end())
    return known->second;
  if (value->node()->kind() != c10::prim::Constant)
    return equalToNothing("%undefined");
  std::string &text = impl_->constants[value];
  if (!text.empty())
    return text;
  std::optional<c10::IValue> content = torch::jit::toIValue(value);
  if (content && content->isTensor()) // the text of a tensor is complete without its type
    text = contentText(*content);
  else if (content && content->isNone()) // the same for every Optional type
    text = "None";
  else
    text = canonicalType(value->type()) + " " +
           (content ? contentText(*content, holdsObject(*content) ? Detail::Exact : Detail::Digest)
                    : impl_->operationOf(value->node()));
  return text;
}

void CanonicalWriter::write(Node *node) {
  // Boundaries only separate stages; they compute nothing.
  if (node->kind() == c10::prim::Constant || node->kind() == cutSymbol())
    return;
  if (node->kind() == c10::prim::Loop)
    return impl_->writeLoop(node, impl_->operationOf(node), *this);
  std::string right = impl_->rightHandSide(node, *this);
  if (node->kind() == c10::prim::If)
    return impl_->writeIf(node, right, *this);
  if (isWholeNumberOp(node)) {
    // A value without content is named by its type, its only property.
    impl_->names[node->output()] = node->kind() == c10::prim::Uninitialized
                                       ? right + " : " + canonicalType(node->output()->type())
                                       : shortened(right);
    return;
  }
  std::string left;
  for (Value *output : node->outputs())
    left += impl_->fresh(output) + ": " + canonicalType(output->type()) + ", ";
  impl_->lines[impl_->beginNode(node)] = impl_->indent + left + "= " + right;
  for (Block *block : node->blocks())
    impl_->writeBlock(*block, *this);
  if (node->hasAttribute(c10::attr::Subgraph))
    impl_->writeBlock(*node->g(c10::attr::Subgraph)->block(), *this);
}

namespace {

void writeModel(const Model &model, CanonicalWriter &writer) {
  size_t arguments = model.argumentCount();
  for (size_t i = 0; i < arguments; ++i)
    writer.name(model.graph->inputs()[i], "input " + model.signature.inputs[i].name);
  for (size_t i = 0; i < model.attributes.size(); ++i) {
    const Attribute &attribute = model.attributes[i];
    writer.name(model.graph->inputs()[arguments + i], attribute.kind == AttributeKind::Constant
                                                          ? contentText(attribute.value)
                                                          : "attribute " + attribute.name);
  }
  for (Node *node : model.graph->nodes())
    writer.write(node);
  size_t leaves = model.signature.leaves.size();
  for (size_t i = 0; i < leaves; ++i)
    writer.line(fmt::format("output {} = {}", i, writer.nameOf(model.graph->outputs()[i])));
  for (size_t i = 0; i < model.stateOutputs.size(); ++i)
    writer.line("state " + model.attributes[model.stateOutputs[i]].name + " = " +
                writer.nameOf(model.graph->outputs()[leaves + i]));
}

} // namespace

std::vector<std::string> canonicalLines(const Model &model) {
  CanonicalWriter writer;
  writeModel(model, writer);
  return writer.lines();
}

std::vector<std::string> canonicalNames(const Model &model, llvm::ArrayRef<Value *> values) {
  CanonicalWriter writer;
  writeModel(model, writer);
  std::vector<std::string> names;
  for (Value *value : values)
    names.push_back(value ? writer.nameOf(value) : "");
  return names;
}

std::string describeLine(const Model &model, size_t line) {
  CanonicalWriter writer;
  writeModel(model, writer);
  Node *node = writer.nodeOf(line);
  return node ? describeNode(node) : "";
}

std::string attributeLine(const std::string &name, AttributeKind kind, const std::string &content) {
  return name + " " + toString(kind).str() + " " + content;
}

std::string contentDigest(const std::vector<std::string> &lines,
                          std::vector<std::string> attributeLines) {
  llvm::sort(attributeLines);
  Sha256 hash;
  for (const std::vector<std::string> *part :
       {&lines, static_cast<const std::vector<std::string> *>(&attributeLines)})
    for (const std::string &text : *part) {
      hash.update(text);
      hash.update("\n");
    }
  return "sha256:" + hash.hex();
}

} // namespace pipec
