#include "passes/attributes/WrittenAttributes.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/TensorKey.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/AliasAnalysis.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>

namespace pipec {

namespace {

class WrittenAttributes {
public:
  WrittenAttributes(const Model &model, llvm::ArrayRef<c10::IValue> saved)
      : model_(model), saved_(saved), alias_(model) {}

  llvm::Expected<std::vector<bool>> find() const {
    std::vector<bool> written;
    for (size_t i = 0; i < model_.attributes.size(); ++i)
      written.push_back(writerOf(i, false) != nullptr);
    TRY(refuseShared());
    return written;
  }

private:
  /// A node that writes the attribute or its content; null if none does. ofTensors: only writes to
  /// tensors count.
  const torch::jit::Node *writerOf(size_t attribute, bool ofTensors) const {
    std::vector<size_t> work;
    std::set<size_t> seen;
    if (auto outer = alias_.memoryOf(model_.graph->inputs()[model_.argumentCount() + attribute]))
      work.push_back(*outer);
    while (!work.empty()) {
      const size_t number = work.back();
      work.pop_back();
      if (!seen.insert(number).second)
        continue;
      const AliasAnalysis::Memory &memory = alias_.memories()[number];
      const bool isTensor = llvm::any_of(memory.values, [](const torch::jit::Value *value) {
        return value->type()->kind() == c10::TypeKind::TensorType;
      });
      if (memory.lastLateWrite >= 0 && (!ofTensors || isTensor))
        return memory.writers.front();
      work.insert(work.end(), memory.holds.begin(), memory.holds.end());
    }
    return nullptr;
  }

  struct Held {
    std::map<const void *, std::vector<size_t>> containers; // the holders of each list and dict
    std::map<int64_t, std::vector<size_t>> tensors;         // the holders of each piece of memory
  };

  Held held() const {
    Held held;
    std::vector<at::Tensor> tensors;
    std::vector<size_t> holders;
    for (size_t i = 0; i < saved_.size(); ++i)
      saved_[i].visit([&](const c10::IValue &value) {
        if (value.isTensor()) {
          tensors.push_back(value.toTensor());
          holders.push_back(i);
        } else if (value.isList() || value.isGenericDict()) {
          held.containers[value.internalToPointer()].push_back(i);
        }
        return false;
      });
    const std::vector<int64_t> ids = storageIds(tensors);
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= 0)
        held.tensors[ids[i]].push_back(holders[i]);
    return held;
  }

  llvm::Error refuseShared() const {
    const Held all = held();
    for (const auto &[container, holders] : all.containers)
      TRY(refuseShared(holders, false));
    for (const auto &[memory, holders] : all.tensors)
      TRY(refuseShared(holders, true));
    return llvm::Error::success();
  }

  /// Whether a list that is twice in the attribute is two lists in the stages: its objects have
  /// become tuples.
  bool isRebuilt(size_t attribute) const {
    return !saved_[attribute].is(model_.attributes[attribute].value);
  }

  llvm::Error refuseShared(const std::vector<size_t> &holders, bool isTensor) const {
    // Attribute::storage records which attributes share memory if all of them are tensors.
    if (llvm::all_of(holders, [&](size_t i) { return saved_[i].isTensor(); }))
      return llvm::Error::success();
    for (size_t at = 1; at < holders.size(); ++at) { // in ascending order
      const size_t one = holders[at - 1], other = holders[at];
      if (one == other && (isTensor || !isRebuilt(one)))
        continue;
      for (auto [by, also] : {std::pair(one, other), std::pair(other, one)})
        if (const torch::jit::Node *writer = writerOf(by, isTensor))
          return refuseWith(Refusal::SharedAttribute,
                            describeNode(const_cast<torch::jit::Node *>(writer)),
                            model_.attributes[by].name, model_.attributes[also].name);
    }
    return llvm::Error::success();
  }

  const Model &model_;
  llvm::ArrayRef<c10::IValue> saved_;
  AliasAnalysis alias_;
};

} // namespace

llvm::Expected<std::vector<bool>> writtenAttributes(const Model &model,
                                                    llvm::ArrayRef<c10::IValue> saved) {
  return WrittenAttributes(model, saved).find();
}

} // namespace pipec
