// The two streams that commands print to. What passes through them is escaped as shownLines() does,
// wherever it comes from: a name in a file, a cell, an argument, an error of LibTorch.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

llvm::raw_ostream &toStdout(); // in front of llvm::outs(), which still buffers
llvm::raw_ostream &toStderr();

/// Hands on what has been printed, in order.
void flushStdout();

/// Text of our own with colours in it, which the two streams would escape.
void printPainted(llvm::raw_ostream &out, llvm::StringRef text);

/// A line end in an argument is none of ours: where an argument, or a part of one between commas
/// and
/// "=", stands in what is printed later, its line ends are escaped, too. Once, before any thread.
void escapeLineEndsOf(llvm::ArrayRef<const char *> arguments);

} // namespace pipec
