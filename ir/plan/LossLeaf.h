// Which result of the model is the loss, where the backward of a training starts.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// Whether a tensor has one element in every run: shape [], [1], [1, 1]. PyTorch's backward() takes
/// these as a loss.
bool hasOneElement(const TensorSpec &tensor);

/// Whether a result may be the loss: a floating-point tensor of one element, as far as it is known.
bool mayBeLoss(const OutputLeaf &leaf);
/// Whether a result may count the elements of a loss: one number, as far as it is known.
bool mayBeCount(const OutputLeaf &leaf);

/// The output leaves that are the loss: one number, or a pair of a sum and the count of what it
/// sums.
struct LossLeaves {
  size_t loss = 0;
  std::optional<size_t> count;

  bool operator==(const LossLeaves &) const = default;
};

/// The output leaves of `path`, which is one path, or two with a comma for a sum and its count.
/// With an empty path: the model's only result, or a tuple of a floating-point number and an
/// integer, which is such a pair unless test runs show that one of them is no sum over samples; a
/// tensor of shape [1] is the count only if they show that both are sums.
/// `shown`: of each leaf, whether test runs confirm its merge rule; empty: of none. Errors: Usage
/// for a path that names no result, for a loss that is known not to be a floating-point tensor of
/// one number, for a count that is known not to be a number, and for an empty path with other
/// results; each names the results.
llvm::Expected<LossLeaves> lossLeaves(const Signature &signature, const std::string &path,
                                      const std::vector<bool> &shown = {});

/// Whether the model's results have the types of a sum and its count: only test runs show whether
/// they are that, and not a mean and some other number.
bool mayBePair(const Signature &signature);

/// For a loss whose path is not given: describes the pair that was found, as a note, or as a
/// warning if no test run shows that it is one. Adds nothing for a loss that is no pair.
void describePair(const Signature &signature, const LossLeaves &leaves,
                  const std::vector<bool> &shown, std::vector<std::string> &notes,
                  std::vector<std::string> &warnings);

/// For a training that is not told how the losses of micro-batches combine, and takes their mean:
/// a warning if test runs show that the loss is a sum over samples; `shown` as in lossLeaves().
/// Empty: they do not.
std::string warningOnSum(const Signature &signature, const LossLeaves &leaves,
                         const std::vector<bool> &shown);

} // namespace pipec
