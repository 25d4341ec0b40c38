#include "tools/compile/CompileOutputs.h"

#include "ir/support/NewFile.h"
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"

namespace pipec {

llvm::Expected<std::optional<CaseWriter>> beginCase(const CompileCommand &command) {
  if (!command.recordCase)
    return std::nullopt;
  CaseWriter writer = TRY(CaseWriter::create(*command.recordCase, command.force));
  return std::optional<CaseWriter>(std::move(writer));
}

llvm::Error finishCase(CaseWriter &writer, const Plan &plan, const CompileCommand &command) {
  CaseSource source{command.model, {}, command.options.inputs, command.options.merges};
  if (command.options.trainingFlag == TrainingFlag::False)
    source.mode.training = false;
  source.mode.keepEval = command.options.keepEval;
  source.mode.loss = command.options.loss;
  source.mode.lossMethod = command.options.method;
  llvm::Error error = writer.record(plan, source);
  if (!error)
    error = writer.publish();
  if (!error)
    return error;
  return withContext(std::move(error),
                     command.target + " is written, but its case is not: --record-case");
}

llvm::Error refuseExistingCosts(const CompileCommand &command) {
  if (!command.emitCosts || command.force || !llvm::sys::fs::is_regular_file(*command.emitCosts))
    return llvm::Error::success();
  return makeError(
      ExitCode::Usage,
      fmt::format("--emit-costs: expected a new file, got {}, which exists", *command.emitCosts),
      "pass --force to replace it");
}

llvm::Error writeCosts(const CompileCommand &command, const CompileReport &report) {
  if (!command.emitCosts)
    return llvm::Error::success();
  NewFile file(*command.emitCosts);
  file.write(report.costTable.data(), report.costTable.size());
  file.publish(command.force);
  if (file.error() == 0)
    return llvm::Error::success();
  return failf(ExitCode::IO, "--emit-costs: cannot write {}: {}", *command.emitCosts,
               llvm::StringRef(std::generic_category().message(file.error())).lower());
}

} // namespace pipec
