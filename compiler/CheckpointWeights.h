// Takes weights from a checkpoint in place of those of an artifact or a model file.
#pragma once

#include "compiler/MergeInto.h"
#include "ir/artifact/Relink.h"
#include "ir/checkpoint/CheckpointValues.h"

namespace pipec {

/// The weights of a checkpoint, or of the newest good one in a directory. Errors: those of
/// readCheckpoint.
llvm::Expected<CheckpointValues> valuesOf(const std::string &path,
                                          std::vector<std::string> &warnings);

/// Replaces what the checkpoint has. Errors: Usage if it is of another model: a parameter is
/// missing, or has another shape or dtype.
llvm::Error fillStages(Relinked &stages, const CheckpointValues &values);
/// The same for the author's model; the report gets the numbers. Values of a loss that --loss
/// joined are left out.
llvm::Error fillModel(torch::jit::Module &module, const CheckpointValues &values,
                      MergeIntoReport &report);

} // namespace pipec
