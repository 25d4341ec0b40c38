// One compile, from the file to the files of an artifact.
#pragma once

#include "compiler/FrontEnd.h"
#include "compiler/Planning.h"
#include "compiler/emit/ArtifactEmitter.h"
#include "compiler/verify/Validate.h"
#include "ir/artifact/ArtifactDir.h"

namespace pipec {

/// The state that the steps of a compile hand on. Path and options must outlive it. Used once.
class CompileRun {
public:
  CompileRun(const std::string &path, const CompileOptions &options)
      : options_(options), dumps_(options.dumpDir), phases_(report_, options.progress),
        frontEnd_(path, options, dumps_, phases_) {}

  /// Writes all files of the artifact into `writer`, proved as the options ask, and publishes
  /// nothing. Errors: of every step.
  llvm::Error compile(ArtifactWriter &writer);
  llvm::Error publish(ArtifactWriter &writer);

  /// The steps before the first file, for their dumps. Errors: as compile.
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
  llvm::Error plan(Source &source);
  void markWherePredicatesSay(Model &model) const;
  llvm::Expected<std::vector<size_t>> givenCuts(const Model &model);
  llvm::Expected<StagedModel> cut(Model model);
  llvm::Error writeStages(Staged &staged, ArtifactWriter &writer);
  llvm::Error prove(const Staged &staged, Plan &plan, const ArtifactWriter &writer);
  llvm::Error writePlan(Plan &plan, ArtifactWriter &writer);
  llvm::Error placeRanks(StagedModel &model) const;
  Plan planOf(const StagedModel &model) const;

  const CompileOptions &options_;
  CompileReport report_;
  PassDumps dumps_;
  Phases phases_;
  FrontEnd frontEnd_;
  Planning planning_;
  FormAnswers forms_; // that the types of the example gave
};

} // namespace pipec
