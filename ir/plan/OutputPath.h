// Names of a model's results: the way from the whole result to one leaf, as reports, errors and
// options write it.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// One path per leaf of `signature.outputs`, in order of the leaves: the keys of dicts, the fields
/// of named tuples and the numbers of elements from 0, joined by dots, as "logits", "0" or
/// "past.0.1"; "result" where the result is a single tensor or value. A key that would not read
/// back as one word (it is empty, or has a dot, blank, comma, "=", ":", "#", a quote, a backslash
/// or a control character) stands as a JSON string: past."a.b".1. No two leaves have the same path.
std::vector<std::string> outputPaths(const Signature &signature);

/// One key as a part of a path.
std::string pathKey(llvm::StringRef key);

/// The path of one leaf. For a signature not yet verified, too: "leaf 7" where the tree has none.
std::string outputPath(const Signature &signature, size_t leaf);

/// A path as a sentence names it: "the result", or "result past.0".
std::string resultName(llvm::StringRef path);

/// The leaf of a path. Errors: Usage naming the nearest of the paths that exist.
llvm::Expected<size_t> leafOfPath(const Signature &signature, llvm::StringRef path);

} // namespace pipec
