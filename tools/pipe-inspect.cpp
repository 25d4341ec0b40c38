// pipe-inspect: shows the content of an artifact or of a TorchScript file.
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/TorchMain.h"
#include "tools/inspect/InspectArtifact.h"
#include "tools/inspect/InspectModel.h"

using namespace pipec;
namespace cl = llvm::cl;

namespace {

StringOption model(cl::Positional, cl::Required, cl::value_desc("MODEL.pipe|MODEL.pt"),
                   cl::desc("an artifact, or a TorchScript file"));
FlagOption json("json", cl::desc("print one JSON document instead of the tables"));
FlagOption schedule("schedule", cl::desc("also draw the schedule: one row per rank, with predicted "
                                         "times, or one step per action if the plan has no costs"));
StringOption html(
    "html", cl::value_desc("FILE"),
    cl::desc(
        "write one HTML page about an artifact: stages and channels, load and memory, the schedule "
        "over time, what is proved, modules; the page needs no other file and no script"));
StringOption trace("trace", cl::value_desc("FILE.json"),
                   cl::desc("with --html: a trace that pipe-run --trace wrote; the page shows the "
                            "measured step and the simulated one"));
StringOption comms("comms", cl::value_desc("FILE"),
                   cl::desc("write the schedule of an artifact as PyTorch's table with sends and "
                            "receives (compute_comms), which PyTorch runs unchanged; exits 2 if a "
                            "channel does not go to the next stage or transmits a weight"));
FlagOption force("force", cl::desc("replace existing files of --html and --comms"));
StringListOption libraries("load-library", cl::value_desc("LIB.so"),
                           cl::desc("load custom operators that a MODEL.pt or the stages of an "
                                    "artifact use"));
StringOption inputs("inputs", cl::value_desc("FILE|TEXT"),
                    cl::desc("example inputs of a MODEL.pt, as for pipe-compile: adds a column "
                             "with each module's share of the estimated cost"));
StringOption method("method", cl::value_desc("NAME"), cl::init("forward"),
                    cl::desc("method of a MODEL.pt that gets the --inputs (default: forward)"));

llvm::Expected<ExitCode> run() {
  const InspectCommand command{.model = model,
                               .html = html,
                               .trace = trace,
                               .comms = comms,
                               .inputs = inputs,
                               .method = method,
                               .libraries = libraries,
                               .schedule = schedule,
                               .json = json,
                               .force = force};
  TRY(llvm::sys::fs::is_directory(model) ? inspectArtifact(command) : inspectModel(command));
  return ExitCode::Success;
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(
      argc, argv,
      {"pipe-inspect",
       "shows what is in an artifact (stages, channels, training) or in a TorchScript file "
       "(modules)",
       "MODEL.pipe|MODEL.pt [options]",
       {"pipe-inspect model.pipe --schedule", "pipe-inspect model.pipe --html model.html",
        "pipe-inspect model.pt", "pipe-inspect model.pt --inputs 'f32[8,3,224,224]'"},
       [] { return artifactParts(model); }},
      run);
}
