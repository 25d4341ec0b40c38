#include "compiler/PipelineTable.h"

#include "compiler/Pipelines.h"
#include "ir/support/Check.h"
#include "llvm/Support/raw_ostream.h"
#include "passes/Pass.h"
#include "passes/Registry.h"

namespace pipec {

namespace {

/// A step that is not a pass: it needs the model's file, example inputs, or the disk.
void printStep(llvm::raw_ostream &os, const char *name, const char *what) {
  os << "| " << name << " | no | " << what << " |\n";
}

/// The rows of passes come from the pipeline that a compile runs.
void printPasses(llvm::raw_ostream &os, const PassPipeline &pipeline, const char *remark = "") {
  for (const PipelineStep &step : pipeline) {
    const PassInfo *info = findPass(step.name);
    PIPEC_ASSERT(info, "our own pipeline has passes of the registry only");
    os << "| [" << step.name << "](#" << step.name << ")"
       << (pipelineText(step) == step.name ? "" : " `" + pipelineText(step) + "`") << " | yes | "
       << remark << info->description << " |\n";
  }
}

} // namespace

void printPipelineMarkdown(llvm::raw_ostream &os) {
  const CompileOptions options;
  os << "# The passes\n\n`pipe-opt FILE --passes a,b{option=1},fixpoint(c,d)` runs passes by name. "
        "`fixpoint` repeats its passes until a\nwhole round changes nothing. The verifier runs "
        "after each pass that changed the model. docs/ir.md describes the text that passes "
        "read.\n\n## The pipeline\n\nThe steps of a compile, in order. A step that is not a pass "
        "needs the model's file, example inputs or an output directory. Text has\nnone of these, "
        "so `pipe-opt` does not offer these steps.\n\n| step | pass of `pipe-opt` | what it does "
        "|\n|---|---|---|\n";
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
            "puts the graph into the form that TorchScript's own writer produces, so that stage "
            "files hold the same graph");
  printStep(os, "run the source",
            "with `--inputs`: finds batch dimensions, sizes and merge rules by test runs at "
            "several batch sizes");
  printStep(os, "estimate-costs", "for automatic cuts: the cost of every operator on the inputs");
  printPasses(os, stagePipeline(options));
  printStep(os, "outline-stages, emit",
            "writes one module per stage, with the model's own hierarchy and names, its file, and "
            "the plan");
  printStep(os, "validate",
            "proves that the files, read back and linked, equal the source; with `--inputs` "
            "compares the bits of their results");
  printStep(os, "publish", "`MANIFEST`, then one rename");
}

} // namespace pipec
