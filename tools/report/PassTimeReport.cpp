#include "tools/report/PassTimeReport.h"

#include "tools/report/Table.h"

#include <fmt/format.h>

namespace pipec {

void printPassTimes(llvm::raw_ostream &out, const std::vector<PassTime> &times) {
  for (const PassTime &row : times)
    out << fmt::format("{:>10.3f} ms  {} runs, {} changed  {}\n",
                       inMilliseconds(static_cast<double>(row.ns)), row.runs, row.changes,
                       row.name);
}

llvm::json::Array passTimesJson(const std::vector<PassTime> &times) {
  llvm::json::Array rows;
  for (const PassTime &row : times)
    rows.push_back(llvm::json::Object{{"name", row.name},
                                      {"runs", static_cast<int64_t>(row.runs)},
                                      {"changed", static_cast<int64_t>(row.changes)},
                                      {"ms", inMilliseconds(static_cast<double>(row.ns))}});
  return rows;
}

} // namespace pipec
