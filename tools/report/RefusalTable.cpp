#include "tools/report/RefusalTable.h"

#include "ir/Refusals.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

void printRefusalsJson(llvm::raw_ostream &os) {
  llvm::json::Array rows;
  for (const RefusalRow &row : refusals())
    rows.push_back(llvm::json::Object{{"name", row.name},
                                      {"message", row.message},
                                      {"help", row.help},
                                      {"meaning", row.meaning}});
  os << llvm::formatv("{0:2}", llvm::json::Value(llvm::json::Object{{"schema_version", 1},
                                                                    {"refusals", std::move(rows)}}))
     << "\n";
}

static std::string withDots(llvm::StringRef text) {
  std::string dotted = text.str();
  for (size_t at; (at = dotted.find("{}")) != std::string::npos;)
    dotted.replace(at, 2, "...");
  return dotted;
}

void printRefusalsMarkdown(llvm::raw_ostream &os) {
  os << "# Refusals\n\nExit code 4 always means one of these reasons. `...` stands for the "
        "operator with its source line and\nmodule, or for other names from the model. Each reason "
        "has a test case in `tests/passes/refusals`.\n";
  for (const RefusalRow &row : refusals()) {
    os << "\n## " << row.name << "\n\n"
       << row.meaning << "\n\n```\nerror: " << withDots(row.message)
       << "\nhelp: " << withDots(row.help) << "\n```\n";
  }
}

} // namespace pipec
