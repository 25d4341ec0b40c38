// Arguments for the experiments, made from an example: other numbers of samples, parts, other
// values.
#pragma once

#include "ir/batch/CutCandidates.h"

namespace pipec {

bool hasFractions(const at::Tensor &tensor);

/// The arguments with that many samples, see resizeBatch.
Values resized(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples);

/// Changes the tensors of the arguments that are cut.
Values mapCut(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims,
              llvm::function_ref<at::Tensor(const at::Tensor &, int64_t)> change);

/// `count` samples from `begin` on.
Values partOf(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t begin,
              int64_t count);

/// The first `samples` samples of the arguments that are cut; samples repeat if there are fewer.
/// Other arguments stay whole.
Values firstSamples(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples);

/// The samples of these numbers, in this order.
Values reordered(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims,
                 const std::vector<int64_t> &order);

/// Other values: floats times `factor`, others rearranged along the last dimension, so that indices
/// stay in range. Same strides.
at::Tensor otherValues(const at::Tensor &tensor, double factor);

/// Changes the values of one sample.
Values poke(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t sample);

/// Whether an argument that is cut has one number per sample, equal for all, such as a label or a
/// mask: then the example does not show what depends on it.
bool hasEqualLabels(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims);

/// The arguments with two different numbers in place of such equal ones, also in arguments that are
/// not cut. Two halves of 3 samples have unequally many of each: `inBoth` says whether the first
/// one has both.
Values mixedLabels(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, bool inBoth);

/// The fractions of arguments that are cut, moved by up to 0.4 of the largest one, so that none is
/// 0 or infinite, and then multiplied by `factor`. Labels as above stay.
Values movedNumbers(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, double factor);

/// How whole numbers of a repeated sample change. Counts: the number of occurrences of a value
/// changes from sample to sample, as for tokens and ignored labels of real samples. Order: every
/// other sample is reversed, which keeps the existing values.
enum class Spread { Counts, Order };

/// Makes distinct samples from repetitions of one of `samples` samples: each is rolled along the
/// last dimension and a little smaller than the one before, or changed by `how`. Otherwise one
/// sample would be in two parts, which hides differences of the parts.
Values spread(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples, Spread how,
              bool &distinct);

/// Numbers that differ instead of equal ones, around the same value: an example of zeros or ones
/// does not show what depends on what.
at::Tensor uneven(const at::Tensor &tensor);

} // namespace pipec
