#include "tools/report/ArtifactReport.h"

#include "ir/plan/PlanNames.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Words.h"
#include "tools/report/PlanReport.h"
#include "tools/report/StageModules.h"
#include "tools/report/Table.h"
#include "tools/report/TrainingFacts.h"

namespace pipec {

namespace {

void printSignature(llvm::raw_ostream &out, const Signature &signature) {
  if (!signature.inputs.empty()) {
    out << "\n";
    printHeading(out, "inputs");
    inputsTable(signature).print(out);
    if (const std::string sizes = sizesSentence(signature); !sizes.empty())
      out << sizes << "\n";
  }
  out << "\n";
  printHeading(out, "results");
  outputsTable(signature).print(out);
}

llvm::json::Value actionRows(const Schedule &rows) {
  llvm::json::Array ranks;
  for (const std::vector<Action> &actions : rows.ranks) {
    llvm::json::Array row;
    for (const Action &action : actions)
      row.push_back(toString(action));
    ranks.push_back(std::move(row));
  }
  return ranks;
}

} // namespace

void printArtifact(llvm::raw_ostream &out, const Artifact &artifact, const Schedule &rows,
                   const PlanTiming &timing, const std::string &timeline) {
  const Plan &plan = artifact.plan;
  out << artifact.directory << ": " << counted(plan.stages.size(), "stage") << " on "
      << counted(plan.ranks, "rank") << ", " << plan.scheduleName << ", "
      << counted(plan.microBatches, "micro-batch") << " by default, compiled for "
      << (plan.mode == Mode::Train ? "training" : "inference") << "\n";
  out << "artifact " << artifact.id.substr(0, 12) << " of source "
      << plan.sourceDigest.substr(0, 19) << ", made by pipec " << plan.toolVersion
      << " with LibTorch " << plan.torchVersion << "\n\n";
  printStages(out, plan);
  if (!plan.channels.empty())
    out << "\n";
  printChannels(out, plan);
  if (!plan.ties.empty())
    out << "\n";
  printTies(out, plan);
  if (plan.training)
    out << "\n";
  printTrainingFacts(out, plan, rows, timing);
  printSignature(out, plan.signature);
  out << "\n";
  printStageModules(out, plan);
  if (timeline.empty())
    return;
  out << "\n";
  printHeading(out, "schedule");
  printPainted(out, timeline);
}

llvm::json::Object artifactJson(const Artifact &artifact, const Schedule &rows,
                                const PlanTiming &timing) {
  const Plan &plan = artifact.plan;
  llvm::json::Object document{{"id", artifact.id},
                              {"source_digest", plan.sourceDigest},
                              {"mode", toString(plan.mode)},
                              {"stages", stagesJson(plan)},
                              {"channels", channelsJson(plan)},
                              {"ties", tiesJson(plan)},
                              {"modules", stageModulesJson(plan)},
                              {"batch", batchJson(plan)},
                              {"schedule", llvm::json::Object{{"name", plan.scheduleName},
                                                              {"microbatches", plan.microBatches},
                                                              {"actions", actionRows(rows)}}}};
  if (plan.training)
    document["training"] = trainingFactsJson(plan, rows, timing);
  return document;
}

} // namespace pipec
