// pipe-merge: the stages of an artifact as one ordinary TorchScript model again.
#include "ir/checkpoint/NearCheckpoints.h"
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/TorchMain.h"
#include "tools/report/MergeText.h"

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

MergeRequest request() { return {artifact, output, into, state, checkpoint}; }

void printDocument(llvm::json::Object document) {
  llvm::json::Object options{{"artifact", artifact.getValue()},
                             {"o", output.getValue()},
                             {"checkpoint", checkpoint.getValue()},
                             {"force", force.getValue()},
                             {"load_library", llvm::json::Array(libraries)}};
  if (given(into)) {
    options["into"] = into.getValue();
    options["state"] = state.getValue();
  }
  document["schema_version"] = 1;
  document["options"] = std::move(options);
  toStdout() << printJson(std::move(document));
}

/// Puts weights into the author's file instead of merging the stages.
llvm::Error runInto() {
  MergeIntoReport report =
      TRY(given(checkpoint) ? mergeCheckpointInto(artifact, checkpoint, into, output, force)
                            : mergeInto(artifact, state, into, output, force));
  noteMergeInto(request(), report);
  if (json)
    printDocument(mergeIntoJson(report));
  else
    printMergeInto(toStdout(), request(), report);
  return llvm::Error::success();
}

llvm::Error runMerge() {
  MergeReport report = TRY(mergeArtifact(artifact, output, force, checkpoint));
  noteMerge(request(), report);
  if (json)
    printDocument(mergeJson(report));
  else
    printMerge(toStdout(), request(), report);
  return llvm::Error::success();
}

llvm::Expected<ExitCode> run() {
  if (artifact.empty() && !(given(into) && (given(state) || given(checkpoint))))
    return makeError(
        ExitCode::Usage, "missing argument MODEL.pipe",
        given(checkpoint) || given(into) || given(state)
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
  TRY(given(into) ? runInto() : runMerge());
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
