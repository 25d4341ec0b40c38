#include "ir/plan/CostTable.h"

#include "ir/plan/Json.h"
#include "ir/plan/JsonReader.h"

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
    {"weight_bytes", &CostRow::weightBytes},
};

// Two weeks, or a petabyte: sums of a million stay in range.
constexpr int64_t kMost = int64_t(1) << 50;

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
    rows.push_back(std::move(object));
  }
  llvm::json::Object document{{"schema_version", 1}, {"operators", std::move(rows)}};
  if (table.atOnce > 1)
    document["at_once"] = table.atOnce;
  return printJson(std::move(document));
}

llvm::Expected<CostTable> costTableFromJson(llvm::StringRef text, const std::string &name) {
  JsonLimits limits;
  limits.what = name;
  limits.code = ExitCode::Usage;
  limits.maxBytes = 1u << 30; // a million operators
  llvm::Expected<llvm::json::Value> value = parseJson(text, limits);
  if (!value)
    return value.takeError();
  JsonReading reading;
  CostTable table;
  JsonObject top(reading, &*value, "");
  top.integer("schema_version", 1, 1);
  if (top.has("at_once"))
    table.atOnce = top.integer("at_once", 1, 1 << 20);
  top.objects("operators", [&](JsonObject &object) {
    CostRow &row = table.rows.emplace_back();
    row.op = object.string("op");
    row.module = object.string("module");
    row.forwardNs = object.integer("forward_ns", 0, kMost);
    row.outputBytes = object.integer("output_bytes", 0, kMost);
    for (const OptionalColumn &column : kOptional)
      if (object.has(column.key))
        row.*column.field = object.integer(column.key, 0, kMost);
  });
  top.finish();
  if (!reading.error.empty())
    return makeError(ExitCode::Usage, name + ": " + reading.error,
                     "pipe-compile --emit-costs FILE writes such a table");
  return table;
}

} // namespace pipec
