// The options of pipe-run, read and checked. Those of a training are in TrainOptions.h.
#pragma once

#include "runtime/Pipeline.h"
#include "runtime/Reference.h"
#include "tools/cli/OptionValues.h"
#include "tools/report/RunReport.h"
#include "tools/run/TrainOptions.h"

#include <optional>

namespace pipec {

struct RunCommand {
  std::string model;
  bool isArtifact = false;              // else a .pt
  std::optional<TrainOptions> training; // nullopt: inference
  std::string inputs;                   // empty: not given
  std::string schedule;                 // a name or a file; empty: the plan's
  std::optional<int64_t> microBatches;  // of each replica
  int64_t replicas = 1;                 // 0: as many as fit
  std::optional<uint64_t> seed;
  std::vector<std::string> devices; // empty: the CPU
  std::vector<std::string> libraries;
  std::string output, expect;          // files; empty: not given
  const StringOption *trace = nullptr; // null: not given
  std::optional<double> rtol, atol;
  int64_t repeat = 1, warmup = 0;
  bool force = false, json = false;
};

/// Errors: Usage for options that do not fit together or do not fit the kind of model.
llvm::Expected<RunCommand> readRunCommand();

/// MODEL, also where the other options are wrong.
std::string modelOfCommand();

/// For an artifact. Errors: those of reading the file of --schedule.
llvm::Expected<PipelineOptions> pipelineOptions(const RunCommand &command);
/// For a .pt. Errors: Usage for several devices, a bad --batch-dim or --merge.
llvm::Expected<ReferenceOptions> referenceOptions(const RunCommand &command);

/// Adds the options of the reference alone to the report.
void noteReferenceOptions(RunReport &report);
/// Adds the effective options of all runs, with defaults. An option without a default is left out
/// unless it was given.
void noteOptions(const RunCommand &command, RunReport &report);

} // namespace pipec
