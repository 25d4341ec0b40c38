// The discovery of a batch for models that are functions.
#pragma once

#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/Discovery.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Leaves of the last of these calls, all on one copy of the model.
using LeafModel = llvm::function_ref<llvm::Expected<Values>(std::vector<Values> calls)>;

/// The tree of a result: its only leaf, or a tuple.
inline void setTree(Signature &signature) {
  signature.outputs = {};
  if (signature.leaves.size() < 2)
    return;
  signature.outputs.kind = OutputTree::Kind::Tuple;
  for (size_t l = 0; l < signature.leaves.size(); ++l) {
    signature.outputs.children.emplace_back();
    signature.outputs.children.back().leaf = l;
  }
}

inline llvm::Expected<BatchDiscovery> discover(Signature &signature, const Values &inputs,
                                               const std::vector<bool> &given, LeafModel model,
                                               DiscoveryOptions options = {}) {
  setTree(signature);
  options.batchDimGiven = given;
  auto run = [&](std::vector<Values> calls) -> llvm::Expected<std::vector<c10::IValue>> {
    std::vector<c10::IValue> results;
    for (size_t count = 1; count <= calls.size(); ++count) {
      std::vector<Values> soFar;
      for (size_t k = 0; k < count; ++k)
        soFar.push_back(ownCopies(calls[k]));
      llvm::Expected<Values> leaves = model(std::move(soFar));
      if (!leaves)
        return leaves.takeError();
      results.push_back(leaves->size() == 1 ? leaves->front()
                                            : c10::IValue(c10::ivalue::Tuple::create(*leaves)));
    }
    return results;
  };
  return discoverBatch(signature, inputs, options,
                       [&](std::vector<std::vector<Values>> all, const RunRules &) {
                         std::vector<llvm::Expected<std::vector<c10::IValue>>> results;
                         for (std::vector<Values> &calls : all)
                           results.push_back(run(std::move(calls)));
                         return results;
                       });
}

/// Why the batch is not cut; empty otherwise. Throws what failed.
inline std::string notCut(Signature &signature, const Values &inputs,
                          const std::vector<bool> &given, LeafModel model) {
  llvm::Expected<BatchDiscovery> found = discover(signature, inputs, given, model);
  if (!found)
    throw std::runtime_error(describe(found.takeError()).message);
  return found->notCut;
}

} // namespace pipec
