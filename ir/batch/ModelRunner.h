// How experiments run a model, independent of who owns the model.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

#include <mutex>
#include <optional>
#include <vector>

namespace pipec {

using Values = std::vector<c10::IValue>;

/// Calls a fresh copy of the model, with its saved state, once per entry, in order, each with one
/// value per argument. Returns the result of each call; later calls do not change it. Errors: those
/// of the model.
using ModelRunner =
    llvm::function_ref<llvm::Expected<std::vector<c10::IValue>>(std::vector<Values> calls)>;

/// What is special about some of several experiments.
struct RunRules {
  size_t deciding = 0; // the first ones: if one of them fails, others may be left out and then fail
                       // with that error
  size_t repeated = 0; // the last ones: they run, although earlier ones have the same calls
};

/// Runs several such experiments, each on its own copy, in parallel if possible. Returns the
/// results of each experiment, in order.
using ModelRuns = llvm::function_ref<std::vector<llvm::Expected<std::vector<c10::IValue>>>(
    std::vector<std::vector<Values>> experiments, const RunRules &rules)>;

/// The rule of the deciding experiments, for an implementation of ModelRuns. Several threads may
/// use it at once.
class DecidingRuns {
public:
  /// Returns the result of `run`. After a deciding run has failed, those that do not decide are not
  /// started and return its error.
  llvm::Expected<Values> start(bool decides, llvm::function_ref<llvm::Expected<Values>()> run);

private:
  std::mutex mutex_;
  std::optional<ErrorText> refused_; // by a deciding run
};

/// Runs one experiment with a runner of several. Errors: those of the model.
llvm::Expected<std::vector<c10::IValue>> runOne(ModelRuns runAll, std::vector<Values> calls);

/// Whether the model runs on the arguments that `make` returns; each call gets its own copy. False,
/// too, if `make` throws because the arguments cannot be resized: a refusal is a valid answer.
bool doesRun(ModelRunner run, llvm::function_ref<Values()> make);

/// The first line of the message, for a sentence that quotes it as a reason.
std::string firstLineOf(llvm::Error error);

/// Calls of one copy of the model: the arguments as they were before the call, and the results.
struct Experiment {
  std::vector<Values> calls;
  std::vector<c10::IValue> results;
};

} // namespace pipec
