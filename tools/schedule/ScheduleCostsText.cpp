#include "tools/schedule/ScheduleCostsText.h"

#include "ir/support/Json.h"
#include "ir/support/JsonReader.h"
#include "ir/support/TextFile.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "tools/cli/Units.h"

namespace pipec {
namespace {

/// So that the sum over millions of actions is a number that there is.
constexpr int64_t kMostNs = 1'000'000'000'000; // 1000 s
constexpr int64_t kMostBytes = int64_t(1) << 50;

/// A number without a unit is milliseconds, as times of --json are.
llvm::Expected<int64_t> parseMilliseconds(llvm::StringRef text) {
  const bool hasUnit = text.find_first_not_of("0123456789.") != llvm::StringRef::npos;
  return parseDuration(hasUnit ? text.str() : text.str() + "ms");
}

llvm::Error readKey(llvm::StringRef key, llvm::StringRef value, CostsText &costs) {
  int64_t *time = key == "f"      ? &costs.whole.forward
                  : key == "i"    ? &costs.whole.inputGrad
                  : key == "w"    ? &costs.whole.weightGrad
                  : key == "comm" ? &costs.latency
                  : key == "opt"  ? &costs.optimizeNs
                                  : nullptr;
  int64_t *bytes = key == "mem"     ? &costs.whole.heldByForward
                   : key == "mem_i" ? &costs.whole.freedByInputGrad
                   : key == "bytes" ? &costs.valueBytes
                   : key == "rate"  ? &costs.bytesPerSecond
                                    : nullptr;
  if (!time && !bytes)
    return makeError(
        ExitCode::Usage,
        fmt::format("--costs: expected f, i, w, comm, mem, mem_i, bytes, rate or opt, got \"{}\"",
                    key.str()),
        "as in f=1ms,i=1ms,w=1ms,comm=0.1ms");
  llvm::Expected<int64_t> number = time ? parseMilliseconds(value) : parseSize(value);
  if (!number || *number > (time ? kMostNs : kMostBytes)) {
    if (!number)
      llvm::consumeError(number.takeError()); // the one below also names the range
    return failf(ExitCode::Usage, "--costs: {}: expected {}, got \"{}\"", key.str(),
                 time ? "a time from 0 to 1000 s, such as 0.2 or 1.5ms"
                      : "a size from 0 to 1024 TiB, such as 64MiB",
                 value.str());
  }
  *(time ? time : bytes) = *number;
  costs.inBytes |= key == "mem" || key == "mem_i";
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
      return failf(ExitCode::Usage, "--costs: {} appears twice", key.trim().str());
    TRY(readKey(key.trim(), value.trim(), costs));
  }
  if (seen.count("mem_i") && !seen.count("mem"))
    return makeError(ExitCode::Usage, "--costs: mem_i: expected mem with it, got none",
                     "mem is the memory that a forward holds, mem_i the part of it that the input "
                     "gradient frees");
  if (seen.count("bytes") && !seen.count("mem"))
    return makeError(ExitCode::Usage, "--costs: bytes: expected mem with it, got none",
                     "values that are sent need memory too; pass what a micro-batch holds, as in "
                     "mem=64MiB,bytes=1MiB");
  if (seen.count("rate") && !seen.count("bytes"))
    return makeError(
        ExitCode::Usage, "--costs: rate: expected bytes with it, got none",
        "rate is the bytes per second of a link, bytes the size of a value sent over it");
  if (costs.whole.freedByInputGrad > costs.whole.heldByForward)
    return failf(ExitCode::Usage, "--costs: mem_i: expected at most mem, {}, got {}",
                 costs.whole.heldByForward, costs.whole.freedByInputGrad);
  return costs;
}

llvm::Expected<CostsText> costsFromJson(llvm::StringRef text, const std::string &name) {
  JsonLimits limits;
  limits.what = name;
  limits.code = ExitCode::Usage;
  llvm::json::Value value = TRY(parseJson(text, limits));
  JsonReading reading;
  CostsText result;
  result.inBytes = true;
  ScheduleCosts &costs = result.exact.emplace();
  TransferCosts &transfers = result.exactTransfers;
  bool sends = false, updates = false;
  JsonObject top(reading, &value, name);
  top.integer("schema_version", 1, 1);
  if (top.has("latency_ns"))
    costs.latency = top.integer("latency_ns", 0, kMostNs);
  if (top.has("bytes_per_second"))
    transfers.bytesPerSecond = top.integer("bytes_per_second", 1);
  top.objects("stages", [&](JsonObject &stage) {
    StageCosts &row = costs.stages.emplace_back();
    row.forward = stage.integer("forward_ns", 0, kMostNs);
    row.inputGrad = stage.has("input_grad_ns") ? stage.integer("input_grad_ns", 0, kMostNs) : 0;
    row.weightGrad = stage.has("weight_grad_ns") ? stage.integer("weight_grad_ns", 0, kMostNs) : 0;
    row.heldByForward = stage.has("held_bytes") ? stage.integer("held_bytes", 0, kMostBytes) : 0;
    if (stage.has("freed_by_input_grad_bytes"))
      row.freedByInputGrad = stage.integer("freed_by_input_grad_bytes", 0, row.heldByForward);
    if (stage.has("pending_bytes")) {
      if (stage.has("freed_by_input_grad_bytes"))
        stage.fail("pending_bytes", "expected it without freed_by_input_grad_bytes, got both");
      row.freedByInputGrad = row.heldByForward - stage.integer("pending_bytes", 0, kMostBytes);
    }
    sends |= stage.has("value_bytes");
    updates |= stage.has("optimizer_ns");
    transfers.valueBytes.push_back(
        stage.has("value_bytes") ? stage.integer("value_bytes", 0, kMostBytes) : 0);
    transfers.optimizeNs.push_back(
        stage.has("optimizer_ns") ? stage.integer("optimizer_ns", 0, kMostNs) : 0);
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
  if (!sends)
    transfers.valueBytes.clear();
  if (!updates)
    transfers.optimizeNs.clear();
  return result;
}

} // namespace

llvm::Expected<CostsText> readCosts(llvm::StringRef text) {
  if (text.empty())
    return CostsText();
  if (text.contains('='))
    return readPairs(text);
  TextFormat format;
  format.what = "JSON";
  format.help = "costs without a file are f=1,i=1,w=1,comm=0";
  llvm::Expected<std::string> document = readTextFile(text.str(), format);
  if (!document)
    return withContext(document.takeError(), "--costs");
  if (!llvm::StringRef(*document).contains("\"operators\""))
    return costsFromJson(*document, text.str());
  llvm::Expected<CostTable> table = costTableFromJson(*document, text.str());
  if (!table)
    return withContext(table.takeError(), "--costs");
  CostsText costs;
  costs.operators = std::move(*table);
  costs.inBytes = true;
  return costs;
}

TransferCosts CostsText::transfers(const std::vector<size_t> &rankOfStage) const {
  TransferCosts result = exactTransfers;
  if (!exact) {
    result.bytesPerSecond = bytesPerSecond;
    if (valueBytes)
      result.valueBytes.assign(rankOfStage.size(), valueBytes);
    // The remainder belongs to the rank's last stage.
    std::map<size_t, int64_t> left, rest;
    for (size_t rank : rankOfStage)
      ++left[rank];
    for (size_t rank : rankOfStage) {
      const int64_t part =
          (rest.try_emplace(rank, optimizeNs).first->second) / std::max<int64_t>(1, left[rank]--);
      rest[rank] -= part;
      if (optimizeNs)
        result.optimizeNs.push_back(part);
    }
  }
  result.cluster = cluster;
  return result;
}

} // namespace pipec
