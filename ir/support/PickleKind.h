// The kind of a pickle's content, for the message that refuses it. Hand-made because LibTorch's
// unpickler fails at the classes of Python that tell the kinds apart. Nothing is unpickled: a
// pickle may call any function.
#pragma once

#include "ir/support/FileKind.h"

namespace pipec {

/// The kind of content of data.pkl in a file of torch.save: a module, a state dict, a checkpoint,
/// values.
FileKind kindOfTorchSave(llvm::StringRef pickle);

/// The kind of content of a bare pickle, as torch.save wrote before PyTorch 1.6 or as pickle.dump
/// writes; unknown for other files.
FileKind kindOfPickle(llvm::StringRef file);

} // namespace pipec
