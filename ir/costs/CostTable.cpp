#include "ir/costs/CostTable.h"

#include "ir/support/Json.h"
#include "ir/support/JsonReader.h"
#include "ir/support/Try.h"

namespace pipec {

namespace {

/// Columns that older tables, and tables without a backward, do not have.
struct OptionalColumn {
  const char *key;
  int64_t CostRow::*field;
};
constexpr OptionalColumn kOptional[] = {
    {"forward_alone_ns", &CostRow::forwardAloneNs}, {"input_grad_ns", &CostRow::inputGradNs},
    {"weight_grad_ns", &CostRow::weightGradNs},     {"kept_bytes", &CostRow::keptBytes},
    {"weight_bytes", &CostRow::weightBytes},        {"trained_bytes", &CostRow::trainedBytes},
    {"pending_bytes", &CostRow::pendingBytes},
};

// Two weeks, or a petabyte: sums of a million stay in range.
constexpr int64_t kMost = int64_t(1) << 50;

llvm::json::Array numbers(const std::vector<uint32_t> &values) {
  llvm::json::Array array;
  for (uint32_t value : values)
    array.push_back(static_cast<int64_t>(value));
  return array;
}

/// Ascending positions of operators, all before `end`.
std::vector<uint32_t> positions(JsonObject &object, llvm::StringRef key, size_t end) {
  std::vector<uint32_t> result;
  for (size_t position : object.indices(key)) {
    if (position >= end || (!result.empty() && position <= result.back()))
      object.fail(key, fmt::format("expected ascending positions of operators before {}, got {}",
                                   end, position));
    result.push_back(static_cast<uint32_t>(position));
  }
  return result;
}

} // namespace

CostRow &CostRow::operator+=(const CostRow &other) {
  if (forwardAloneNs || other.forwardAloneNs)
    forwardAloneNs = aloneNs() + other.aloneNs();
  forwardNs += other.forwardNs;
  outputBytes += other.outputBytes;
  inputGradNs += other.inputGradNs;
  weightGradNs += other.weightGradNs;
  keptBytes += other.keptBytes;
  weightBytes += other.weightBytes;
  trainedBytes += other.trainedBytes;
  pendingBytes += other.pendingBytes;
  return *this;
}

CostRow CostTable::sum(size_t begin, size_t end) const {
  CostRow sum;
  for (size_t i = begin; i < end; ++i)
    sum += rows[i];
  return sum;
}

std::string toJson(const CostTable &table) {
  llvm::json::Array rows;
  for (const CostRow &row : table.rows) {
    llvm::json::Object object{{"op", row.op},
                              {"module", row.module},
                              {"forward_ns", row.forwardNs},
                              {"output_bytes", row.outputBytes}};
    for (const OptionalColumn &column : kOptional)
      if (row.*column.field)
        object[column.key] = row.*column.field;
    if (table.training)
      object["reads"] = numbers(row.reads);
    if (row.withPrevious)
      object["with_previous"] = true;
    rows.push_back(std::move(object));
  }
  llvm::json::Object document{{"schema_version", 1}, {"operators", std::move(rows)}};
  if (table.atOnce > 1)
    document["at_once"] = table.atOnce;
  if (table.training) {
    document["training"] = true;
    llvm::json::Array shared;
    for (const SharedWeight &weight : table.shared)
      shared.push_back(llvm::json::Object{{"name", weight.name},
                                          {"bytes", weight.bytes},
                                          {"trained", weight.trained},
                                          {"readers", numbers(weight.readers)}});
    document["shared_weights"] = std::move(shared);
  }
  if (table.pending)
    document["pending"] = true;
  if (table.batch)
    document["batch"] = table.batch;
  return printJson(std::move(document));
}

llvm::Expected<CostTable> costTableFromJson(llvm::StringRef text, const std::string &name) {
  JsonLimits limits;
  limits.what = name;
  limits.code = ExitCode::Usage;
  limits.maxBytes = 1u << 30; // a million operators
  llvm::json::Value value = TRY(parseJson(text, limits));
  JsonReading reading;
  CostTable table;
  JsonObject top(reading, &value, "");
  top.integer("schema_version", 1, 1);
  if (top.has("at_once"))
    table.atOnce = top.integer("at_once", 1, 1 << 20);
  if (top.has("training"))
    table.training = top.boolean("training");
  table.pending = top.has("pending") && top.boolean("pending");
  if (top.has("batch"))
    table.batch = top.integer("batch", 1, kMost);
  top.objects("operators", [&](JsonObject &object) {
    CostRow &row = table.rows.emplace_back();
    row.op = object.string("op");
    row.module = object.string("module");
    row.forwardNs = object.integer("forward_ns", 0, kMost);
    row.outputBytes = object.integer("output_bytes", 0, kMost);
    for (const OptionalColumn &column : kOptional)
      if (object.has(column.key))
        row.*column.field = object.integer(column.key, 0, kMost);
    if (row.trainedBytes > row.weightBytes)
      object.fail("trained_bytes", fmt::format("expected at most weight_bytes, {}, got {}",
                                               row.weightBytes, row.trainedBytes));
    if (object.has("reads"))
      row.reads = positions(object, "reads", table.rows.size() - 1);
    row.withPrevious = object.has("with_previous") && object.boolean("with_previous");
  });
  if (top.has("shared_weights"))
    top.objects("shared_weights", [&](JsonObject &object) {
      SharedWeight &weight = table.shared.emplace_back();
      weight.name = object.string("name");
      weight.bytes = object.integer("bytes", 0, kMost);
      weight.trained = object.boolean("trained");
      weight.readers = positions(object, "readers", table.rows.size());
      if (weight.readers.size() < 2)
        object.fail("readers", fmt::format("expected at least 2, got {}", weight.readers.size()));
      else if (weight.readers[0] < table.rows.size() &&
               weight.bytes > table.rows[weight.readers[0]].weightBytes)
        object.fail("bytes", fmt::format("expected at most weight_bytes of its first reader, {}, "
                                         "got {}",
                                         table.rows[weight.readers[0]].weightBytes, weight.bytes));
    });
  top.finish();
  if (!reading.error.empty())
    return makeError(ExitCode::Usage, name + ": " + reading.error,
                     "pipe-compile --emit-costs FILE writes such a table");
  return table;
}

} // namespace pipec
