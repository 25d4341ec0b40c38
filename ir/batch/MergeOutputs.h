// One result of the outputs of micro-batches.
#pragma once

#include "ir/plan/Plan.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// leaves[k][l]: value of output leaf l of micro-batch k; samples[k]: its samples, the weights of a
/// mean. Builds the model's result tree (named tuples become tuples). A single micro-batch gives
/// the model's own result, also for leaves with the rule List. Values that should be concatenated
/// but have another structure in some micro-batch, such as other keys of a dict, become a list with
/// a value per micro-batch. With `warnings`, so do values that the rule does not fit: different
/// ones that should be the same, tensors whose other sizes differ; it gets a sentence for each such
/// leaf. Errors: Other when the micro-batches' values do not fit together, naming the leaf.
llvm::Expected<c10::IValue> mergeOutputs(const Signature &signature,
                                         llvm::ArrayRef<std::vector<c10::IValue>> leaves,
                                         llvm::ArrayRef<int64_t> samples,
                                         std::vector<std::string> *warnings = nullptr);

/// Makes the path of a result, for messages: most merges need none.
using PathOf = llvm::function_ref<std::string()>;

/// One of these results; `parts`: its values of micro-batches. `hasExample` says that an example
/// showed the rule, and `warning`, if given, gets the sentence. Errors: those of mergeOutputs,
/// without the name of the result.
llvm::Expected<c10::IValue> mergeResult(const OutputLeaf &leaf, PathOf path,
                                        llvm::ArrayRef<c10::IValue> parts,
                                        llvm::ArrayRef<int64_t> samples, bool hasExample,
                                        std::string *warning = nullptr);

/// The leaves of one result, in the signature's order. Errors: Other when the value does not have
/// the tree's shape.
llvm::Expected<std::vector<c10::IValue>> flattenOutputs(const Signature &signature,
                                                        const c10::IValue &result);

} // namespace pipec
