// Batches that are lists with an entry per sample, as detectors take their pictures.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Returns the reason why the batch is not cut, if only lists seem to follow it and their entries
/// are samples. The test: with one more entry the model gives more results, and no result has the
/// first dimension of the entries, whatever their number. That dimension is then no batch and may
/// have a fixed size. Without a cut, lists of tensors as long as the first one get the entry. Empty
/// otherwise: a model with a fixed batch may accept any number of features. Takes two runs.
std::string samplesInLists(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                           const std::vector<bool> &batchDimGiven, ModelRunner run);

/// Returns the reason why the batch is not cut, if a list beside the tensors that are cut has an
/// entry per sample, as the lengths or sizes of pictures. The test: one more sample and the entries
/// of one more run together, but each alone fails or changes nothing. Empty otherwise: a list of
/// kernel sizes may have any length. Takes up to three runs for each list whose length is that of
/// the batch.
std::string listsBesideBatch(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                             ModelRunner run);

/// A sentence for lists that are cut along a dimension of their entries, although one more entry
/// gives more results, as samples would: which dimension is cut, and what gives the list whole.
/// Empty: there are none, or their entries have several shapes, as levels of features have. Takes
/// two runs.
std::string noteOnEntries(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                          const std::vector<bool> &batchDimGiven, ModelRunner run);

} // namespace pipec
