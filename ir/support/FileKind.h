// What a file is that was given where a model or values are expected: told by what is in it, never
// by its name. No LibTorch.
#pragma once

#include "ir/support/Failure.h"

#include <string>

namespace pipec {

/// What the user was asked for.
enum class Wanted { Model, Inputs };

/// A file as an error names it, and what to do with it where either is wanted.
struct FileKind {
  std::string what; // "an ONNX model"; empty: nothing that is known here
  std::string asModel, asValues;
};

/// Of the bytes of a whole file.
FileKind kindOfFile(llvm::StringRef bytes);
/// Of a directory, by the names in it.
FileKind kindOfDirectory(const std::string &path);

/// Unreadable, "m.onnx: expected a TorchScript model, got an ONNX model", with what to do as help.
/// `otherwise` is said of a file that nothing is known of, in place of "got ...".
llvm::Error notWanted(const std::string &path, Wanted wanted, llvm::StringRef bytes,
                      const std::string &otherwise);
/// The same for a path that is a directory; success for every other path.
llvm::Error refuseDirectory(const std::string &path, Wanted wanted);

/// Where an artifact is wanted: Unreadable for a directory that is known to be something else,
/// naming it. Success for all others.
llvm::Error refuseOtherThanArtifact(const std::string &path);

} // namespace pipec
