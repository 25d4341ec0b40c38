// The two streams that commands print to. They escape all text as shownLines() does: names from
// files, cells, arguments, errors of LibTorch.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

llvm::raw_ostream &toStdout(); // in front of llvm::outs(), which still buffers
llvm::raw_ostream &toStderr();

/// Passes on what has been printed, in order.
void flushStdout();

/// Prints our own text with colours, which the two streams would escape.
void printPainted(llvm::raw_ostream &out, llvm::StringRef text);

/// Line ends inside arguments are not ours. If an argument, or a part of one between commas and
/// "=", appears in later output, its line ends are escaped too. Call it once, before any thread
/// starts.
void escapeLineEndsOf(llvm::ArrayRef<const char *> arguments);

} // namespace pipec
