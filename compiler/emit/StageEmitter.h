// outline-stages and emit: one stage, or a whole model, becomes one TorchScript file with the
// original module hierarchy.
#pragma once

#include "compiler/emit/StageFile.h"
#include "ir/Model.h"
#include "ir/support/NewFile.h"

namespace pipec {

/// Writes the file of stage `index`. It has
///   forward(inputs..., weight ports...)              -> outputs without state..., owned weights
///                                                       that are sent
///   pipec_forward(inputs..., one per weight use...)  -> outputs with state
/// A method returns one result bare, several as a tuple, and None if there is none. Weight ports
/// follow the inputs in order of the attributes that arrive on a channel. The bytes contain no
/// source line, path or shape: the same stage gives the same file. Errors: Internal if LibTorch
/// cannot write the graph; the sink reports errors of writing the bytes.
llvm::Error emitStage(const StagedModel &model, size_t index, Sink &sink);

/// Writes a flat model into `file`, which the caller publishes: its method with the arguments,
/// defaults and result tree of its signature, every attribute under all its names, state stored
/// where the source keeps it. Modules without attributes are left out. The same model gives the
/// same bytes. Errors: Internal if LibTorch cannot write the graph; the file reports errors of
/// writing the bytes.
llvm::Error emitModel(const Model &model, NewFile &file);

} // namespace pipec
