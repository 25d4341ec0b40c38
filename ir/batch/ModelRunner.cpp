#include "ir/batch/ModelRunner.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"

namespace pipec {

llvm::Expected<Values> DecidingRuns::start(bool decides,
                                           llvm::function_ref<llvm::Expected<Values>()> run) {
  if (!decides) {
    std::lock_guard lock(mutex_);
    if (refused_)
      return makeError(refused_->code, refused_->message, refused_->help);
  }
  llvm::Expected<Values> results = run();
  if (results || !decides)
    return results;
  std::lock_guard lock(mutex_);
  refused_ = describe(results.takeError());
  return makeError(refused_->code, refused_->message, refused_->help);
}

llvm::Expected<std::vector<c10::IValue>> runOne(ModelRuns runAll, std::vector<Values> calls) {
  std::vector<std::vector<Values>> one;
  one.push_back(std::move(calls));
  return std::move(runAll(std::move(one), {}).front());
}

bool doesRun(ModelRunner run, llvm::function_ref<Values()> make) {
  Values arguments;
  llvm::Error error = guardTorchVoid(ExitCode::Other, "changing the example inputs",
                                     [&] { arguments = ownCopies(make()); });
  if (!error)
    error = run({std::move(arguments)}).takeError();
  const bool does = !error;
  llvm::consumeError(std::move(error));
  return does;
}

std::string firstLineOf(llvm::Error error) {
  const std::string message = describe(std::move(error)).message;
  return llvm::StringRef(message).split('\n').first.str();
}

} // namespace pipec
