// A pipeline or a reference behind one interface, as pipe-run runs it.
#pragma once

#include "tools/run/RunCommand.h"
#include "tools/run/RunTimes.h"
#include "tools/run/Trainer.h"

#include <functional>
#include <memory>

namespace pipec {

struct Runner {
  std::function<llvm::Expected<c10::IValue>(const std::vector<c10::IValue> &, StepStats &)> infer;
  std::function<const Signature &()> signature;
  std::function<llvm::Expected<std::vector<c10::IValue>>(const Arguments &)> bind;
  std::function<std::vector<int64_t>()> peakMemory;
  std::function<std::vector<std::string>()> notes; // after a run
  std::optional<Trainer> trainer;                  // of a training
  std::function<int64_t()> microBatches;           // of the last run
  int64_t byDefault = 1;                           // micro-batches
  int64_t fixedMicroBatches = 0;                   // by a table; 0: any number
  int64_t replicas = 1;
  /// Of an artifact: the times of the last steps, and its plan.
  std::shared_ptr<RunTimes> times = nullptr;
  std::function<const Plan &()> plan = nullptr;
  /// Of an artifact: refuses inputs that a run would refuse, by types and sizes alone.
  std::function<llvm::Error(const std::vector<c10::IValue> &)> check = nullptr;
};

/// Loads the model of the command, and adds to the report what it runs on. Errors: those of
/// Pipeline::load, Reference::load and of the options.
llvm::Expected<Runner> makeRunner(const RunCommand &command, RunReport &report);

} // namespace pipec
