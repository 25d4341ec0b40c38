#include "ir/plan/LossLeaf.h"

#include "ir/plan/OutputPath.h"
#include "ir/support/Error.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipec {

namespace {

bool isLoss(const OutputLeaf &leaf) {
  const TensorSpec &tensor = leaf.tensor;
  const llvm::StringRef dtype = tensor.dtype;
  if (!tensor.known) // without an example
    return leaf.type == "Tensor";
  return leaf.type == "Tensor" && tensor.shape.empty() && dtype.contains("float");
}

std::string describeLeaf(const OutputLeaf &leaf) {
  if (!leaf.tensor.known)
    return leaf.type;
  std::vector<std::string> sizes;
  for (const Dim &dim : leaf.tensor.shape)
    sizes.push_back(toString(dim));
  return fmt::format("{}[{}]", leaf.tensor.dtype, fmt::join(sizes, ","));
}

/// Those that could be meant.
std::string lossesOf(const Signature &signature) {
  std::vector<std::string> names;
  const std::vector<std::string> paths = outputPaths(signature);
  for (size_t l = 0; l < paths.size(); ++l)
    if (isLoss(signature.leaves[l]))
      names.push_back(paths[l]);
  return llvm::join(names, ", ");
}

} // namespace

llvm::Expected<size_t> lossLeaf(const Signature &signature, const std::string &path) {
  size_t leaf = 0;
  if (!path.empty()) {
    llvm::Expected<size_t> found = leafOfPath(signature, path);
    if (!found)
      return withContext(found.takeError(), "--loss-output");
    leaf = *found;
  }
  const std::string losses = lossesOf(signature);
  if (path.empty() && signature.leaves.size() != 1)
    return makeError(ExitCode::Usage,
                     fmt::format("--train: expected a model whose only result is its loss, or "
                                 "--loss-output, got {} results",
                                 signature.leaves.size()),
                     losses.empty() ? "no result is a floating-point number: return the loss"
                                    : "pass --loss-output with one of " + losses);
  if (!isLoss(signature.leaves[leaf]))
    return makeError(ExitCode::Usage,
                     fmt::format("--train: expected {} to be the loss, one floating-point number, "
                                 "got {}",
                                 resultName(outputPath(signature, leaf)),
                                 describeLeaf(signature.leaves[leaf])),
                     losses.empty() ? "return the loss of the micro-batch, for instance its mean"
                                    : "pass --loss-output with one of " + losses);
  return leaf;
}

} // namespace pipec
