// The kind of a pickle's content. The pickle is not unpickled, because it may call any function.
#pragma once

#include "ir/support/FileKind.h"

namespace pipec {

/// What data.pkl in a file of torch.save holds: a module, a state dict, a checkpoint, values.
FileKind kindOfTorchSave(llvm::StringRef pickle);

/// What a bare pickle holds, as torch.save wrote before PyTorch 1.6 or as pickle.dump writes;
/// unknown for other files.
FileKind kindOfPickle(llvm::StringRef file);

} // namespace pipec
