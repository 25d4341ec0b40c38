#include "tools/report/CheckReport.h"

#include "llvm/Support/raw_ostream.h"
#include "tools/report/Table.h"

#include <map>

namespace pipec {

namespace {

llvm::StringRef toString(CheckStep::Result result) {
  switch (result) {
  case CheckStep::Result::Passed:
    return "ok";
  case CheckStep::Result::Failed:
    return "FAILED";
  case CheckStep::Result::Skipped:
    return "skipped";
  }
  llvm_unreachable("every result has a word");
}

} // namespace

void printCheck(llvm::raw_ostream &out, const ArtifactCheck &check) {
  // The verdict below says the first finding, and a table below all of several.
  Table table({{"check"}, {"result"}, {"what"}});
  for (const CheckStep &step : check.steps)
    table.addRow({step.name, toString(step.result).str(),
                  step.result == CheckStep::Result::Failed ? "see below" : step.detail});
  table.print(out);
  if (check.findings.size() < 2)
    return;
  out << "\n";
  // If the model was trained further, every weight differs: JSON lists them all.
  constexpr size_t kMostOfOneKind = 10;
  std::map<std::string, size_t> shown;
  Table findings({{"finding"}, {"what"}});
  for (const Finding &finding : check.findings)
    if (++shown[finding.code] <= kMostOfOneKind)
      findings.addRow({finding.code, finding.message});
  findings.print(out);
  for (const auto &[code, count] : shown)
    if (count > kMostOfOneKind)
      out << code << ": " << count - kMostOfOneKind << " more; --json lists them\n";
}

llvm::json::Object checkJson(const ArtifactCheck &check) {
  llvm::json::Array findings, steps;
  for (const Finding &finding : check.findings)
    findings.push_back(llvm::json::Object{
        {"code", finding.code}, {"where", finding.where}, {"message", finding.message}});
  for (const CheckStep &step : check.steps)
    steps.push_back(llvm::json::Object{
        {"name", step.name}, {"result", toString(step.result).lower()}, {"detail", step.detail}});
  return llvm::json::Object{{"ok", check.findings.empty()},
                            {"id", check.id},
                            {"checks", std::move(steps)},
                            {"findings", std::move(findings)},
                            {"warnings", llvm::json::Array(check.warnings)}};
}

} // namespace pipec
