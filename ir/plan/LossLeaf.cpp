#include "ir/plan/LossLeaf.h"

#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipec {

bool hasOneElement(const TensorSpec &tensor) {
  return llvm::all_of(tensor.shape, [](const Dim &dim) { return dim == Dim{.constant = 1}; });
}

bool mayBeLoss(const OutputLeaf &leaf) {
  const TensorSpec &tensor = leaf.tensor;
  const llvm::StringRef dtype = tensor.dtype;
  if (!tensor.known) // without an example
    return leaf.type == "Tensor";
  return leaf.type == "Tensor" && hasOneElement(tensor) && dtype.contains("float");
}

bool mayBeCount(const OutputLeaf &leaf) {
  if (leaf.type == "int" || leaf.type == "float")
    return true;
  const llvm::StringRef dtype = leaf.tensor.dtype;
  return leaf.type == "Tensor" &&
         (!leaf.tensor.known || (hasOneElement(leaf.tensor) && !dtype.contains("complex")));
}

namespace {

bool isWholeNumber(const OutputLeaf &leaf) {
  return leaf.type == "int" || (mayBeCount(leaf) && leaf.tensor.known &&
                                llvm::StringRef(leaf.tensor.dtype).contains("int"));
}

/// Of an example of one sample, a tensor of shape [1] may be the label of that sample.
bool mayBeLabel(const OutputLeaf &leaf) { return leaf.type != "int" && !leaf.tensor.shape.empty(); }

std::string describeLeaf(const OutputLeaf &leaf) {
  if (!leaf.tensor.known)
    return leaf.type;
  std::vector<std::string> sizes;
  for (const Dim &dim : leaf.tensor.shape)
    sizes.push_back(toString(dim));
  return fmt::format("{}[{}]", leaf.tensor.dtype, fmt::join(sizes, ","));
}

/// The results that could be the loss, for the message.
std::string lossesOf(const Signature &signature) {
  std::vector<std::string> names;
  const std::vector<std::string> paths = outputPaths(signature);
  for (size_t l = 0; l < paths.size(); ++l)
    if (mayBeLoss(signature.leaves[l]))
      names.push_back(paths[l]);
  return llvm::join(names, ", ");
}

/// The comma between two paths is not inside of a key that is written as a JSON string.
std::pair<std::string, std::optional<std::string>> atComma(const std::string &path) {
  bool quoted = false;
  for (size_t i = 0; i < path.size(); ++i) {
    if (quoted && path[i] == '\\')
      ++i;
    else if (path[i] == '"')
      quoted = !quoted;
    else if (path[i] == ',' && !quoted)
      return {path.substr(0, i), path.substr(i + 1)};
  }
  return {path, std::nullopt};
}

llvm::Expected<LossLeaves> leavesOfPath(const Signature &signature, const std::string &path) {
  LossLeaves leaves;
  const auto [loss, count] = atComma(path);
  llvm::Expected<size_t> found = leafOfPath(signature, loss);
  if (!found)
    return withContext(found.takeError(), "--loss-output");
  leaves.loss = *found;
  if (!count)
    return leaves;
  found = leafOfPath(signature, *count);
  if (!found)
    return withContext(found.takeError(), "--loss-output");
  leaves.count = *found;
  if (leaves.loss == leaves.count || !mayBeCount(signature.leaves[*leaves.count]))
    return makeError(ExitCode::Usage,
                     fmt::format("--loss-output: expected {} to be the count of a sum, one number, "
                                 "got {}",
                                 resultName(outputPath(signature, *leaves.count)),
                                 leaves.loss == leaves.count
                                     ? "the sum itself"
                                     : describeLeaf(signature.leaves[*leaves.count])));
  return leaves;
}

bool isShownSum(const Signature &signature, size_t leaf, const std::vector<bool> &shown) {
  return leaf < shown.size() && shown[leaf] &&
         signature.leaves[leaf].merge.kind == MergeRule::Kind::Sum;
}

bool isShownOther(const Signature &signature, size_t leaf, const std::vector<bool> &shown) {
  return leaf < shown.size() && shown[leaf] &&
         signature.leaves[leaf].merge.kind != MergeRule::Kind::Sum;
}

std::string waysToNamePair(const Signature &signature) {
  const std::string loss = outputPath(signature, 0), count = outputPath(signature, 1);
  return fmt::format("pass --loss-output {0} if {1} alone is the loss, such as a mean, or "
                     "--loss-output {0},{2} if it is a sum and {3} counts what it sums",
                     loss, resultName(loss), count, resultName(count));
}

/// Two numbers of which test runs show that they are no sum and its count: divided by the number of
/// correct answers, say, a mean would be trained with a wrong gradient.
llvm::Error noPair(const Signature &signature, size_t leaf) {
  return makeError(ExitCode::Usage,
                   fmt::format("--train: expected a model whose only result is its loss, or "
                               "--loss-output, got 2 results, and test runs show that {} is no sum "
                               "over samples",
                               resultName(outputPath(signature, leaf))),
                   waysToNamePair(signature));
}

/// How the loss of several results can be named.
std::string waysToName(const Signature &signature) {
  const std::string losses = lossesOf(signature);
  if (losses.empty())
    return "no result is a floating-point number: return the loss, or pass a module that computes "
           "it with --loss LOSS.pt";
  std::string ways = "pass --loss-output with one of " + losses;
  if (signature.leaves.size() == 2 && mayBeLoss(signature.leaves[0]) &&
      mayBeCount(signature.leaves[1]))
    ways += fmt::format(", or {},{} for a sum and its count", outputPath(signature, 0),
                        outputPath(signature, 1));
  return ways;
}

llvm::Error severalResults(const Signature &signature) {
  return makeError(ExitCode::Usage,
                   fmt::format("--train: expected a model whose only result is its loss, or "
                               "--loss-output, got {} results",
                               signature.leaves.size()),
                   waysToName(signature));
}

} // namespace

bool mayBePair(const Signature &signature) {
  return signature.outputs.kind == OutputTree::Kind::Tuple && signature.leaves.size() == 2 &&
         signature.outputs.children.size() == 2 && mayBeLoss(signature.leaves[0]) &&
         isWholeNumber(signature.leaves[1]);
}

llvm::Expected<LossLeaves> lossLeaves(const Signature &signature, const std::string &path,
                                      const std::vector<bool> &shown) {
  LossLeaves leaves;
  if (!path.empty()) {
    LossLeaves found = TRY(leavesOfPath(signature, path));
    leaves = found;
  } else if (mayBePair(signature)) {
    for (const size_t leaf : {0, 1})
      if (isShownOther(signature, leaf, shown))
        return noPair(signature, leaf);
    if (mayBeLabel(signature.leaves[1]) &&
        !(isShownSum(signature, 0, shown) && isShownSum(signature, 1, shown)))
      return severalResults(signature);
    leaves = {0, 1};
  } else if (signature.leaves.size() != 1) {
    return severalResults(signature);
  }
  const std::string losses = lossesOf(signature);
  if (!mayBeLoss(signature.leaves[leaves.loss]))
    return makeError(ExitCode::Usage,
                     fmt::format("--train: expected {} to be the loss, one floating-point number, "
                                 "got {}",
                                 resultName(outputPath(signature, leaves.loss)),
                                 describeLeaf(signature.leaves[leaves.loss])),
                     losses.empty()
                         ? "return the loss of the micro-batch, for instance its mean, or "
                           "pass a module that computes it with --loss LOSS.pt"
                         : "pass --loss-output with one of " + losses);
  return leaves;
}

void describePair(const Signature &signature, const LossLeaves &leaves,
                  const std::vector<bool> &shown, std::vector<std::string> &notes,
                  std::vector<std::string> &warnings) {
  if (!leaves.count)
    return;
  const std::string sum = outputPath(signature, leaves.loss);
  const std::string count = outputPath(signature, *leaves.count);
  if (isShownSum(signature, leaves.loss, shown) && isShownSum(signature, *leaves.count, shown))
    notes.push_back(fmt::format("the loss is result {} divided by result {}, a sum and its count; "
                                "--loss-output {} makes {} alone the loss",
                                sum, count, sum, resultName(sum)));
  else
    warnings.push_back(fmt::format("{} and {} are taken for a sum over samples and its count, "
                                   "which no test run shows; {}",
                                   resultName(sum), resultName(count), waysToNamePair(signature)));
}

std::string warningOnSum(const Signature &signature, const LossLeaves &leaves,
                         const std::vector<bool> &shown) {
  if (leaves.count || !isShownSum(signature, leaves.loss, shown))
    return "";
  return fmt::format("the loss ({}) is a sum over samples, of which a training takes the mean over "
                     "micro-batches, weighted by samples, so its gradients depend on the number of "
                     "micro-batches; pass --loss-reduction sum to pipe-run --train, or return a "
                     "mean",
                     resultName(outputPath(signature, leaves.loss)));
}

} // namespace pipec
