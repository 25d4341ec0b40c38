#include "ir/plan/MergeBySizes.h"

#include "ir/plan/PlanNames.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace pipec {

namespace {

using Kind = MergeRule::Kind;

/// The first dimension that has the only batch size.
std::optional<int64_t> dimOfSize(const TensorSpec &spec, int64_t batch) {
  for (size_t d = 0; d < spec.shape.size(); ++d)
    if (batch > 0 && spec.shape[d] == Dim{.perBatch = 0, .constant = batch, .dynamic = false})
      return static_cast<int64_t>(d);
  return std::nullopt;
}

std::string words(const MergeRule &rule) {
  return rule.kind == Kind::Concat ? fmt::format("concat along {}", rule.dim)
                                   : toString(rule.kind).str();
}

bool isVarying(const OutputLeaf &leaf) {
  return llvm::any_of(leaf.tensor.shape, [](const Dim &dim) { return dim.dynamic; });
}

/// A dimension that grows with the batch may be among the sizes that differ anyway.
std::string againstVarying(const OutputLeaf &leaf) {
  const std::vector<Dim> &shape = leaf.tensor.shape;
  const bool joined = leaf.merge.kind == Kind::Concat;
  if (!joined && leaf.merge.kind != Kind::Same && leaf.merge.kind != Kind::List)
    return "expected concat, same or list for a tensor with sizes, got " + words(leaf.merge);
  if (joined && leaf.merge.dim >= static_cast<int64_t>(shape.size()))
    return fmt::format("expected a dimension below {}, got {}", shape.size(), leaf.merge.dim);
  if (joined && !shape[leaf.merge.dim].dynamic &&
      (shape[leaf.merge.dim].perBatch == 0 || shape[leaf.merge.dim].constant != 0))
    return "expected a dimension that grows with the batch, got " + words(leaf.merge);
  return "";
}

bool isFloat(const TensorSpec &spec) { return llvm::StringRef(spec.dtype).contains("float"); }

} // namespace

std::optional<int64_t> growingDim(const TensorSpec &spec) {
  std::optional<int64_t> growing;
  for (size_t d = 0; d < spec.shape.size(); ++d) {
    const Dim &dim = spec.shape[d];
    if (!dim.dynamic && dim.perBatch == 0)
      continue;
    if (growing || dim.dynamic || dim.constant != 0)
      return std::nullopt;
    growing = static_cast<int64_t>(d);
  }
  return growing;
}

std::string mergeAgainstSizes(const Signature &signature, const OutputLeaf &leaf) {
  if (!leaf.tensor.known)
    return leaf.merge.kind == Kind::Sum || leaf.merge.kind == Kind::Join
               ? "expected concat, same, list or mean, got " + words(leaf.merge)
               : "";
  if (!signature.batchSymbolic && isVarying(leaf))
    return ""; // the example's own sizes decided, and the plan does not have them
  if (hasVaryingSizes(signature) && isVarying(leaf))
    return againstVarying(leaf);
  const bool mean = leaf.tensor.shape.empty() && isFloat(leaf.tensor);
  const std::optional<int64_t> joined = signature.batchSymbolic
                                            ? growingDim(leaf.tensor)
                                            : dimOfSize(leaf.tensor, signature.batchSize);
  std::vector<MergeRule> expected;
  if (mean)
    expected = {{Kind::Mean, 0}};
  else if (joined)
    expected = {{Kind::Concat, *joined}};
  else
    expected = {{Kind::Same, 0}, {Kind::List, 0}};
  if (llvm::is_contained(expected, leaf.merge))
    return "";
  std::string texts = words(expected.front());
  if (expected.size() > 1)
    texts += " or " + words(expected.back());
  return fmt::format("expected {} as its sizes say, got {}", texts, words(leaf.merge));
}

std::string mergeProblem(const OutputLeaf &leaf) {
  const TensorSpec &spec = leaf.tensor;
  const MergeRule &rule = leaf.merge;
  if (rule.kind == Kind::Join) {
    if (spec.known || leaf.type == "Tensor")
      return "join is for lists, got a tensor";
    return "";
  }
  if (!spec.known)
    return "";
  if (rule.kind == Kind::Concat && spec.shape.empty())
    return "concat is for tensors with dimensions, got a single number";
  if (rule.kind == Kind::Concat && rule.dim >= static_cast<int64_t>(spec.shape.size()))
    return fmt::format("expected a dimension below {}, got {}", spec.shape.size(), rule.dim);
  if (rule.kind == Kind::Mean && !isFloat(spec))
    return fmt::format("a mean is of floats, got {}", spec.dtype);
  if (rule.kind == Kind::Sum && spec.dtype == "bool")
    return "a sum is of numbers, got bool";
  return "";
}

} // namespace pipec
