#include "ir/CanonicalText.h"

#include "ir/MarkerOps.h"
#include "ir/NodeInfo.h"
#include "ir/TensorBytes.h"
#include "ir/WholeNumbers.h"
#include "ir/plan/Sha256.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <fmt/ranges.h>

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <sstream>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

std::string sequenceText(llvm::ArrayRef<c10::IValue> values, char open, char close) {
  std::string text(1, open);
  for (const c10::IValue &value : values)
    text += contentText(value) + ",";
  return text + close;
}

std::string tensorText(const at::Tensor &tensor) {
  return tensor.defined() ? contentText(tensor, tensorDigest(tensor)) : "undefined";
}

std::string attributeText(Node *node, c10::Symbol name) {
  switch (node->kindOf(name)) {
  case torch::jit::AttributeKind::s:
    return "\"" + node->s(name) + "\"";
  case torch::jit::AttributeKind::i:
    return std::to_string(node->i(name));
  case torch::jit::AttributeKind::f:
    return fmt::format("{:a}", node->f(name));
  case torch::jit::AttributeKind::ty:
    return canonicalType(node->ty(name));
  case torch::jit::AttributeKind::tys: {
    std::string text;
    for (const c10::TypePtr &type : node->tys(name))
      text += canonicalType(type) + ",";
    return "[" + text + "]";
  }
  case torch::jit::AttributeKind::ival:
    return contentText(node->ival(name));
  default: {
    std::ostringstream os;
    os << "?" << static_cast<int>(node->kindOf(name));
    return os.str();
  }
  }
}

/// Expressions grow with what they are made of: long ones by their digest.
std::string shortened(const std::string &expression) {
  constexpr size_t kLimit = 120;
  if (expression.size() <= kLimit)
    return expression;
  return expression.substr(0, expression.find('(')) + "#" + sha256Hex(expression).substr(0, 32);
}

bool isWhole(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::BoolType:
    return true;
  case c10::TypeKind::ListType:
    return isWhole(*type.containedTypes()[0]);
  default:
    return false;
  }
}

/// A list that somebody fills or changes is an object, not a value. All its writers are in the
/// stage that makes it.
bool isChanged(Value *value) {
  return llvm::any_of(value->uses(), [](const torch::jit::Use &use) {
    const c10::FunctionSchema *schema = use.user->maybeSchema();
    if (!schema || use.offset >= schema->arguments().size())
      return false;
    const c10::AliasInfo *alias = schema->arguments()[use.offset].alias_info();
    return alias && alias->isWrite();
  });
}

} // namespace

std::string canonicalType(const c10::TypePtr &type) {
  return canonicalType(type->annotation_str());
}

std::string canonicalType(llvm::StringRef text) {
  std::string result;
  constexpr llvm::StringRef kMangle = "___torch_mangle_";
  for (size_t at = text.find(kMangle); at != llvm::StringRef::npos; at = text.find(kMangle)) {
    result += text.take_front(at).str();
    text = text.drop_front(at + kMangle.size()).drop_while([](char c) { return llvm::isDigit(c); });
    text.consume_front(".");
  }
  return result + text.str();
}

bool isWholeNumberOp(Node *node) {
  if (node->kind() == c10::prim::Uninitialized)
    return true;
  if (!node->blocks().empty() || node->outputs().size() != 1 || !isWhole(*node->output()->type()) ||
      isChanged(node->output()))
    return false;
  bool exact = llvm::StringSwitch<bool>(node->kind().toQualString())
                   .Cases("aten::size", "aten::len", "aten::dim", "prim::ListConstruct",
                          "aten::__getitem__", true)
                   .Cases("aten::add", "aten::sub", "aten::mul", "aten::floordiv", "aten::neg",
                          "aten::remainder", true)
                   .Cases("aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge",
                          "aten::__not__", true)
                   .Cases("prim::min", "prim::max", "aten::__and__", "aten::__or__", true)
                   .Default(false);
  if (!exact)
    return false;
  bool readsShape = node->kind() == c10::aten::size || node->kind() == c10::aten::len ||
                    node->kind() == c10::aten::dim;
  return llvm::all_of(node->inputs(), [&](Value *input) {
    return isWhole(*input->type()) ||
           (readsShape && input->type()->kind() == c10::TypeKind::TensorType);
  });
}

std::string contentText(const at::Tensor &tensor, const std::string &digest) {
  std::string strides = tensor.layout() == at::kStrided && tensor.has_storage()
                            ? fmt::format("[{}]", fmt::join(tensor.strides(), ","))
                            : "opaque";
  return fmt::format("tensor({} [{}] {}{} {})", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ","), strides,
                     tensor.requires_grad() ? " requires_grad" : "", digest);
}

std::string contentText(const c10::IValue &value) {
  if (value.isDouble()) // every bit counts: -0.0 and denormals included
    return fmt::format("{:a}", value.toDouble());
  if (value.isString())
    return "\"" + llvm::toHex(value.toStringRef()) + "\"";
  if (value.isTensor())
    return tensorText(value.toTensor());
  if (value.isComplexDouble())
    return fmt::format("{:a}{:+a}j", value.toComplexDouble().real(),
                       value.toComplexDouble().imag());
  if (value.isTuple())
    return sequenceText(value.toTupleRef().elements().vec(), '(', ')');
  if (value.isList())
    return sequenceText(value.toListRef().vec(), '[', ']');
  if (value.isGenericDict()) {
    std::vector<c10::IValue> items;
    for (const auto &item : value.toGenericDict()) {
      items.push_back(item.key());
      items.push_back(item.value());
    }
    return sequenceText(items, '{', '}');
  }
  if (value.isObject() || value.isCapsule()) // their content is the writer's and reader's business
    return "object " + canonicalType(value.type());
  std::ostringstream os;
  os << value;
  return os.str();
}

struct CanonicalWriter::Impl {
  // Looked up by pointer only.
  std::unordered_map<Value *, std::string> names, constants;
  std::vector<std::string> lines;
  std::vector<Node *> nodes; // of each line; null for one that no node wrote
  size_t next = 0;
  std::string indent;

  std::string fresh(Value *value) { return names[value] = "%" + std::to_string(next++); }

  std::string rightHandSide(Node *node, CanonicalWriter &writer) {
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
    std::vector<std::string> inputs;
    for (Value *input : node->inputs())
      inputs.push_back(writer.nameOf(input));
    return text + "(" + llvm::join(inputs, ", ") + ")";
  }

  void writeBlock(Block &block, CanonicalWriter &writer) {
    std::string saved = indent;
    indent += "  ";
    std::string head = indent + "block(";
    for (Value *input : block.inputs())
      head += fresh(input) + ": " + canonicalType(input->type()) + ", ";
    lines.push_back(head + ")");
    for (Node *node : block.nodes())
      writer.write(node);
    std::string tail = indent + "->";
    for (Value *output : block.outputs())
      tail += " " + writer.nameOf(output);
    lines.push_back(tail);
    indent = saved;
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
    return "%undefined";
  std::string &text = impl_->constants[value];
  if (!text.empty())
    return text;
  std::optional<c10::IValue> content = torch::jit::toIValue(value);
  if (content && content->isTensor()) // a tensor says all about itself
    text = contentText(*content);
  else if (content && content->isNone()) // whatever Optional it is the None of
    text = "None";
  else
    text = canonicalType(value->type()) + " " + (content ? contentText(*content) : "?");
  return text;
}

void CanonicalWriter::write(Node *node) {
  // Boundaries say where stages meet, not what is computed.
  if (node->kind() == c10::prim::Constant || node->kind() == cutSymbol())
    return;
  std::string right = impl_->rightHandSide(node, *this);
  if (isWholeNumberOp(node)) {
    // What has no value is named by its type: nothing else tells two of them apart.
    impl_->names[node->output()] = node->kind() == c10::prim::Uninitialized
                                       ? right + " : " + canonicalType(node->output()->type())
                                       : shortened(right);
    return;
  }
  std::string left;
  for (Value *output : node->outputs())
    left += impl_->fresh(output) + ": " + canonicalType(output->type()) + ", ";
  impl_->nodes.resize(impl_->lines.size());
  impl_->nodes.push_back(node);
  line(impl_->indent + left + "= " + right);
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

void countWholeNumberOps(const Block &block, std::map<std::string, int64_t> &counts) {
  for (const Node *node : block.nodes()) {
    if (isWholeNumberOp(const_cast<Node *>(node)))
      ++counts[node->kind().toQualString()];
    for (const Block *inner : node->blocks())
      countWholeNumberOps(*inner, counts);
  }
}

std::map<std::string, int64_t> countWholeNumberOps(const Model &model) {
  std::map<std::string, int64_t> counts;
  countWholeNumberOps(*model.graph->block(), counts);
  return counts;
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
