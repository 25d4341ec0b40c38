#include "ir/batch/discovery/ResultSnapshots.h"

#include "ir/batch/MicroBatch.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/DenseSet.h"

#include <ATen/core/Tensor.h>

namespace pipec {

static const void *memoryOf(const at::Tensor &tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                                                  : nullptr;
}

c10::IValue apartFrom(const c10::IValue &result, llvm::ArrayRef<c10::IValue> state) {
  llvm::SmallDenseSet<const void *, 16> written;
  for (const c10::IValue &value : state)
    value.visit([&](const c10::IValue &inner) { // objects too
      if (inner.isTensor())
        written.insert(memoryOf(inner.toTensor()));
      return false;
    });
  written.erase(nullptr);
  return mapTensors(result, [&](const at::Tensor &tensor) {
    return written.count(memoryOf(tensor)) ? ownCopies({c10::IValue(tensor)}).front().toTensor()
                                           : tensor;
  });
}

} // namespace pipec
