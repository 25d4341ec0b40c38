// The source of the cuts, as options and choose-cuts name it.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace pipec {

/// Chosen by cost, by the model's markers, or before the modules that are named.
enum class CutSource { Auto, Markers, At };

llvm::StringRef toString(CutSource source); // auto markers at

} // namespace pipec
