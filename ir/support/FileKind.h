// The kind of a file that was given where a model or values are expected. It is determined by the
// content, never by the name. No LibTorch.
#pragma once

#include "ir/support/Failure.h"

#include <string>

namespace pipec {

/// The kind of file that was expected.
enum class Wanted { Model, Inputs };

/// The kind of a file as an error names it, with a fix for each wanted kind.
struct FileKind {
  std::string what; // "an ONNX model"; empty: unknown
  std::string asModel, asValues;
};

/// The kind for the bytes of a whole file.
FileKind kindOfFile(llvm::StringRef bytes);

/// Unreadable, "m.onnx: expected a TorchScript model, got an ONNX model", with the fix as help. For
/// a file of unknown kind, `otherwise` replaces "got ...".
llvm::Error notWanted(const std::string &path, Wanted wanted, llvm::StringRef bytes,
                      const std::string &otherwise);
/// The same for a path that is a directory; success for every other path.
llvm::Error refuseDirectory(const std::string &path, Wanted wanted);

/// For a path that should be an artifact: Unreadable for a directory of another known kind, naming
/// the kind. Success for all others.
llvm::Error refuseOtherThanArtifact(const std::string &path);

} // namespace pipec
