// pipe-check: is an artifact whole, valid, and the model it was made from?
#include "ir/artifact/ArtifactCheck.h"
#include "ir/plan/Json.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/ArtifactParts.h"
#include "tools/LoadLibrary.h"
#include "tools/Table.h"
#include "tools/ToolMain.h"

#include <filesystem>
#include <fstream>

using namespace pipec;
namespace cl = llvm::cl;

namespace {

StringOption artifact(cl::Positional, cl::Required, cl::value_desc("MODEL.pipe"),
                      cl::desc("the artifact that pipe-compile wrote"));
FlagOption json("json", cl::desc("print one JSON document instead of the table"));
StringListOption libraries("load-library", cl::value_desc("LIB.so"),
                           cl::desc("load custom operators that the stages use"));

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

void printTable(const ArtifactCheck &check) {
  Table table({{"check"}, {"result"}, {"what"}});
  for (const CheckStep &step : check.steps)
    table.addRow({step.name, toString(step.result).str(), step.detail});
  table.print(llvm::outs());
  if (check.findings.size() < 2)
    return;
  llvm::outs() << "\n";
  Table findings({{"finding"}, {"where"}, {"what"}});
  for (const Finding &finding : check.findings)
    findings.addRow({finding.code, finding.where, finding.message});
  findings.print(llvm::outs());
}

void printDocument(const ArtifactCheck &check) {
  llvm::json::Array findings, steps, warnings;
  for (const Finding &finding : check.findings)
    findings.push_back(llvm::json::Object{
        {"code", finding.code}, {"where", finding.where}, {"message", finding.message}});
  for (const CheckStep &step : check.steps)
    steps.push_back(llvm::json::Object{
        {"name", step.name}, {"result", toString(step.result).lower()}, {"detail", step.detail}});
  for (const std::string &warning : check.warnings)
    warnings.push_back(warning);
  llvm::outs() << printJson(llvm::json::Object{
      {"schema_version", 1},
      {"options", llvm::json::Object{{"artifact", artifact.getValue()},
                                     {"load_library", llvm::json::Array(libraries)}}},
      {"ok", check.findings.empty()},
      {"id", check.id},
      {"checks", std::move(steps)},
      {"findings", std::move(findings)},
      {"warnings", std::move(warnings)}});
}

/// A file is no artifact with something wrong in it, but another thing altogether.
llvm::Error refuseFile() {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(artifact.getValue(), ignored))
    return llvm::Error::success();
  char magic[2] = {};
  std::ifstream(artifact.getValue(), std::ios::binary).read(magic, sizeof magic);
  bool isModel = llvm::StringRef(magic, sizeof magic) == "PK"; // a zip archive, as PyTorch saves
  return makeError(ExitCode::Usage,
                   fmt::format("{}: expected an artifact (a directory), got {}",
                               artifact.getValue(), isModel ? "a model" : "a file"),
                   isModel ? "compile it first, pipe-compile " + artifact +
                                 " --stages N --inputs FILE, and check what that writes"
                           : "give the directory that pipe-compile wrote");
}

llvm::Expected<ExitCode> run() {
  if (llvm::Error error = refuseFile())
    return std::move(error);
  for (const std::string &library : libraries)
    if (llvm::Error error = loadLibrary(library))
      return error;
  ArtifactCheck check = checkArtifact(artifact);
  for (const std::string &warning : check.warnings)
    printWarning(warning);
  if (json)
    printDocument(check);
  else
    printTable(check);
  if (check.findings.empty()) {
    printVerdict(true, "", json);
    return ExitCode::Success;
  }
  const Finding &first = check.findings.front();
  std::string more =
      check.findings.size() > 1 ? fmt::format(" (and {} more)", check.findings.size() - 1) : "";
  printVerdict(false, artifact + ": " + first.message + more, json);
  return first.exitCode;
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(argc, argv,
                  {"pipe-check",
                   "checks an artifact without running it: files, plan, schedule, and that the "
                   "stages are the source",
                   "MODEL.pipe [options]",
                   {"pipe-check model.pipe", "pipe-check model.pipe --json"},
                   [] { return artifactParts(artifact); }},
                  run);
}
