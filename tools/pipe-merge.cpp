// pipe-merge: the stages of an artifact as one ordinary TorchScript model again.
#include "compiler/Merge.h"
#include "compiler/MergeInto.h"
#include "ir/checkpoint/NearCheckpoints.h"
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/torchfile/JoinLoss.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/TorchMain.h"
#include "tools/report/Table.h"

using namespace pipec;
namespace cl = llvm::cl;

namespace {

StringOption artifact(cl::Positional, cl::value_desc("MODEL.pipe"),
                      cl::desc("the artifact that pipe-compile wrote; not needed for --into with "
                               "--state or --checkpoint"));
StringOption output("o", cl::value_desc("MODEL.pt"), cl::desc("the TorchScript file to write"));
StringOption into("into", cl::value_desc("MODEL.pt"),
                  cl::desc("write the author's own file with these weights: its other methods, "
                           "training flags and names stay"));
StringOption
    state("state", cl::value_desc("FILE"),
          cl::desc("with --into: the weights that pipe-run --train --output wrote (default: "
                   "those of the artifact)"));
StringOption checkpoint("checkpoint", cl::value_desc("DIR"),
                        cl::desc("the weights and state of a checkpoint of pipe-run --train, or "
                                 "of the newest good one in a directory (default: the "
                                 "artifact's)"));
FlagOption force("force", cl::desc("replace an existing file"));
FlagOption json("json", cl::desc("print one JSON document"));
StringListOption libraries("load-library", cl::value_desc("LIB.so"),
                           cl::desc("load custom operators that the stages use"));

constexpr size_t kMostNames = 3;

void printDocument(const MergeReport &report) {
  toStdout() << printJson(llvm::json::Object{
      {"schema_version", 1},
      {"options", llvm::json::Object{{"artifact", artifact.getValue()},
                                     {"o", output.getValue()},
                                     {"checkpoint", checkpoint.getValue()},
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
  toStdout() << "\nverified: read back, it equals the stages linked together"
             << (given(checkpoint) ? std::string(", with the values of the checkpoint")
                                   : ", " + report.plan.sourceDigest.substr(0, 19) + "...")
             << "\nwrote " << output << '\n';
}

/// A training has values for all that its method uses. Whether that is the method of this file, an
/// artifact alone knows.
void noteKept(const std::vector<std::string> &kept) {
  const std::string what =
      fmt::format("{} of {} {} as in the file: {}", counted(kept.size(), "tensor"), into.getValue(),
                  kept.size() == 1 ? "is" : "are", someOf(kept, kMostNames));
  if (given(checkpoint) || artifact.empty())
    printWarning(fmt::format("{}; {} has no values for them, which is right only if the trained "
                             "method does not use them",
                             what, given(checkpoint) ? checkpoint.getValue() : state.getValue()));
  else
    printNote(what + "; the compiled method does not use them");
}

/// The stages hold the model and its loss as one graph: the model's own method is no longer in it.
void noteOnLoss() {
  const std::string weights = given(checkpoint) ? " --checkpoint " + checkpoint : "";
  printNote(fmt::format("the only method of the merged model is {0}, the model joined with its "
                        "loss; for the model with its own methods and these weights: pipe-merge "
                        "{1}{2} --into MODEL.pt -o OUT.pt",
                        kLossMethod, artifact.getValue(), weights));
}

/// Puts weights into the author's file instead of merging the stages.
llvm::Error runInto() {
  MergeIntoReport report =
      TRY(given(checkpoint) ? mergeCheckpointInto(artifact, checkpoint, into, output, force)
                            : mergeInto(artifact, state, into, output, force));
  for (const std::string &warning : report.warnings)
    printWarning(warning);
  if (!report.kept.empty())
    noteKept(report.kept);
  if (!report.ofLoss.empty())
    printNote(fmt::format("left out: {} of the loss, which {} does not have: {}",
                          counted(report.ofLoss.size(), "tensor"), into.getValue(),
                          someOf(report.ofLoss, kMostNames)));
  if (json)
    toStdout() << printJson(llvm::json::Object{
        {"schema_version", 1},
        {"options", llvm::json::Object{{"artifact", artifact.getValue()},
                                       {"into", into.getValue()},
                                       {"state", state.getValue()},
                                       {"checkpoint", checkpoint.getValue()},
                                       {"o", output.getValue()},
                                       {"force", force.getValue()},
                                       {"load_library", llvm::json::Array(libraries)}}},
        {"tensors", static_cast<int64_t>(report.tensors)},
        {"kept", llvm::json::Array(report.kept)},
        {"of_loss", llvm::json::Array(report.ofLoss)},
        {"bytes", report.bytes}});
  else
    toStdout() << "replaced " << counted(report.tensors, "tensor") << " of " << into << "\nwrote "
               << output << " (" << formatBytes(report.bytes) << ")\n";
  return llvm::Error::success();
}

llvm::Expected<ExitCode> run() {
  if (artifact.empty() && !(given(into) && (given(state) || given(checkpoint))))
    return makeError(
        ExitCode::Usage, "missing argument MODEL.pipe",
        given(checkpoint) || given(into)
            ? "pass the artifact, or both --into MODEL.pt, the model that was compiled, "
              "and --checkpoint DIR or --state FILE, which need no artifact"
            : "usage: pipe-merge MODEL.pipe -o MODEL.pt [options]");
  TRY(refuseCheckpoint(artifact, "an artifact"));
  if (output.empty())
    return makeError(ExitCode::Usage, "-o: expected the file to write, got none",
                     "pass -o MODEL.pt");
  for (const std::string &library : libraries)
    TRY(loadLibrary(library));
  if (given(state) && !given(into))
    return makeError(ExitCode::Usage, "--state: expected --into with it, got none",
                     "pass --into with the model that was compiled");
  if (given(state) && given(checkpoint))
    return makeError(ExitCode::Usage, "--state: expected it without --checkpoint, got both",
                     "both have the weights");
  if (given(into)) {
    TRY(runInto());
    return ExitCode::Success;
  }
  MergeReport report = TRY(mergeArtifact(artifact, output, force, checkpoint));
  for (const std::string &warning : report.warnings)
    printWarning(warning);
  if (report.plan.signature.method == kLossMethod)
    noteOnLoss();
  if (json)
    printDocument(report);
  else
    printText(report);
  return ExitCode::Success;
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(argc, argv,
                  {"pipe-merge",
                   "makes one ordinary TorchScript model from an artifact's stages",
                   "[MODEL.pipe] -o MODEL.pt [options]",
                   {"pipe-merge model.pipe -o merged.pt",
                    "pipe-merge model.pipe --state trained.pt --into model.pt -o trained-model.pt",
                    "pipe-merge --checkpoint checkpoints --into model.pt -o trained-model.pt"},
                   [] { return artifactParts(artifact); }},
                  run);
}
