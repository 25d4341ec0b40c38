#include "ir/plan/CostTable.h"

#include "ir/plan/Json.h"
#include "ir/plan/JsonReader.h"

namespace pipec {

int64_t CostTable::totalNs() const {
  int64_t total = 0;
  for (const CostRow &row : rows)
    total += row.forwardNs;
  return total;
}

std::string toJson(const CostTable &table) {
  llvm::json::Array rows;
  for (const CostRow &row : table.rows)
    rows.push_back(llvm::json::Object{{"op", row.op},
                                      {"module", row.module},
                                      {"forward_ns", row.forwardNs},
                                      {"output_bytes", row.outputBytes}});
  return printJson(llvm::json::Object{{"schema_version", 1}, {"operators", std::move(rows)}});
}

llvm::Expected<CostTable> costTableFromJson(llvm::StringRef text, const std::string &name) {
  JsonLimits limits;
  limits.what = name;
  limits.code = ExitCode::Usage;
  limits.maxBytes = 1u << 30; // a million operators
  llvm::Expected<llvm::json::Value> value = parseJson(text, limits);
  if (!value)
    return value.takeError();
  constexpr int64_t kMostNs = int64_t(1) << 50; // two weeks: sums of a million stay in range
  JsonReading reading;
  CostTable table;
  JsonObject top(reading, &*value, "");
  top.integer("schema_version", 1, 1);
  top.objects("operators", [&](JsonObject &object) {
    CostRow &row = table.rows.emplace_back();
    row.op = object.string("op");
    row.module = object.string("module");
    row.forwardNs = object.integer("forward_ns", 0, kMostNs);
    row.outputBytes = object.integer("output_bytes");
  });
  top.finish();
  if (!reading.error.empty())
    return makeError(ExitCode::Usage, name + ": " + reading.error,
                     "pipe-compile --emit-costs FILE writes such a table");
  return table;
}

} // namespace pipec
