#include "tools/report/MergeText.h"

#include "ir/support/Quantities.h"
#include "ir/support/Words.h"
#include "tools/cli/ToolMain.h"
#include "tools/report/Table.h"

namespace pipec {

namespace {

constexpr size_t kMostKept = 3; // names in a message

/// A training has values for all that its method uses. Whether that is the method of this file, an
/// artifact alone knows.
void noteKept(const MergeRequest &request, const std::vector<std::string> &kept) {
  const std::string what =
      fmt::format("{} of {} {} as in the file: {}", counted(kept.size(), "tensor"), request.into,
                  kept.size() == 1 ? "is" : "are", someOf(kept, kMostKept));
  const bool hasCheckpoint = !request.checkpoint.empty();
  if (hasCheckpoint || request.artifact.empty())
    printWarning(fmt::format("{}; {} has no values for them, which is right only if the trained "
                             "method does not use them",
                             what, hasCheckpoint ? request.checkpoint : request.state));
  else
    printNote(what + "; the compiled method does not use them");
}

/// The stages hold one method. Where it is not forward, for instance that of a model joined with
/// its loss, the merged model has none.
void noteOnMethod(const MergeRequest &request, const std::string &method) {
  const std::string weights =
      request.checkpoint.empty() ? "" : " --checkpoint " + request.checkpoint;
  printNote(fmt::format("the only method of the merged model is {0}, which was compiled; for the "
                        "model with its own methods and these weights: pipe-merge {1}{2} --into "
                        "MODEL.pt -o OUT.pt",
                        method, request.artifact, weights));
}

} // namespace

void noteMerge(const MergeRequest &request, const MergeReport &report) {
  for (const std::string &warning : report.warnings)
    printWarning(warning);
  if (const std::string &method = report.plan.signature.method; method != "forward")
    noteOnMethod(request, method);
}

void noteMergeInto(const MergeRequest &request, const MergeIntoReport &report) {
  for (const std::string &warning : report.warnings)
    printWarning(warning);
  if (!report.kept.empty())
    noteKept(request, report.kept);
  if (!report.unsaved.empty())
    printWarning(fmt::format("{} lacks {}, which a training changes and which {} as in {}: a state "
                             "file has parameters and buffers only; if the training wrote "
                             "checkpoints, pass --checkpoint DIR in place of --state",
                             request.state, someOf(report.unsaved, kMostKept),
                             report.unsaved.size() == 1 ? "is" : "are", request.into));
  if (!report.ofLoss.empty())
    printNote(fmt::format("left out: {} of the loss, which {} does not have: {}",
                          counted(report.ofLoss.size(), "tensor"), request.into,
                          someOf(report.ofLoss, kMostKept)));
}

void printMerge(llvm::raw_ostream &out, const MergeRequest &request, const MergeReport &report) {
  Table table({{"method"},
               {"stages", Table::Right},
               {"operators", Table::Right},
               {"weights", Table::Right},
               {"size", Table::Right}});
  table.addRow({report.plan.signature.method, std::to_string(report.plan.stages.size()),
                std::to_string(report.operators), std::to_string(report.weights),
                formatBytes(report.bytes)});
  table.print(out);
  out << "\nverified: read back, it equals the stages linked together"
      << (request.checkpoint.empty() ? ", " + report.plan.sourceDigest.substr(0, 19) + "..."
                                     : std::string(", with the values of the checkpoint"))
      << "\nwrote " << request.output << '\n';
}

void printMergeInto(llvm::raw_ostream &out, const MergeRequest &request,
                    const MergeIntoReport &report) {
  out << "replaced " << counted(report.tensors, "tensor") << " of " << request.into << "\nwrote "
      << request.output << " (" << formatBytes(report.bytes) << ")\n";
}

llvm::json::Object mergeJson(const MergeReport &report) {
  return llvm::json::Object{{"method", report.plan.signature.method},
                            {"source_digest", report.plan.sourceDigest},
                            {"stages", static_cast<int64_t>(report.plan.stages.size())},
                            {"operators", static_cast<int64_t>(report.operators)},
                            {"weights", static_cast<int64_t>(report.weights)},
                            {"bytes", report.bytes}};
}

llvm::json::Object mergeIntoJson(const MergeIntoReport &report) {
  return llvm::json::Object{{"tensors", static_cast<int64_t>(report.tensors)},
                            {"kept", llvm::json::Array(report.kept)},
                            {"of_loss", llvm::json::Array(report.ofLoss)},
                            {"unsaved", llvm::json::Array(report.unsaved)},
                            {"bytes", report.bytes}};
}

} // namespace pipec
