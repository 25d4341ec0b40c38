// The numbers of a checkpoint: one file per stage, a dict that torch.load reads.
//
//     {"state": {NAME: tensor or value}, "optimizer": {NAME: {KEY: tensor or number}}}
#pragma once

#include "ir/checkpoint/CheckpointFolder.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <ATen/core/ivalue.h>

#include <map>
#include <utility>
#include <vector>

namespace pipec {

/// The optimizer's state of one parameter, ascending by key. The keys are those of PyTorch's
/// optimizers in Python.
using OptimizerState = std::vector<std::pair<std::string, c10::IValue>>;

/// The saved state of one parameter, buffer or other value.
struct SavedValue {
  CheckpointEntry about; // dtype, shape and optimizer are filled by writeSaved()
  c10::IValue value;
  OptimizerState optimizer;
};

/// Writes one file into the directory of a CheckpointWriter, synced, and returns its description.
/// Any thread. Errors: IO; Usage naming a value that has no form in a file.
llvm::Expected<CheckpointFile> writeSaved(const std::string &directory, const std::string &name,
                                          std::vector<SavedValue> values);

/// All that a checkpoint holds. Tensors have memory of their own.
class CheckpointValues {
public:
  /// Reads every file. Errors: IO; BadArtifact for content that is not what checkpoint.json says.
  static llvm::Expected<CheckpointValues> read(const OpenedCheckpoint &checkpoint);

  const std::vector<SavedValue> &all() const { return values_; }
  /// By any of its names; null: none.
  const SavedValue *find(const std::string &name) const;
  /// By the first of the names that it has; null: none.
  const SavedValue *findAny(llvm::ArrayRef<std::string> names) const;

private:
  std::vector<SavedValue> values_;
  std::map<std::string, size_t> byName_;
};

struct ReadCheckpoint {
  OpenedCheckpoint opened;
  CheckpointValues values;
};
/// Whether the values fit what is going to use them. Errors: BadArtifact if they are damaged.
using CheckValues =
    llvm::function_ref<llvm::Error(const OpenedCheckpoint &, const CheckpointValues &)>;
/// The checkpoint that someCheckpoint() finds, with its values. A checkpoint with damaged values
/// counts as damaged. Errors: those of someCheckpoint, CheckpointValues::read and `check`.
llvm::Expected<ReadCheckpoint> readCheckpoint(const std::string &path, WhichCheckpoint which,
                                              CheckValues check);

} // namespace pipec
