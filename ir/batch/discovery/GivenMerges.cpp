#include "ir/batch/discovery/GivenMerges.h"

#include "ir/plan/MergeBySizes.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Error.h"
#include "ir/support/Llvm.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {

namespace {

/// The leaf of that path, or all leaves below it; "result" is the whole tree.
std::vector<size_t> leavesUnder(llvm::ArrayRef<std::string> paths, const std::string &path) {
  std::vector<size_t> leaves;
  for (size_t l = 0; l < paths.size(); ++l)
    if (paths[l] == path || path == "result" || startsWith(paths[l], path + "."))
      leaves.push_back(l);
  return leaves;
}

} // namespace

std::vector<bool> givenLeaves(const Signature &signature, llvm::ArrayRef<GivenMerge> merges) {
  const std::vector<std::string> paths = outputPaths(signature);
  std::vector<bool> given(paths.size());
  for (const auto &[path, rule] : merges)
    for (size_t leaf : leavesUnder(paths, path))
      given[leaf] = true;
  return given;
}

llvm::Error giveMerges(Signature &signature, llvm::ArrayRef<GivenMerge> merges) {
  const std::vector<std::string> paths = outputPaths(signature);
  for (const auto &[path, rule] : merges) {
    for (const auto &[other, otherRule] : merges)
      if (other == path && !(otherRule == rule))
        return failf(ExitCode::Usage, "--merge: expected one rule for {}, got {} and {}", path,
                     toString(rule), toString(otherRule));
    const std::vector<size_t> leaves = leavesUnder(paths, path);
    if (leaves.empty())
      return failf(ExitCode::Usage, "--merge: expected a result of the model ({}), got {}",
                   llvm::join(paths, ", "), path);
    for (size_t leaf : leaves) {
      OutputLeaf &it = signature.leaves[leaf];
      // For lists that follow the batch, concat means join.
      const bool keepsJoin =
          rule.kind == MergeRule::Kind::Concat && it.merge.kind == MergeRule::Kind::Join;
      if (!keepsJoin)
        it.merge = rule;
      if (const std::string problem = mergeProblem(it); !problem.empty())
        return failf(ExitCode::Usage, "--merge {}={}: {}", path, toString(rule), problem);
    }
  }
  return llvm::Error::success();
}

} // namespace pipec
