#include "compiler/verify/MatchSource.h"

#include "compiler/verify/Validate.h"
#include "ir/support/Try.h"
#include "ir/support/Version.h"
#include "ir/text/CanonicalText.h"
#include "llvm/ADT/STLExtras.h"

#include <set>

namespace pipec {

namespace {

/// What only the compile knew, by its options and example runs: batch dimensions, shapes, merge
/// rules.
void copyRunFacts(const Plan &plan, Signature &signature) {
  signature.batchSymbolic = plan.signature.batchSymbolic;
  signature.batchSize = plan.signature.batchSize;
  for (size_t i = 0; i < signature.inputs.size() && i < plan.signature.inputs.size(); ++i) {
    signature.inputs[i].batchDim = plan.signature.inputs[i].batchDim;
    signature.inputs[i].parts = plan.signature.inputs[i].parts;
    signature.inputs[i].givenWhole = plan.signature.inputs[i].givenWhole;
    signature.inputs[i].tensor = plan.signature.inputs[i].tensor;
    signature.inputs[i].written |= plan.signature.inputs[i].written;
  }
  for (size_t i = 0; i < signature.leaves.size() && i < plan.signature.leaves.size(); ++i) {
    signature.leaves[i].merge = plan.signature.leaves[i].merge;
    signature.leaves[i].tensor = plan.signature.leaves[i].tensor;
  }
}

bool isFact(const Obligation &obligation) { return obligation.kind == Obligation::Kind::Fact; }

bool hadExample(const Plan &plan) {
  auto known = [](const auto &entry) { return entry.tensor.known; };
  return plan.signature.batchSize > 0 || !plan.normalisation.typeDecisions.empty() ||
         llvm::any_of(plan.obligations, isFact) || llvm::any_of(plan.signature.inputs, known) ||
         llvm::any_of(plan.signature.leaves, known);
}

void copyWrittenMarks(const Plan &plan, Model &source) {
  std::set<std::string> written;
  for (const StagePlan &stage : plan.stages)
    for (const StageAttribute &entry : stage.attributes)
      if (entry.written)
        written.insert(entry.name);
  for (Attribute &attribute : source.attributes)
    attribute.written |= written.count(attribute.name) > 0;
}

/// Before 1.1 plans did not have them.
void forgetFields(OutputTree &tree) {
  if (tree.kind == OutputTree::Kind::Tuple)
    tree.keys.clear();
  for (OutputTree &child : tree.children)
    forgetFields(child);
}

Finding findingOf(const SourceDifference &difference, const Model &source, const Plan &plan) {
  std::string where = difference.where, message = difference.message;
  if (difference.line)
    where = describeLine(source, *difference.line);
  if (difference.line && !where.empty())
    message += " (" + where + ")";
  if (plan.toolVersion != pipecVersion())
    message +=
        fmt::format("; pipec {} compiled it and this is pipec {}, which may normalise differently",
                    plan.toolVersion, pipecVersion());
  const char *code = difference.line            ? "other-operator"
                     : difference.where.empty() ? "other-plan"
                                                : "other-weight";
  return {code, where, message};
}

} // namespace

Normalisation normalisationOf(const CompileOptions &options, const TypeDecisions &decisions) {
  Normalisation result;
  if (options.trainingFlag != TrainingFlag::Saved)
    result.training = options.trainingFlag == TrainingFlag::True;
  result.keepEval = options.keepEval;
  result.typeDecisions = printDecisions(decisions);
  return result;
}

CompileOptions optionsOf(const Plan &plan) {
  CompileOptions options;
  options.method = plan.signature.method;
  options.mode = plan.mode;
  if (const std::optional<bool> training = plan.normalisation.training)
    options.trainingFlag = *training ? TrainingFlag::True : TrainingFlag::False;
  options.keepEval = plan.normalisation.keepEval;
  return options;
}

bool decisionsAreNumbers(const Plan &plan) {
  return plan.minor < 2 && !plan.normalisation.typeDecisions.empty();
}

llvm::Expected<std::vector<NormaliseAgain>> waysToNormalise(const Plan &plan) {
  std::vector<NormaliseAgain> ways;
  auto add = [&](bool withExample) -> TypeAnswers & {
    ways.push_back({{}, withExample});
    ways.back().answers.given = true;
    return ways.back().answers;
  };
  bool answered = false;
  if (!decisionsAreNumbers(plan)) {
    TypeDecisions decisions = TRY(parseDecisions(plan.normalisation.typeDecisions));
    TypeAnswers &recorded = add(hadExample(plan));
    recorded.decisions = std::move(decisions);
    llvm::copy_if(plan.obligations, std::back_inserter(recorded.facts), isFact);
    answered = !recorded.facts.empty() || !recorded.decisions.empty();
  }
  for (bool withExample : {true, false})
    if (ways.empty() || answered || withExample != ways.front().withExample)
      add(withExample);
  return ways;
}

llvm::Expected<std::optional<Finding>> compareModel(const Artifact &artifact, Model &source) {
  copyRunFacts(artifact.plan, source.signature);
  copyWrittenMarks(artifact.plan, source);
  if (artifact.plan.minor == 0)
    forgetFields(source.signature.outputs);
  SourceRecord record = recordSource(source);
  finish(record);
  std::optional<SourceDifference> difference =
      TRY(compareWithSource(artifact.directory, artifact.plan, record));
  if (!difference)
    return std::optional<Finding>();
  return std::optional<Finding>(findingOf(*difference, source, artifact.plan));
}

} // namespace pipec
