// pipe-merge: the stages of an artifact as one ordinary TorchScript model again.
#include "compiler/Merge.h"
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ToolMain.h"
#include "tools/report/Table.h"

using namespace pipec;
namespace cl = llvm::cl;

namespace {

StringOption artifact(cl::Positional, cl::Required, cl::value_desc("MODEL.pipe"),
                      cl::desc("the artifact that pipe-compile wrote"));
StringOption output("o", cl::value_desc("MODEL.pt"), cl::desc("the TorchScript file to write"));
FlagOption force("force", cl::desc("replace an existing file"));
FlagOption json("json", cl::desc("print one JSON document"));
StringListOption libraries("load-library", cl::value_desc("LIB.so"),
                           cl::desc("load custom operators that the stages use"));

void printDocument(const MergeReport &report) {
  toStdout() << printJson(llvm::json::Object{
      {"schema_version", 1},
      {"options", llvm::json::Object{{"artifact", artifact.getValue()},
                                     {"o", output.getValue()},
                                     {"force", force.getValue()},
                                     {"load_library", llvm::json::Array(libraries)}}},
      {"method", report.plan.signature.method},
      {"source_digest", report.plan.sourceDigest},
      {"stages", static_cast<int64_t>(report.plan.stages.size())},
      {"operators", static_cast<int64_t>(report.operators)},
      {"weights", static_cast<int64_t>(report.weights)},
      {"bytes", report.bytes}});
}

void printText(const MergeReport &report) {
  Table table({{"method"},
               {"stages", Table::Right},
               {"operators", Table::Right},
               {"weights", Table::Right},
               {"size", Table::Right}});
  table.addRow({report.plan.signature.method, std::to_string(report.plan.stages.size()),
                std::to_string(report.operators), std::to_string(report.weights),
                formatBytes(report.bytes)});
  table.print(toStdout());
  toStdout() << "\nverified: read back, it equals the stages linked together, "
             << llvm::StringRef(report.plan.sourceDigest).take_front(19) << "...\nwrote " << output
             << '\n';
}

llvm::Expected<ExitCode> run() {
  if (output.empty())
    return makeError(ExitCode::Usage, "-o: expected the file to write, got none",
                     "pass -o MODEL.pt");
  for (const std::string &library : libraries)
    if (llvm::Error error = loadLibrary(library))
      return error;
  llvm::Expected<MergeReport> report = mergeArtifact(artifact, output, force);
  if (!report)
    return report.takeError();
  for (const std::string &warning : report->warnings)
    printWarning(warning);
  if (json)
    printDocument(*report);
  else
    printText(*report);
  return ExitCode::Success;
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(argc, argv,
                  {"pipe-merge",
                   "makes one ordinary TorchScript model from an artifact's stages",
                   "MODEL.pipe -o MODEL.pt [options]",
                   {"pipe-merge model.pipe -o merged.pt"},
                   [] { return artifactParts(artifact); }},
                  run);
}
