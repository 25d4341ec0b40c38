// Names of a model's results: the path from the whole result to one leaf, as reports, errors and
// options write it.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// Returns one path per leaf of `signature.outputs`, in order of the leaves. A path has the keys of
/// dicts, the fields of named tuples and the numbers of elements from 0, joined by dots, as
/// "logits", "0" or "past.0.1". It is "result" if the result is a single tensor or value. A key
/// that would not read back as one word (it is empty, or has a dot, blank, comma, "=", ":", "#", a
/// quote, a backslash or a control character) is written as a JSON string: past."a.b".1. No two
/// leaves have the same path.
std::vector<std::string> outputPaths(const Signature &signature);

/// One key as a part of a path.
std::string pathKey(llvm::StringRef key);

/// The path of a child of `tree`, whose own path is `path`. The path of the whole tree is empty.
std::string childPath(const std::string &path, const OutputTree &tree, size_t child);

/// The path of a leaf: `path`, or "result" if the leaf is the whole tree.
std::string leafPath(const std::string &path);

/// The path of one leaf. Also for a signature that is not verified yet: "output 7" if the tree does
/// not have the leaf.
std::string outputPath(const Signature &signature, size_t leaf);

/// A path in a sentence: "the result", or "result past.0".
std::string resultName(llvm::StringRef path);

/// The leaf of a path. Errors: Usage naming the most similar existing path.
llvm::Expected<size_t> leafOfPath(const Signature &signature, llvm::StringRef path);

} // namespace pipec
