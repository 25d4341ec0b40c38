#include "ir/text/PlanText.h"

#include "ir/plan/PlanNames.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/ranges.h>

namespace pipec {

namespace {

PortRef parsePort(TextLine &line, llvm::StringRef text) {
  PortRef port;
  const auto [stage, index] = text.split(':');
  if (stage.getAsInteger(10, port.stage) || index.getAsInteger(10, port.port))
    line.complain("expected a port STAGE:PORT, got " + text.str());
  return port;
}

} // namespace

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
