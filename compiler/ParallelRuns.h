// Runs independent test runs in parallel. Bits depend on the number of threads inside an operator,
// so each run has one thread, and several runs share the cores:
//
//   core 0:  run 2 (heaviest)......  run 1 ...
//   core 1:  run 3 .....  run 0 ....
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <cstdint>

namespace pipec {

/// Number of threads for runs that each need about as much memory as this process holds privately
/// now (all runs share mapped files): at most one per core of this process, and together at most
/// half of the machine's memory. At least 1.
size_t threadsForRuns();

/// Calls run(i) once for each element of `weights`, a measure of its time, on up to `threads`
/// threads. The caller's thread is one of them. Each has the settings of a test run
/// (InferenceSettings with one intra-op thread). The heaviest runs start first. An exception of
/// `run` becomes an error. After an error, runs of lower index still happen, so that the returned
/// error is that of the lowest index for any number of threads.
llvm::Error forEachParallel(llvm::ArrayRef<int64_t> weights, size_t threads,
                            llvm::function_ref<llvm::Error(size_t)> run);

} // namespace pipec
