#include "compiler/PipelineTable.h"

#include "compiler/Pipelines.h"
#include "ir/plan/Check.h"
#include "llvm/Support/raw_ostream.h"
#include "passes/Pipeline.h"

namespace pipec {

namespace {

/// A step that is no pass: it needs the model's file, example inputs, or the disk.
void printStep(llvm::raw_ostream &os, const char *name, const char *what) {
  os << "| " << name << " | no | " << what << " |\n";
}

/// The rows of passes come from the pipeline that a compile runs.
void printPasses(llvm::raw_ostream &os, const std::string &pipeline, const char *remark = "") {
  for (const PipelineStep &step : llvm::cantFail(parsePipeline(pipeline))) {
    const PassInfo *info = findPass(step.name);
    PIPEC_ASSERT(info, "our own pipeline has passes of the registry only");
    os << "| [" << step.name << "](#" << step.name << ")"
       << (step.options.empty() ? "" : " `" + pipelineText(step) + "`") << " | yes | " << remark
       << info->description << " |\n";
  }
}

} // namespace

void printPipelineMarkdown(llvm::raw_ostream &os) {
  const CompileOptions options;
  os << "# The passes\n\n"
        "`pipe-opt FILE --passes a,b{option=1},fixpoint(c,d)` runs passes by name; `fixpoint` "
        "repeats its passes until a\nwhole round changes nothing. The verifier runs after each "
        "pass that changed the model. docs/ir.md describes the text that they read.\n\n"
        "## The pipeline\n\n"
        "What a compile does, in order. Steps that are no passes need the model's file, example "
        "inputs or a place for files, which text\nhas not: `pipe-opt` does not know them.\n\n"
        "| step | pass of `pipe-opt` | what it does |\n|---|---|---|\n";
  printStep(os, "import", "reads the file through a mapping, so that weights are not copied");
  printPasses(os, frontPipeline(options));
  const std::string rounds =
      fmt::format("with `--inputs`: finds the types that hold for every accepted input by running "
                  "the model; with the passes of the next rows up to {} times, until nothing "
                  "changes",
                  kTypedRounds);
  printStep(os, "infer-types", rounds.c_str());
  printPasses(os, typedPipeline(), "with `--inputs`: ");
  printStep(os, "write and read back",
            "the graph as TorchScript's own writer leaves it, so that stage files hold the same");
  printStep(os, "run the source",
            "with `--inputs`: batch dimensions, sizes and merge rules from runs at three sizes");
  printStep(os, "estimate-costs",
            "where nothing says where to cut: the arithmetic of every operator on the inputs");
  printPasses(os, stagePipeline(options));
  printStep(os, "outline-stages, emit",
            "one module per stage with the model's own hierarchy and names, its file, the plan");
  printStep(os, "validate",
            "the files as read back and linked are the source; with `--inputs` they give its bits");
  printStep(os, "publish", "`MANIFEST`, then one rename");
}

} // namespace pipec
