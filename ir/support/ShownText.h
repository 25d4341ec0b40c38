// Text of files and command lines as a terminal may have it: what would move the cursor, ring the
// bell, change colours, turn the direction of writing or not be seen at all stands as an escape.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace pipec {

/// One name or cell: \x1b for control characters and for bytes that are no UTF-8, also \n and \t;
/// \u202e for characters that turn the direction of writing, have no width or are no characters
/// (beyond U+FFFF as JSON writes them, in two halves). A backslash stays as it is.
std::string shown(llvm::StringRef text);

/// The same for text of our own with names in it: line ends stay. In JSON, which escapes control
/// characters itself, the text stays the same document.
std::string shownLines(llvm::StringRef text);

/// Bytes of the first letter of `text`, which is not empty; 0 where it begins with none.
size_t letterBytes(llvm::StringRef text);

/// What stands for a letter that shown() does not keep; empty: it is kept.
std::string escapeOf(llvm::StringRef letter);

/// How many bytes at the end of `text` are the beginning of a letter whose rest may follow.
size_t unfinishedBytes(llvm::StringRef text);

} // namespace pipec
