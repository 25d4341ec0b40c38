#include "tools/report/BatchReport.h"

#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "tools/report/PlanReport.h"
#include "tools/report/Table.h"

#include <fmt/format.h>

namespace pipec {

namespace {

std::string shapeText(const TensorSpec &spec) { return spec.known ? shapeOf(spec) : "-"; }

std::string equalWord(const ResultCheck &check) {
  switch (check.equal) {
  case ResultCheck::Equal::Yes:
    return "yes";
  case ResultCheck::Equal::No:
    return "no";
  case ResultCheck::Equal::NotTried:
    return "not tried";
  }
  return "";
}

std::string equalText(const ResultCheck &check) {
  return check.reason.empty() ? equalWord(check) : equalWord(check) + ": " + check.reason;
}

ResultCheck checkOf(const CompileReport &report, size_t leaf) {
  return leaf < report.results.size() ? report.results[leaf] : ResultCheck{};
}

} // namespace

void printBatch(llvm::raw_ostream &out, const CompileReport &report) {
  const Signature &signature = report.plan.signature;
  Table inputs({{"input"}, {"type"}, {"shape"}, {"given to a micro-batch"}});
  for (const InputSpec &input : signature.inputs)
    inputs.addRow({input.name, input.type, shapeText(input.tensor), cutText(input)});
  printHeading(out, "inputs");
  inputs.print(out);
  out << '\n';
  const std::vector<std::string> paths = outputPaths(signature);
  Table results({{"result"}, {"type"}, {"shape"}, {"merged by"}, {"equals the whole batch"}});
  for (size_t l = 0; l < paths.size(); ++l) {
    const OutputLeaf &leaf = signature.leaves[l];
    results.addRow({paths[l], leaf.type, shapeText(leaf.tensor), mergeText(signature, leaf),
                    equalText(checkOf(report, l))});
  }
  printHeading(out, "results");
  results.print(out);
}

llvm::json::Array inputsJson(const CompileReport &report) {
  llvm::json::Array inputs;
  for (const InputSpec &input : report.plan.signature.inputs) {
    llvm::json::Object entry{{"name", input.name}, {"type", input.type}, {"batch_dim", nullptr}};
    if (input.batchDim)
      entry["batch_dim"] = *input.batchDim;
    if (!input.parts.empty()) {
      llvm::json::Object parts;
      for (const PartDim &part : input.parts)
        parts[part.path] = part.dim ? llvm::json::Value(*part.dim) : llvm::json::Value(nullptr);
      entry["parts"] = std::move(parts);
    }
    if (input.tensor.known)
      entry["shape"] = shapeOf(input.tensor);
    inputs.push_back(std::move(entry));
  }
  return inputs;
}

llvm::json::Array resultsJson(const CompileReport &report) {
  llvm::json::Array results;
  const Signature &signature = report.plan.signature;
  const std::vector<std::string> paths = outputPaths(signature);
  for (size_t l = 0; l < paths.size(); ++l) {
    const ResultCheck check = checkOf(report, l);
    llvm::json::Object entry{{"path", paths[l]},
                             {"type", signature.leaves[l].type},
                             {"merge", toString(signature.leaves[l].merge)},
                             {"equals_whole_batch", equalWord(check)}};
    if (signature.leaves[l].tensor.known)
      entry["shape"] = shapeOf(signature.leaves[l].tensor);
    if (!check.reason.empty())
      entry["reason"] = check.reason;
    results.push_back(std::move(entry));
  }
  return results;
}

} // namespace pipec
