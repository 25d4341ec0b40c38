#include "tools/report/PlanReport.h"

#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {
namespace {

template <typename T, typename F> std::string joined(const std::vector<T> &elements, F toText) {
  std::vector<std::string> texts;
  for (const T &element : elements)
    texts.push_back(toText(element));
  return llvm::join(texts, ",");
}

llvm::json::Object portJson(const PortRef &port) {
  return llvm::json::Object{{"stage", static_cast<int64_t>(port.stage)},
                            {"port", static_cast<int64_t>(port.port)}};
}

llvm::json::Array shapeJson(const TensorSpec &spec) {
  llvm::json::Array array;
  for (const Dim &dim : spec.shape) {
    if (!dim.dynamic && dim.perBatch == 0)
      array.push_back(dim.constant);
    else
      array.push_back(toString(dim));
  }
  return array;
}

void printTable(llvm::raw_ostream &out, const char *heading, const Table &table) {
  if (table.empty())
    return;
  printHeading(out, heading);
  table.print(out);
}

} // namespace

std::string modulesOf(const std::string &first, const std::string &last) {
  if (first.empty())
    return "-";
  return first == last ? first : first + " .. " + last;
}

std::string modulesOf(const StagePlan &stage) {
  return modulesOf(stage.firstModule, stage.lastModule);
}

std::string shapeOf(const TensorSpec &spec) {
  if (!spec.known)
    return "?";
  return spec.dtype + "[" + joined(spec.shape, [](const Dim &dim) { return toString(dim); }) + "]";
}

std::string sizesSentence(const Signature &signature, llvm::ArrayRef<PartSizes> parts) {
  std::vector<std::pair<std::string, std::string>> named; // dimensions, arguments
  auto add = [&](const std::string &name, llvm::ArrayRef<size_t> dims) {
    if (dims.empty())
      return;
    std::vector<std::string> numbers;
    for (size_t dim : dims)
      numbers.push_back(std::to_string(dim));
    const std::string text =
        (dims.size() == 1 ? "dimension " : "dimensions ") + llvm::join(numbers, " and ");
    auto same = llvm::find_if(named, [&](const auto &entry) { return entry.first == text; });
    if (same == named.end())
      named.emplace_back(text, name);
    else
      same->second += ", " + name;
  };
  for (const InputSpec &input : signature.inputs) {
    std::vector<size_t> dims;
    for (size_t d = 0; d < input.tensor.shape.size(); ++d)
      if (input.tensor.shape[d].dynamic)
        dims.push_back(d);
    add(input.name, dims);
  }
  for (const PartSizes &part : parts)
    add(part.name, part.dims);
  std::vector<std::string> texts;
  for (const auto &[dims, names] : named)
    texts.push_back(dims + " of " + names);
  return texts.empty() ? "" : "sizes: " + llvm::join(texts, "; ") + " may differ from run to run";
}

std::string cutText(const InputSpec &input) {
  auto text = [](std::optional<int64_t> dim) {
    return dim ? fmt::format("cut along dimension {}", *dim) : std::string("whole");
  };
  if (input.parts.empty())
    return text(input.batchDim);
  std::string parts;
  for (const PartDim &part : input.parts)
    parts += (parts.empty() ? "" : ", ") + part.path + " " + text(part.dim);
  return parts + (input.batchDim ? ", others " + text(input.batchDim) : "");
}

std::string mergeText(const Signature &signature, const OutputLeaf &leaf) {
  if (!isCut(signature))
    return "one micro-batch";
  switch (leaf.merge.kind) {
  case MergeRule::Kind::Concat:
    return fmt::format("concat along dimension {}", leaf.merge.dim);
  case MergeRule::Kind::Join:
    return leaf.merge.dim == 0 ? "lists joined" : "inner lists joined";
  case MergeRule::Kind::Same:
    return "same in all";
  case MergeRule::Kind::Mean:
    return "mean";
  case MergeRule::Kind::Sum:
    return "sum";
  case MergeRule::Kind::List:
    return "list";
  }
  return "";
}

Table stagesTable(const Plan &plan) {
  int64_t flops = 0;
  for (const StagePlan &stage : plan.stages)
    flops += stage.costFlops;
  Table table({{"stage"},
               {"rank"},
               {"modules"},
               {"nodes", Table::Right},
               {"parameters", Table::Right},
               {"cost", Table::Right}});
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan &stage = plan.stages[i];
    std::string cost =
        flops ? fmt::format("{:.1f} %", 100.0 * double(stage.costFlops) / double(flops)) : "-";
    table.addRow({std::to_string(i), std::to_string(stage.rank), modulesOf(stage),
                  std::to_string(stage.nodes), formatBytes(stage.parameterBytes), cost});
  }
  return table;
}

/// The weight that a channel carries, or null. Its channel has no shape in plans before 1.4.
const StageAttribute *weightOf(const Plan &plan, const Channel &channel) {
  if (channel.kind != Channel::Kind::Weight)
    return nullptr;
  return &plan.stages[channel.from.stage].attributes[channel.from.port];
}

std::optional<int64_t> bytesOf(const Plan &plan, const Channel &channel) {
  if (const StageAttribute *weight = weightOf(plan, channel))
    return weight->bytes;
  return channel.tensor.known ? std::optional(channel.tensor.bytes) : std::nullopt;
}

std::string kindOf(const Plan &plan, const Channel &channel) {
  if (const StageAttribute *weight = weightOf(plan, channel))
    return "weight " + weight->name;
  return channel.skip ? "skip" : "";
}

Table channelsTable(const Plan &plan) {
  Table table(
      {{"channel"}, {"from"}, {"to"}, {"type"}, {"shape"}, {"bytes", Table::Right}, {"kind"}});
  for (const Channel &channel : plan.channels) {
    const std::optional<int64_t> bytes = bytesOf(plan, channel);
    table.addRow({channel.name, std::to_string(channel.from.stage),
                  joined(channel.to, [](const PortRef &to) { return std::to_string(to.stage); }),
                  channel.type,
                  channel.type == "Tensor" && channel.kind == Channel::Kind::Activation
                      ? shapeOf(channel.tensor)
                      : "-",
                  bytes ? formatBytes(*bytes) : "-", kindOf(plan, channel)});
  }
  return table;
}

Table tiesTable(const Plan &plan) {
  Table table({{"weights"}, {"stages"}, {"kept by"}, {"owner", Table::Right}});
  for (const Tie &tie : plan.ties)
    table.addRow({llvm::join(tie.names, ", "),
                  joined(tie.stages, [](size_t stage) { return std::to_string(stage); }),
                  toString(tie.mode).str(), std::to_string(tie.owner)});
  return table;
}

Table inputsTable(const Signature &signature) {
  Table table({{"input"}, {"type"}, {"shape"}, {"given to a micro-batch"}, {"optional"}});
  for (const InputSpec &input : signature.inputs)
    table.addRow({input.name, input.type, input.tensor.known ? shapeOf(input.tensor) : "-",
                  cutText(input), input.defaultValue ? "yes" : ""});
  return table;
}

Table outputsTable(const Signature &signature) {
  const std::vector<std::string> paths = outputPaths(signature);
  Table table({{"result"}, {"type"}, {"shape"}, {"merged by"}});
  for (size_t l = 0; l < signature.leaves.size(); ++l) {
    const OutputLeaf &leaf = signature.leaves[l];
    table.addRow({paths[l], leaf.type, leaf.tensor.known ? shapeOf(leaf.tensor) : "-",
                  mergeText(signature, leaf)});
  }
  return table;
}

void printStages(llvm::raw_ostream &out, const Plan &plan) {
  printTable(out, "stages", stagesTable(plan));
}
void printChannels(llvm::raw_ostream &out, const Plan &plan) {
  printTable(out, "channels", channelsTable(plan));
}
void printTies(llvm::raw_ostream &out, const Plan &plan) {
  printTable(out, "ties", tiesTable(plan));
}

llvm::json::Array stagesJson(const Plan &plan) {
  llvm::json::Array stages;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan &stage = plan.stages[i];
    llvm::json::Object entry{{"index", static_cast<int64_t>(i)},
                             {"rank", static_cast<int64_t>(stage.rank)},
                             {"nodes", stage.nodes},
                             {"modules", llvm::json::Array{stage.firstModule, stage.lastModule}},
                             {"parameter_bytes", stage.parameterBytes}};
    if (stage.costFlops)
      entry["cost_flops"] = stage.costFlops;
    stages.push_back(std::move(entry));
  }
  return stages;
}

llvm::json::Array channelsJson(const Plan &plan) {
  llvm::json::Array channels;
  for (const Channel &channel : plan.channels) {
    llvm::json::Array to;
    for (const PortRef &port : channel.to)
      to.push_back(portJson(port));
    llvm::json::Object entry{{"name", channel.name},           {"kind", toString(channel.kind)},
                             {"from", portJson(channel.from)}, {"to", std::move(to)},
                             {"type", channel.type},           {"skip", channel.skip}};
    if (channel.tensor.known) {
      entry["dtype"] = channel.tensor.dtype;
      entry["shape"] = shapeJson(channel.tensor);
      entry["bytes"] = channel.tensor.bytes;
    }
    if (const StageAttribute *weight = weightOf(plan, channel)) {
      entry["weight"] = weight->name;
      entry["bytes"] = weight->bytes;
    }
    channels.push_back(std::move(entry));
  }
  return channels;
}

llvm::json::Array tiesJson(const Plan &plan) {
  llvm::json::Array ties;
  for (const Tie &tie : plan.ties) {
    llvm::json::Array stages;
    for (size_t stage : tie.stages)
      stages.push_back(static_cast<int64_t>(stage));
    ties.push_back(llvm::json::Object{{"names", llvm::json::Array(tie.names)},
                                      {"stages", std::move(stages)},
                                      {"mode", toString(tie.mode)},
                                      {"owner", static_cast<int64_t>(tie.owner)}});
  }
  return ties;
}

llvm::json::Object batchJson(const Plan &plan) {
  return llvm::json::Object{{"symbolic", plan.signature.batchSymbolic},
                            {"size", plan.signature.batchSize}};
}

} // namespace pipec
