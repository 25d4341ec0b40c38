// How experiments on a model are run, whoever owns the model.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

using Values = std::vector<c10::IValue>;

/// Calls a fresh copy of the model, whose state is as saved, once per entry, in order, each with
/// one value per argument. Gives the result of each call, which no later call changes. Errors:
/// those of the model.
using ModelRunner =
    llvm::function_ref<llvm::Expected<std::vector<c10::IValue>>(std::vector<Values> calls)>;

/// Several such experiments, each on a copy of its own, at the same time where that is possible.
/// Gives the results of each experiment, in order.
using ModelRuns = llvm::function_ref<std::vector<llvm::Expected<std::vector<c10::IValue>>>(
    std::vector<std::vector<Values>> experiments)>;

/// One experiment by a runner of several. Errors: those of the model.
llvm::Expected<std::vector<c10::IValue>> runOne(ModelRuns runAll, std::vector<Values> calls);

/// The first line of the message, for a sentence that gives it as a reason.
std::string firstLineOf(llvm::Error error);

/// Calls of one copy of the model, with arguments as they were before the call, and their results.
struct Experiment {
  std::vector<Values> calls;
  std::vector<c10::IValue> results;
};

} // namespace pipec
