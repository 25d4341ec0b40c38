// Calls of LLVM's command line library that LLVM 14 and newer versions spell differently, each
// wrapped once. No spelling serves all versions. They are not in ir/support/Llvm.h, because only
// the commands have a command line.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"

namespace pipec {

/// The variable cl::TopLevelSubCommand up to 15, SubCommand::getTopLevel since.
inline llvm::ArrayRef<llvm::cl::Option *> topLevelPositionals() {
#if LLVM_VERSION_MAJOR < 16
  return llvm::cl::TopLevelSubCommand->PositionalOpts;
#else
  return llvm::cl::SubCommand::getTopLevel().PositionalOpts;
#endif
}

/// cl::ParseCommandLineOptions has a parameter for a file system since 22. Long options need two
/// dashes; errors go to `errors`.
inline bool parseWithDoubleDash(llvm::ArrayRef<const char *> arguments, llvm::raw_ostream &errors) {
  const int count = static_cast<int>(arguments.size());
#if LLVM_VERSION_MAJOR < 22
  return llvm::cl::ParseCommandLineOptions(count, arguments.data(), "", &errors,
                                           /*EnvVar=*/nullptr, /*LongOptionsUseDoubleDash=*/true);
#else
  return llvm::cl::ParseCommandLineOptions(count, arguments.data(), "", &errors,
                                           /*VFS=*/nullptr, /*EnvVar=*/nullptr,
                                           /*LongOptionsUseDoubleDash=*/true);
#endif
}

} // namespace pipec
