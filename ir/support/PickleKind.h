// The kind of a pickle's content. The pickle is not unpickled, because it may call any function.
#pragma once

#include "ir/support/FileKind.h"

namespace pipec {

/// Of data.pkl in a file of torch.save: a module, a state dict, a checkpoint, values.
FileKind kindOfTorchSave(llvm::StringRef pickle);

/// Of a file that is a bare pickle, as torch.save wrote before PyTorch 1.6 or as pickle.dump does;
/// unknown where it is none.
FileKind kindOfPickle(llvm::StringRef file);

} // namespace pipec
