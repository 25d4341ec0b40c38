// outline-stages and emit: one stage, or a whole model, becomes one TorchScript file with the
// original module hierarchy.
#pragma once

#include "compiler/emit/StageFile.h"
#include "ir/Model.h"
#include "ir/support/NewFile.h"

namespace pipec {

/// Writes the file of stage `index`. It has
///   forward(inputs..., weight ports...)             -> outputs without state..., owned weights
///   that are sent pipec_forward(inputs..., one per weight use...) -> outputs with state
/// each result bare when it is one, a tuple when several, None when none. Weight ports follow the
/// inputs in order of the attributes that arrive on a channel. No source line, path or shape gets
/// into the bytes: the same stage gives the same file. Errors: Internal when LibTorch cannot write
/// the graph; what went wrong with the bytes is the sink's to say.
llvm::Error emitStage(const StagedModel &model, size_t index, Sink &sink);

/// Writes a flat model into `file`, which is the caller's to publish: its method with the
/// arguments, defaults and result tree of its signature, every attribute under all its names, state
/// stored where the source keeps it. Modules that hold no attribute are not made. The same model
/// gives the same bytes. Errors: Internal when LibTorch cannot write the graph; what the file could
/// not take is the file's to say.
llvm::Error emitModel(const Model &model, NewFile &file);

} // namespace pipec
