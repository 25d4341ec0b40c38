#include "ir/plan/OutputPath.h"

#include "ir/support/Error.h"
#include "ir/support/Json.h"
#include "ir/support/Llvm.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {

namespace {

constexpr const char *kWholeResult = "result";

bool readsAsOneWord(llvm::StringRef key) {
  return !key.empty() && llvm::none_of(key, [](unsigned char c) {
    return c <= ' ' || c == 0x7f || llvm::StringRef(".,=:#\"'\\").contains(c);
  });
}

std::string nameOfChild(const OutputTree &tree, size_t child) {
  if (child >= tree.keys.size())
    return std::to_string(child);
  return pathKey(tree.keys[child]);
}

void collect(const OutputTree &tree, const std::string &path, std::vector<std::string> &paths) {
  if (tree.kind == OutputTree::Kind::Leaf) {
    if (tree.leaf < paths.size())
      paths[tree.leaf] = leafPath(path);
    return;
  }
  for (size_t i = 0; i < tree.children.size(); ++i)
    collect(tree.children[i], childPath(path, tree, i), paths);
}

/// The leaf at `path`, where the fields of a NamedTuple may also be named by their places.
std::optional<size_t> leafAt(const OutputTree &tree, llvm::StringRef path) {
  if (tree.kind == OutputTree::Kind::Leaf)
    return path.empty() ? std::optional(tree.leaf) : std::nullopt;
  for (size_t i = 0; i < tree.children.size(); ++i) {
    std::vector<std::string> names = {nameOfChild(tree, i)};
    if (tree.kind == OutputTree::Kind::Tuple)
      names.push_back(std::to_string(i));
    for (const std::string &name : names) {
      llvm::StringRef rest = path;
      if (rest.consume_front(name) && (rest.empty() || rest.consume_front(".")))
        if (std::optional<size_t> leaf = leafAt(tree.children[i], rest))
          return leaf;
    }
  }
  return std::nullopt;
}

} // namespace

std::string childPath(const std::string &path, const OutputTree &tree, size_t child) {
  return (path.empty() ? "" : path + ".") + nameOfChild(tree, child);
}

std::string leafPath(const std::string &path) { return path.empty() ? kWholeResult : path; }

std::string pathKey(llvm::StringRef key) {
  return readsAsOneWord(key) ? key.str() : jsonText(llvm::json::fixUTF8(key));
}

std::vector<std::string> outputPaths(const Signature &signature) {
  std::vector<std::string> paths(signature.leaves.size());
  collect(signature.outputs, "", paths);
  for (size_t leaf = 0; leaf < paths.size(); ++leaf)
    if (paths[leaf].empty())
      paths[leaf] = "output " + std::to_string(leaf);
  return paths;
}

std::string outputPath(const Signature &signature, size_t leaf) {
  const std::vector<std::string> paths = outputPaths(signature);
  return leaf < paths.size() ? paths[leaf] : "output " + std::to_string(leaf);
}

std::string resultName(llvm::StringRef path) {
  return path == "result" ? "the result" : "result " + path.str();
}

llvm::Expected<size_t> leafOfPath(const Signature &signature, llvm::StringRef path) {
  const std::vector<std::string> paths = outputPaths(signature);
  if (const auto at = llvm::find(paths, path); at != paths.end())
    return static_cast<size_t>(at - paths.begin());
  if (const std::optional<size_t> leaf = leafAt(signature.outputs, path);
      leaf && *leaf < signature.leaves.size())
    return *leaf;
  if (paths.size() == 1 && startsWith(signature.leaves.front().type, "Dict("))
    return makeError(ExitCode::Usage, fmt::format("the model has no result {}", path.str()),
                     "its dict has other keys in other runs, and so is one result; return the "
                     "value beside the dict, as in (loss, dict)");
  return makeError(ExitCode::Usage, fmt::format("the model has no result {}", path.str()),
                   didYouMean(path, paths, "its results are " + llvm::join(paths, ", ")));
}

} // namespace pipec
