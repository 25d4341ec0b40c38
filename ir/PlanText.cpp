#include "ir/PlanText.h"

#include "ir/plan/Json.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/ranges.h>

namespace pipec {
namespace {

/// A type contains blanks only inside brackets, so it is one token.
std::string parseType(TextLine &line) {
  line.expect(":");
  return line.word("a type");
}

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

std::string mergeText(const MergeRule &merge) {
  switch (merge.kind) {
  case MergeRule::Kind::Concat:
    return fmt::format("concat:{}", merge.dim);
  case MergeRule::Kind::Same:
    return "same";
  case MergeRule::Kind::List:
    return "list";
  case MergeRule::Kind::Mean:
    return "mean";
  }
  return "";
}

MergeRule parseMerge(TextLine &line, llvm::StringRef text) {
  if (text == "same")
    return {MergeRule::Kind::Same, 0};
  if (text == "list")
    return {MergeRule::Kind::List, 0};
  if (text == "mean")
    return {MergeRule::Kind::Mean, 0};
  int64_t dim = 0;
  if (!text.consume_front("concat:") || text.getAsInteger(10, dim))
    line.complain("merge: expected concat:DIM, same, list or mean, got " + text.str());
  return {MergeRule::Kind::Concat, dim};
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
    line.complain("outputs: expected a leaf number or a bracket, got " + text.str());
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

PortRef parsePort(TextLine &line, llvm::StringRef text) {
  PortRef port;
  const auto [stage, index] = text.split(':');
  if (stage.getAsInteger(10, port.stage) || index.getAsInteger(10, port.port))
    line.complain("expected a port STAGE:PORT, got " + text.str());
  return port;
}

} // namespace

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

std::string inputText(const InputSpec &input) {
  std::string out = fmt::format("input {} : {}", quotedWord(input.name), input.type);
  if (input.batchDim)
    out += fmt::format(" batch_dim={}", *input.batchDim);
  if (input.defaultValue)
    out += " default=" + jsonText(*input.defaultValue);
  return out + flagText("written", input.written) + specText(input.tensor);
}

InputSpec parseInput(TextLine &line) {
  InputSpec input;
  input.name = line.word("the name of an input");
  input.type = parseType(line);
  input.batchDim = line.integerKey("batch_dim");
  if (const std::optional<std::string> text = line.rawKey("default")) {
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(*text);
    if (value)
      input.defaultValue = std::move(*value);
    else
      line.complain("default: " + llvm::toString(value.takeError()));
  }
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
  return fmt::format("output {} : {} merge={}{}", index, leaf.type, mergeText(leaf.merge),
                     specText(leaf.tensor));
}

OutputLeaf parseLeaf(TextLine &line, size_t expectedIndex) {
  OutputLeaf leaf;
  const size_t index = line.index("the number of an output leaf");
  if (index != expectedIndex)
    line.complain(fmt::format("output {}: leaves are listed in order, expected output {}", index,
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

std::string stageText(const StagePlan &stage, size_t index) {
  std::string out = fmt::format("stage {}", index);
  const auto word = [&](const char *key, const std::string &value) {
    if (!value.empty())
      out += fmt::format(" {}={}", key, quotedWord(value));
  };
  const auto number = [&](const char *key, int64_t value) {
    if (value != 0)
      out += fmt::format(" {}={}", key, value);
  };
  word("file", stage.file);
  word("first", stage.firstModule);
  word("last", stage.lastModule);
  number("nodes", stage.nodes);
  number("parameter_bytes", stage.parameterBytes);
  number("cost_flops", stage.costFlops);
  number("rank", static_cast<int64_t>(stage.rank));
  if (!stage.weightChannelsOut.empty())
    out += " weights_out=" + listText(stage.weightChannelsOut);
  return out;
}

StagePlan parseStage(TextLine &line, size_t expectedIndex) {
  StagePlan stage;
  const size_t index = line.index("the number of a stage");
  if (index != expectedIndex)
    line.complain(fmt::format("stage {}: stages are listed in order, expected stage {}", index,
                              expectedIndex));
  stage.file = line.key("file").value_or("");
  stage.firstModule = line.key("first").value_or("");
  stage.lastModule = line.key("last").value_or("");
  stage.nodes = line.integerKey("nodes").value_or(0);
  stage.parameterBytes = line.integerKey("parameter_bytes").value_or(0);
  stage.costFlops = line.integerKey("cost_flops").value_or(0);
  stage.rank = static_cast<size_t>(line.integerKey("rank").value_or(0));
  stage.weightChannelsOut = line.indexListKey("weights_out");
  return stage;
}

std::string stageInputText(const StageInput &input) {
  return fmt::format("input {} : {} {}={}", quotedWord(input.name), input.type,
                     input.kind == StageInput::Kind::UserInput ? "user" : "channel", input.index);
}

StageInput parseStageInput(TextLine &line) {
  StageInput input;
  input.name = line.word("the name of an input");
  input.type = parseType(line);
  const std::optional<int64_t> user = line.integerKey("user"), channel = line.integerKey("channel");
  if (user.has_value() == channel.has_value())
    line.complain(fmt::format("input {}: expected user=N or channel=N", input.name));
  input.kind = user ? StageInput::Kind::UserInput : StageInput::Kind::Channel;
  input.index = static_cast<size_t>(user ? *user : channel.value_or(0));
  return input;
}

std::string stageOutputText(const StageOutput &output) {
  std::string out = fmt::format("output {} : {}", quotedWord(output.name), output.type);
  if (!output.channels.empty())
    out += " channels=" + listText(output.channels);
  if (!output.leaves.empty())
    out += " leaves=" + listText(output.leaves);
  if (output.state)
    out += fmt::format(" state={}", *output.state);
  return out;
}

StageOutput parseStageOutput(TextLine &line) {
  StageOutput output;
  output.name = line.word("the name of an output");
  output.type = parseType(line);
  output.channels = line.indexListKey("channels");
  output.leaves = line.indexListKey("leaves");
  if (const std::optional<int64_t> state = line.integerKey("state"))
    output.state = static_cast<size_t>(*state);
  return output;
}

std::string stageAttributeText(const StageAttribute &attribute) {
  std::string out = fmt::format("uses {} {} uses={} bytes={}", quotedWord(attribute.name),
                                toString(attribute.kind).str(), attribute.uses, attribute.bytes);
  out += flagText("requires_grad", attribute.requiresGrad) + flagText("written", attribute.written);
  if (attribute.channel)
    out += fmt::format(" channel={}", *attribute.channel);
  if (!attribute.otherNames.empty())
    out += " also=" + listText(attribute.otherNames);
  return out;
}

StageAttribute parseStageAttribute(TextLine &line) {
  StageAttribute attribute;
  attribute.name = line.word("the name of an attribute");
  llvm::Expected<AttributeKind> kind = parseAttributeKind(line.word("the kind of an attribute"));
  if (kind)
    attribute.kind = *kind;
  else
    line.complain(describe(kind.takeError()).message);
  attribute.uses = static_cast<size_t>(line.integerKey("uses").value_or(0));
  attribute.bytes = line.integerKey("bytes").value_or(0);
  attribute.requiresGrad = line.flag("requires_grad");
  attribute.written = line.flag("written");
  if (const std::optional<int64_t> channel = line.integerKey("channel"))
    attribute.channel = static_cast<size_t>(*channel);
  attribute.otherNames = line.listKey("also");
  return attribute;
}

std::string effectsText(const StageEffects &effects) {
  if (effects == StageEffects())
    return "";
  std::string out = "effects";
  if (!effects.randomOps.empty())
    out += fmt::format(" random=[{}]", fmt::join(effects.randomOps, ","));
  if (!effects.stateWrites.empty())
    out += " writes=" + listText(effects.stateWrites);
  return out + flagText("prints", effects.prints) + flagText("raises", effects.raises);
}

StageEffects parseEffects(TextLine &line) {
  StageEffects effects;
  for (const size_t ordinal : line.indexListKey("random"))
    effects.randomOps.push_back(static_cast<int64_t>(ordinal));
  effects.stateWrites = line.listKey("writes");
  effects.prints = line.flag("prints");
  effects.raises = line.flag("raises");
  return effects;
}

std::string channelText(const Channel &channel) {
  std::vector<std::string> to;
  for (const PortRef &port : channel.to)
    to.push_back(fmt::format("{}:{}", port.stage, port.port));
  return fmt::format("channel {} {}:{} -> {} : {}{}{}{}", quotedWord(channel.name),
                     channel.from.stage, channel.from.port, llvm::join(to, ", "), channel.type,
                     flagText("weight", channel.kind == Channel::Kind::Weight),
                     flagText("skip", channel.skip), specText(channel.tensor));
}

Channel parseChannel(TextLine &line) {
  Channel channel;
  channel.name = line.word("the name of a channel");
  channel.from = parsePort(line, line.word("a port"));
  line.expect("->");
  while (!line.atEnd() && !line.skip(":"))
    channel.to.push_back(parsePort(line, llvm::StringRef(line.word("a port")).rtrim(',')));
  channel.type = line.word("a type");
  channel.kind = line.flag("weight") ? Channel::Kind::Weight : Channel::Kind::Activation;
  channel.skip = line.flag("skip");
  channel.tensor = parseSpec(line);
  return channel;
}

std::string tieText(const Tie &tie) {
  return fmt::format("tie {} {} owner={} stages={}", listText(tie.names),
                     tie.mode == Tie::Mode::Transmit ? "transmit" : "replicate", tie.owner,
                     listText(tie.stages));
}

Tie parseTie(TextLine &line) {
  Tie tie;
  const std::string names = line.word("a list of names");
  if (const std::optional<std::vector<std::string>> parts = splitList(names))
    tie.names = *parts;
  else
    line.complain("expected a list of names [a,b], got " + names);
  const std::string mode = line.word("transmit or replicate");
  if (mode != "transmit" && mode != "replicate")
    line.complain("expected transmit or replicate, got " + mode);
  tie.mode = mode == "transmit" ? Tie::Mode::Transmit : Tie::Mode::Replicate;
  tie.owner = static_cast<size_t>(line.integerKey("owner").value_or(0));
  tie.stages = line.indexListKey("stages");
  return tie;
}

} // namespace pipec
