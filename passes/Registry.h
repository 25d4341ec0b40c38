// The registry of all passes.
#pragma once

#include "passes/Pass.h"

namespace pipec {

/// All passes in order of the pipeline.
llvm::ArrayRef<PassInfo> allPasses();

/// nullptr if there is none; `nearest` is then set to the most similar name, if one is close.
const PassInfo *findPass(llvm::StringRef name, std::string *nearest = nullptr);
const PassInfo *findPass(llvm::ArrayRef<PassInfo> table, llvm::StringRef name,
                         std::string *nearest = nullptr);

} // namespace pipec
