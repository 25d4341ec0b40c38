#include "ir/SamplesInLists.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace pipec {

namespace {

/// The list with its last entry twice.
c10::IValue longer(const c10::IValue &value) {
  if (!value.isList() || value.toListRef().empty())
    return value;
  c10::List<c10::IValue> list = value.toList().copy();
  list.push_back(value.toListRef().back());
  return list;
}

} // namespace

std::string samplesInLists(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                           const std::vector<bool> &batchDimGiven, LeafRunner run) {
  if (llvm::is_contained(batchDimGiven, true))
    return "";
  std::string first;
  std::vector<c10::IValue> call(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!signature.inputs[i].batchDim)
      continue;
    if (!inputs[i].isList())
      return "";
    if (first.empty())
      first = signature.inputs[i].name;
    call[i] = longer(inputs[i]);
  }
  if (first.empty())
    return "";
  llvm::Error error = run({ownCopies(call)}).takeError();
  const bool takesIt = !error;
  llvm::consumeError(std::move(error));
  return takesIt ? fmt::format("{} is a list with an entry per sample", first) : "";
}

} // namespace pipec
