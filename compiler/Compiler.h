// The compiler's public interface: load a model, choose the cuts, compile, save. No LibTorch
// header.
#pragma once

#include "compiler/CompileOptions.h"
#include "compiler/CompileReport.h"
#include "compiler/Compiled.h"
#include "ir/artifact/Finding.h"

#include <memory>
#include <string>
#include <vector>

namespace pipec {

struct InternalOptions;

/// Compiles one model, any number of times. One thread at a time; several compilers may run in
/// several threads. A call runs on the caller's thread, and on return the thread's settings (grad
/// mode, intra-op threads, graph optimiser) are as before. LibTorch's print handler gets what the
/// model prints in its first run on the example. Its further test runs, several at a time on their
/// own threads, print nothing.
class Compiler {
public:
  /// Remembers the path. Every compile maps the file again, so it starts from the saved state. The
  /// file must not change during a compile. Problems of the file are errors of compile(); load
  /// itself does not fail today.
  static llvm::Expected<Compiler> load(const std::string &modelPath);
  Compiler(Compiler &&);
  Compiler &operator=(Compiler &&);
  ~Compiler();

  /// Cuts, emits into a temporary directory beside `outDir`, validates the files as read back, then
  /// publishes: `outDir` appears complete or not at all. The result holds the report and nothing of
  /// the artifact. `options` is read during the call only. Errors, with their exit codes:
  ///   Usage 2        options that do not fit the model or one another; `outDir` exists without
  ///                  `force`, or is no artifact; the model does not run on the example inputs
  ///   Unreadable 3   the model's or the inputs' file is not what it should be
  ///   Unsupported 4  a model that cannot be cut, or not into so many stages; names operator and
  ///                  source line
  ///   IO 8           a file cannot be opened or written; the disk is full
  ///   OutOfMemory 10
  ///   Internal 70    the proof or the comparison with the source failed
  llvm::Expected<CompileReport> compile(const CompileOptions &options, const std::string &outDir,
                                        bool force = false);

  /// The same without a target: look at the report, then decide whether to save. Errors: as above.
  llvm::Expected<Compiled> compile(const CompileOptions &options);

  /// Proves later that the artifact in `artifact` was made from this model. It normalises the model
  /// as the plan says the compile did, without running it, links the stages, and compares every
  /// operator, every weight and the plan; then what both train; then the stages that evaluate, if
  /// there are any, whose findings begin with "evaluation: ". The findings name the first
  /// difference of stages, and each trained parameter that differs: other-operator, other-weight,
  /// other-plan; none: proved. Errors: those of compile() for a model that cannot be read or
  /// lowered, those of openArtifact, BadArtifact for stages that do not fit their plan.
  llvm::Expected<std::vector<Finding>> compareWith(const std::string &artifact);

  /// Traces a compile() for debugging: runs its passes once more and writes into the existing
  /// `directory` pipeline.txt, the passes in the form of `pipe-opt --passes`, and
  /// passes/NN-PASS.ir, the model after each pass that changed it, without weights. Failures of the
  /// passes are not reported. Errors: IO.
  llvm::Error trace(const CompileOptions &options, const std::string &directory);

  /// The passes that compile() would run, in pipe-opt's form.
  static std::string pipelineText(const CompileOptions &options);

private:
  friend llvm::Expected<Compiler> loadWith(const std::string &modelPath, InternalOptions internal);
  struct Impl;
  Compiler(const std::string &modelPath, InternalOptions internal);
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
