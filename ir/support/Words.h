// Phrases that messages share: "did you mean ...?", and counted nouns.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace pipec {

/// The most similar of `names` (the first of equals), or empty if none is close: at most a third of
/// the letters differ, or the name is the last part of a dotted one ("head" of "decoder.head").
std::string nearestName(llvm::StringRef name, llvm::ArrayRef<std::string> names);

/// "did you mean X?", or `otherwise` if no name is close.
std::string didYouMean(llvm::StringRef name, llvm::ArrayRef<std::string> names,
                       const std::string &otherwise = "");

/// "1 cut", "2 cuts".
std::string counted(size_t number, const std::string &noun);

/// "a, b and 3 others": the first `most` names, and how many there are beside them.
std::string someOf(llvm::ArrayRef<std::string> names, size_t most);

} // namespace pipec
