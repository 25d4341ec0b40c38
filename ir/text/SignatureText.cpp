#include "ir/text/SignatureText.h"

#include "ir/plan/PlanNames.h"
#include "ir/support/Json.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/ranges.h>

namespace pipec {

namespace {

std::optional<std::vector<Dim>> parseDims(TextLine &line, llvm::StringRef text) {
  const std::optional<std::vector<std::string>> parts = splitList(text);
  if (!parts)
    return std::nullopt;
  std::vector<Dim> dims;
  for (const std::string &part : *parts) {
    llvm::Expected<Dim> dim = parseDim(part);
    if (!dim) {
      line.complain(describe(dim.takeError()).message);
      return std::nullopt;
    }
    dims.push_back(*dim);
  }
  return dims;
}

std::string dimsText(llvm::ArrayRef<Dim> dims) {
  std::vector<std::string> parts;
  for (const Dim &dim : dims)
    parts.push_back(toString(dim));
  return "[" + llvm::join(parts, ",") + "]";
}

MergeRule parseMerge(TextLine &line, llvm::StringRef text) {
  const std::optional<MergeRule> rule = parseMergeRule(text);
  if (!rule)
    line.complain("merge: expected concat:DIM, join, same, list, mean or sum, got " + text.str());
  return rule.value_or(MergeRule{});
}

OutputTree parseTreeText(TextLine &line, llvm::StringRef text);

/// Children of the brackets in `inside`; `separator` splits a key from its child.
void parseChildren(TextLine &line, llvm::StringRef inside, char separator, OutputTree &tree) {
  for (llvm::StringRef part : splitOutsideBrackets(inside, ',')) {
    if (part.empty())
      continue; // the comma of a one-tuple
    const std::vector<llvm::StringRef> halves = splitOutsideBrackets(part, separator);
    if (halves.size() == 2) {
      llvm::Expected<llvm::json::Value> key = llvm::json::parse(halves[0]);
      const bool isText = key && key->getAsString();
      tree.keys.push_back(isText ? key->getAsString()->str() : halves[0].str());
      if (!key)
        llvm::consumeError(key.takeError());
    }
    tree.children.push_back(parseTreeText(line, halves.empty() ? part : halves.back()));
  }
}

OutputTree parseTreeText(TextLine &line, llvm::StringRef text) {
  OutputTree tree;
  if (!text.getAsInteger(10, tree.leaf))
    return tree;
  tree.leaf = 0;
  const size_t open = text.find_first_of("([{");
  if (open == llvm::StringRef::npos || text.size() < open + 2) {
    line.complain("outputs: expected the number of an output or a bracket, got " + text.str());
    return tree;
  }
  const llvm::StringRef inside = text.slice(open + 1, text.size() - 1);
  switch (text[open]) {
  case '[':
    tree.kind = OutputTree::Kind::List;
    parseChildren(line, inside, '\0', tree);
    break;
  case '{':
    tree.kind = OutputTree::Kind::Dict;
    parseChildren(line, inside, ':', tree);
    break;
  case '(':
    tree.kind = OutputTree::Kind::Tuple;
    tree.typeName = text.take_front(open).str();
    parseChildren(line, inside, '=', tree);
    break;
  }
  return tree;
}

std::string childrenText(const OutputTree &tree, bool jsonKeys, const char *separator) {
  std::string out;
  for (size_t i = 0; i < tree.children.size(); ++i) {
    out += i ? ", " : "";
    if (i < tree.keys.size())
      out += (jsonKeys ? jsonText(llvm::json::fixUTF8(tree.keys[i])) : tree.keys[i]) + separator;
    out += treeText(tree.children[i]);
  }
  return out;
}

} // namespace

std::string parseType(TextLine &line) {
  line.expect(":");
  return line.word("a type");
}

std::string listText(llvm::ArrayRef<std::string> words) {
  std::vector<std::string> parts;
  for (const std::string &word : words)
    parts.push_back(quotedWord(word));
  return "[" + llvm::join(parts, ",") + "]";
}

std::string listText(llvm::ArrayRef<size_t> indices) {
  return fmt::format("[{}]", fmt::join(indices.begin(), indices.end(), ","));
}

std::string specText(const TensorSpec &spec) {
  if (!spec.known)
    return "";
  return fmt::format(" tensor={}{} strides={}{} bytes={}", spec.dtype, dimsText(spec.shape),
                     dimsText(spec.strides), flagText("requires_grad", spec.requiresGrad),
                     spec.bytes);
}

TensorSpec parseSpec(TextLine &line) {
  TensorSpec spec;
  const std::optional<std::string> head = line.key("tensor");
  if (!head)
    return spec;
  const llvm::StringRef text = *head;
  const size_t open = text.find('[');
  const std::optional<std::vector<Dim>> shape =
      open == llvm::StringRef::npos ? std::nullopt : parseDims(line, text.drop_front(open));
  const std::optional<std::vector<Dim>> strides =
      parseDims(line, line.key("strides").value_or("[]"));
  if (!shape || !strides) {
    line.complain("tensor: expected DTYPE[SIZES] and strides=[...], got " + text.str());
    return spec;
  }
  spec.known = true;
  spec.dtype = text.take_front(open).str();
  spec.shape = *shape;
  spec.strides = *strides;
  spec.requiresGrad = line.flag("requires_grad");
  spec.bytes = line.integerKey("bytes").value_or(0);
  return spec;
}

/// {"mask":null,"x":0}
std::string partsText(const std::vector<PartDim> &parts) {
  llvm::json::Object object;
  for (const PartDim &part : parts)
    object[part.path] = part.dim ? llvm::json::Value(*part.dim) : llvm::json::Value(nullptr);
  return jsonText(llvm::json::Value(std::move(object)));
}

std::vector<PartDim> parseParts(TextLine &line, const std::string &text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  const llvm::json::Object *object = value ? value->getAsObject() : nullptr;
  std::vector<PartDim> parts;
  if (!object)
    line.complain("parts: expected an object of batch dimensions by path, got " + text);
  else
    for (const auto &entry : *object) {
      std::optional<int64_t> dim;
      if (const auto number = entry.second.getAsInteger())
        dim = *number;
      if (!dim && !entry.second.getAsNull())
        line.complain("parts: expected a batch dimension or null for each path, got " + text);
      parts.push_back({llvm::StringRef(entry.first).str(), dim});
    }
  llvm::consumeError(value.takeError()); // reported by complain()
  llvm::sort(parts, [](const PartDim &a, const PartDim &b) { return a.path < b.path; });
  return parts;
}

std::string inputText(const InputSpec &input) {
  std::string out = fmt::format("input {} : {}", quotedWord(input.name), input.type);
  if (input.batchDim)
    out += fmt::format(" batch_dim={}", *input.batchDim);
  if (!input.parts.empty())
    out += " parts=" + partsText(input.parts);
  if (input.defaultValue)
    out += " default=" + jsonText(*input.defaultValue);
  return out + flagText("given_whole", input.givenWhole) + flagText("written", input.written) +
         specText(input.tensor);
}

InputSpec parseInput(TextLine &line) {
  InputSpec input;
  input.name = line.word("the name of an input");
  input.type = parseType(line);
  input.batchDim = line.integerKey("batch_dim");
  if (const std::optional<std::string> text = line.rawKey("parts"))
    input.parts = parseParts(line, *text);
  if (const std::optional<std::string> text = line.rawKey("default")) {
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(*text);
    if (value)
      input.defaultValue = std::move(*value);
    else
      line.complain("default: " + llvm::toString(value.takeError()));
  }
  input.givenWhole = line.flag("given_whole");
  input.written = line.flag("written");
  input.tensor = parseSpec(line);
  return input;
}

std::string treeText(const OutputTree &tree) {
  switch (tree.kind) {
  case OutputTree::Kind::Leaf:
    return std::to_string(tree.leaf);
  case OutputTree::Kind::List:
    return "[" + childrenText(tree, false, "") + "]";
  case OutputTree::Kind::Dict:
    return "{" + childrenText(tree, true, ": ") + "}";
  case OutputTree::Kind::Tuple:
    return tree.typeName + "(" + childrenText(tree, false, "=") +
           (tree.children.size() == 1 ? ",)" : ")");
  }
  return "";
}

OutputTree parseTree(TextLine &line) {
  return parseTreeText(line, line.word("the tree of outputs"));
}

std::string leafText(const OutputLeaf &leaf, size_t index) {
  return fmt::format("output {} : {} merge={}{}", index, leaf.type, toString(leaf.merge),
                     specText(leaf.tensor));
}

OutputLeaf parseLeaf(TextLine &line, size_t expectedIndex) {
  OutputLeaf leaf;
  const size_t index = line.index("the number of an output");
  if (index != expectedIndex)
    line.complain(fmt::format("output {}: outputs are listed in order, expected output {}", index,
                              expectedIndex));
  leaf.type = parseType(line);
  leaf.merge = parseMerge(line, line.key("merge").value_or("list"));
  leaf.tensor = parseSpec(line);
  return leaf;
}

std::string batchText(const Signature &signature) {
  if (signature.batchSymbolic && signature.batchSize == 0)
    return "";
  return fmt::format("batch size={}{}", signature.batchSize,
                     flagText("fixed", !signature.batchSymbolic));
}

void parseBatch(TextLine &line, Signature &signature) {
  signature.batchSize = line.integerKey("size").value_or(0);
  signature.batchSymbolic = !line.flag("fixed");
}

} // namespace pipec
