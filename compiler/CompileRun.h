// One compile: from the model's file to the files of an artifact.
#pragma once

#include "compiler/EvaluationCuts.h"
#include "compiler/FrontEnd.h"
#include "compiler/InternalOptions.h"
#include "compiler/Planning.h"
#include "compiler/emit/ArtifactEmitter.h"
#include "compiler/verify/Validate.h"
#include "ir/artifact/ArtifactWriter.h"
#include "ir/plan/LossLeaf.h"

namespace pipec {

/// The state that the steps of a compile share. Path and both options must outlive it. Used once.
class CompileRun {
public:
  CompileRun(const std::string &path, const CompileOptions &options,
             const InternalOptions &internal);

  /// Writes all files of the artifact into `writer`, with the checks that the options ask for. It
  /// does not publish them. Errors: those of every step.
  llvm::Error compile(ArtifactWriter &writer);
  llvm::Error publish(ArtifactWriter &writer);

  /// Runs the steps before the first file, for their dumps. Errors: as compile.
  llvm::Error stageOnly();

  CompileReport &report() { return report_; }
  const PassDumps &dumps() const { return dumps_; }
  /// The passes that run, with the places of the cuts once they are planned.
  std::string pipelineText() const;

private:
  struct Staged {
    StagedModel model;
    std::vector<ExampleRun> runs;
    SourceRecord source;
  };
  llvm::Expected<Staged> stage();
  llvm::Expected<Staged> cutSource(Source source);
  llvm::Error plan(Source &source);
  void markWherePredicatesSay(Model &model) const;
  llvm::Expected<Model> withGivenCuts(const Source &source);
  llvm::Error warnOfLongStages(Source &source);
  llvm::Expected<StagedModel> cut(Model model, PassContext &context);
  llvm::Error writeStages(Staged &staged, ArtifactWriter &writer);
  llvm::Error prove(Staged &staged, Plan &plan, const ArtifactWriter &writer);
  llvm::Error writePlan(Plan &plan, ArtifactWriter &writer);
  llvm::Error addEvaluation(const StagedModel &model, const Plan &plan, ArtifactWriter &writer);
  llvm::Expected<Plan> compileBeside(const StagedModel &training, const Plan &trained,
                                     ArtifactWriter &writer);
  llvm::Error readBackEvaluation(const ArtifactWriter &writer) const;
  llvm::Error placeRanks(StagedModel &model) const;
  Plan planOf(const StagedModel &model) const;
  llvm::Error findLoss(const Signature &signature, const std::vector<bool> &shown);
  llvm::Error proveGradients(const std::vector<ExampleRun> &runs, const StagedModel &stages,
                             Plan &plan, const ArtifactWriter &writer);

  const std::string &path_;
  const CompileOptions &options_;
  const InternalOptions &internal_;
  std::unique_ptr<CompileHook> hook_;
  CompileReport report_;
  PassDumps dumps_;
  Phases phases_;
  FrontEnd frontEnd_;
  Planning planning_;
  TypeDecisions decisions_;          // of the types of the example
  std::string norms_;                // of DiscoveryOptions
  std::optional<LossLeaves> loss_;   // of a training
  std::optional<PlannedCuts> given_; // of an evaluation: where the training is cut
  std::optional<Plan> evaluation_;   // of a training, once it is written
};

} // namespace pipec
