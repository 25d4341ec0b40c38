// outline-stages and emit: one stage becomes one TorchScript file with the original module
// hierarchy.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Writes stage `index` to `path` (an existing file is replaced). The file has
///   forward(inputs..., weight ports...)             -> outputs without state..., owned weights
///   that are sent pipec_forward(inputs..., one per weight use...) -> outputs with state
/// each result bare when it is one, a tuple when several, None when none. Weight ports follow the
/// inputs in order of the attributes that arrive on a channel. No source line, path or shape gets
/// into the bytes: the same stage gives the same file. Errors: IO (path, reason), Internal when
/// LibTorch cannot write the graph.
llvm::Error emitStage(const StagedModel &model, size_t index, const std::string &path);

} // namespace pipec
