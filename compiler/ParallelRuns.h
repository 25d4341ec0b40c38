// Independent test runs side by side. Bits depend on the number of threads inside an operator, so
// each run keeps one, and several runs share the cores:
//
//   core 0:  run 2 (heaviest)......  run 1 ...
//   core 1:  run 3 .....  run 0 ....
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <cstdint>

namespace pipec {

/// Threads for runs that need about as much memory each as this process holds by itself now (files
/// are mapped once for all of them): at most one per core of this process, and together at most
/// half of the machine's memory. At least 1.
size_t threadsForRuns();

/// Calls run(i) once for each element of `weights`, with which its time grows, on up to `threads`
/// threads, the caller's among them, under the settings of a test run (InferenceSettings with one
/// intra-op thread). The heaviest start first. What `run` throws is an error. After an error, runs
/// of lower index still happen: the returned error is that of the lowest index, whatever the number
/// of threads.
llvm::Error forEachParallel(llvm::ArrayRef<int64_t> weights, size_t threads,
                            llvm::function_ref<llvm::Error(size_t)> run);

} // namespace pipec
