#include "tools/ScheduleCostsText.h"

#include "ir/plan/Json.h"
#include "ir/plan/JsonReader.h"
#include "ir/plan/Words.h"
#include "llvm/Support/MemoryBuffer.h"
#include "tools/ToolMain.h"

namespace pipec {
namespace {

/// A number without a unit is milliseconds, as times of --json are.
llvm::Expected<int64_t> parseMilliseconds(llvm::StringRef text) {
  const bool plain = text.find_first_not_of("0123456789.") == llvm::StringRef::npos;
  return parseDuration(plain ? text.str() + "ms" : text.str());
}

llvm::Error readKey(llvm::StringRef key, llvm::StringRef value, CostsText &costs) {
  int64_t *time = key == "f"      ? &costs.whole.forward
                  : key == "i"    ? &costs.whole.inputGrad
                  : key == "w"    ? &costs.whole.weightGrad
                  : key == "comm" ? &costs.latency
                                  : nullptr;
  int64_t *bytes = key == "mem"     ? &costs.whole.heldByForward
                   : key == "mem_i" ? &costs.whole.freedByInputGrad
                                    : nullptr;
  if (!time && !bytes)
    return makeError(
        ExitCode::Usage,
        fmt::format("--costs: expected f, i, w, comm, mem or mem_i, got \"{}\"", key.str()),
        "as in f=1ms,i=1ms,w=1ms,comm=0.1ms");
  llvm::Expected<int64_t> number = time ? parseMilliseconds(value) : parseSize(value);
  if (!number)
    return withContext(number.takeError(), fmt::format("--costs: {}", key.str()));
  *(time ? time : bytes) = *number;
  costs.inBytes |= bytes != nullptr;
  return llvm::Error::success();
}

llvm::Expected<CostsText> readPairs(llvm::StringRef text) {
  CostsText costs;
  llvm::SmallVector<llvm::StringRef, 8> pairs;
  text.split(pairs, ',');
  std::set<std::string> seen;
  for (llvm::StringRef pair : pairs) {
    auto [key, value] = pair.split('=');
    if (!seen.insert(key.trim().str()).second)
      return failf(ExitCode::Usage, "--costs: {} stands there twice", key.trim().str());
    if (llvm::Error error = readKey(key.trim(), value.trim(), costs))
      return std::move(error);
  }
  if (seen.count("mem_i") && !seen.count("mem"))
    return makeError(ExitCode::Usage, "--costs: mem_i: expected mem with it, got none",
                     "mem is what a forward holds, mem_i what of it the input gradient frees");
  if (costs.whole.freedByInputGrad > costs.whole.heldByForward)
    return failf(ExitCode::Usage, "--costs: mem_i: expected at most mem, {}, got {}",
                 costs.whole.heldByForward, costs.whole.freedByInputGrad);
  return costs;
}

} // namespace

llvm::Expected<CostsText> readCosts(llvm::StringRef text) {
  if (text.empty())
    return CostsText();
  if (text.contains('='))
    return readPairs(text);
  auto buffer = llvm::MemoryBuffer::getFile(text);
  if (!buffer)
    return makeError(ExitCode::IO,
                     fmt::format("--costs: cannot read {}: {}", text.str(),
                                 llvm::StringRef(buffer.getError().message()).lower()),
                     "costs without a file are f=1,i=1,w=1,comm=0");
  llvm::Expected<ScheduleCosts> exact = costsFromJson((*buffer)->getBuffer(), text.str());
  if (!exact)
    return exact.takeError();
  CostsText costs;
  costs.inBytes = true;
  costs.exact = std::move(*exact);
  return costs;
}

std::string costsToJson(const ScheduleCosts &costs) {
  llvm::json::Array stages, skips;
  for (const StageCosts &stage : costs.stages)
    stages.push_back(llvm::json::Object{{"forward_ns", stage.forward},
                                        {"input_grad_ns", stage.inputGrad},
                                        {"weight_grad_ns", stage.weightGrad},
                                        {"held_bytes", stage.heldByForward},
                                        {"freed_by_input_grad_bytes", stage.freedByInputGrad}});
  for (auto [from, to] : costs.skips)
    skips.push_back(llvm::json::Array{static_cast<int64_t>(from), static_cast<int64_t>(to)});
  return printJson(llvm::json::Object{{"schema_version", 1},
                                      {"stages", std::move(stages)},
                                      {"latency_ns", costs.latency},
                                      {"skips", std::move(skips)}});
}

llvm::Expected<ScheduleCosts> costsFromJson(llvm::StringRef text, const std::string &name) {
  JsonLimits limits;
  limits.what = name;
  limits.code = ExitCode::Usage;
  llvm::Expected<llvm::json::Value> value = parseJson(text, limits);
  if (!value)
    return value.takeError();
  JsonReading reading;
  ScheduleCosts costs;
  JsonObject top(reading, &*value, name);
  top.integer("schema_version", 1, 1);
  if (top.has("latency_ns"))
    costs.latency = top.integer("latency_ns");
  top.objects("stages", [&](JsonObject &stage) {
    StageCosts &row = costs.stages.emplace_back();
    row.forward = stage.integer("forward_ns");
    row.inputGrad = stage.has("input_grad_ns") ? stage.integer("input_grad_ns") : 0;
    row.weightGrad = stage.has("weight_grad_ns") ? stage.integer("weight_grad_ns") : 0;
    row.heldByForward = stage.has("held_bytes") ? stage.integer("held_bytes") : 0;
    if (stage.has("freed_by_input_grad_bytes"))
      row.freedByInputGrad = stage.integer("freed_by_input_grad_bytes", 0, row.heldByForward);
  });
  if (top.has("skips"))
    top.list("skips", [&](const llvm::json::Value &element, const std::string &path) {
      const llvm::json::Array *pair = element.getAsArray();
      auto number = [&](size_t i) -> int64_t {
        if (!pair || pair->size() != 2)
          return -1;
        const auto whole = (*pair)[i].getAsInteger();
        return whole ? *whole : -1;
      };
      const int64_t from = number(0), to = number(1);
      if (from < 0 || to <= from || to >= static_cast<int64_t>(costs.stages.size()))
        reading.fail(path, fmt::format("expected [from, to], from an earlier to a later of {}",
                                       counted(costs.stages.size(), "stage")));
      else
        costs.skips.emplace_back(from, to);
    });
  top.finish();
  if (reading.error.empty() && costs.stages.empty())
    reading.fail(name + ".stages", "expected at least one, got none");
  if (!reading.error.empty())
    return makeError(ExitCode::Usage, "--costs: " + reading.error);
  return costs;
}

} // namespace pipec
