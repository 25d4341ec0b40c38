// Runs a pipeline of passes and checks what they report.
#pragma once

#include "ir/text/ModelText.h"
#include "passes/Pass.h"
#include "passes/PassTimes.h"
#include "passes/Registry.h"

#include <functional>
#include <map>

namespace pipec {

/// One run of one pass, as the afterPass hook gets it.
struct PassRun {
  std::string text; // "choose-cuts{stages=2}"
  const PassInfo *info = nullptr;
  bool changed = false;
  int64_t ns = 0;
  const AnyModel *model = nullptr; // after the pass; valid during the call, like the context
  const PassContext *context = nullptr;
};

struct PassManagerOptions {
#ifdef PIPEC_CHECKS
  static constexpr bool kCheckHonesty = true;
#else
  static constexpr bool kCheckHonesty = false;
#endif
  llvm::ArrayRef<PassInfo> registry = allPasses(); // the passes that names refer to
  bool verifyEach = true; // before the first pass and after each pass that changed something
  bool checkHonesty = kCheckHonesty; // compare the pass's report ("changed" or not) with the model
                                     // before and after it, weights included
  std::string printAfter;            // a pass name, or "all"
  bool printChanged = false;         // print after each pass that changed something
  llvm::raw_ostream *out = nullptr;  // target of prints; nullptr: stderr
  std::function<llvm::Error(const PassRun &)> afterPass; // an error stops the pipeline
};

/// A list of passes, built once and run any number of times. One thread at a time. A pass that left
/// the model unchanged is not run again before another pass has changed the model, except with
/// checkHonesty.
class PassManager {
public:
  explicit PassManager(PassManagerOptions options = {}) : options_(std::move(options)) {}

  /// Appends steps, whose passes are in the registry.
  void add(const PassPipeline &steps);
  /// Appends the passes of a pipeline text. Errors: those of parsePipeline.
  llvm::Error addPipeline(llvm::StringRef text);

  /// The pipeline in addPipeline's form.
  std::string text() const { return pipelineText(steps_); }

  /// Runs all passes. Returns true if any changed the model. On failure the model is in an unknown
  /// state. Errors: those of the pass; Internal naming the pass that broke the model or misreported
  /// a change; Usage if a pass gets the wrong kind of model (a staged pass before the split).
  llvm::Expected<bool> run(AnyModel &model, PassContext &context);
  /// For a caller that needs nothing of the context.
  llvm::Expected<bool> run(AnyModel &model);

  /// Times of all runs so far, summed by pass in order of first run.
  const std::vector<PassTime> &times() const { return times_; }

private:
  llvm::Expected<bool> runSteps(llvm::ArrayRef<PipelineStep> steps, AnyModel &model);
  llvm::Expected<bool> runStep(const PipelineStep &step, AnyModel &model);
  llvm::Expected<bool> runGroup(const PipelineStep &group, AnyModel &model);
  llvm::Expected<bool> runNamedGroup(const PassInfo &info, const PassGroup &group, AnyModel &model);
  llvm::Expected<bool> runPass(const PipelineStep &step, AnyModel &model);
  llvm::Error runNow(const PipelineStep &step, PassRun &run, AnyModel &model);
  llvm::Error checkAfter(const PassRun &run);
  llvm::Error checkHonesty(const PassRun &run);
  void printAfter(const PassRun &run);
  void print(const std::string &step, bool changed, const AnyModel &model) const;

  PassManagerOptions options_;
  PassPipeline steps_;
  PassContext *context_ = nullptr; // of the current run
  std::vector<PassTime> times_;
  std::string fingerprint_; // of the model before the next pass; only with checkHonesty
  size_t changes_ = 0;      // of this run, so far
  /// By pass with options: `changes_` when it last reported no change. While it is the same, the
  /// pass would find the same model again.
  std::map<std::string, size_t> settledAt_;
  std::shared_ptr<const AliasAnalysis> aliases_; // of the model as it is now, once a pass asked
};

} // namespace pipec
