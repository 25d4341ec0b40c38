// Makes text of files and command lines safe for a terminal. Characters that move the cursor, ring
// the bell, change colours, turn the direction of writing or are invisible become escapes.
// Hand-made because LLVM's printEscapedString escapes every byte that is not ASCII, and with it all
// names in other scripts.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace pipec {

/// One name or cell. Control characters, \n and \t included, and bytes that are not UTF-8 become
/// \x1b and the like. Characters that turn the direction of writing, have no width or are no
/// characters become \u202e and the like (beyond U+FFFF two halves, as in JSON). A backslash stays.
std::string shown(llvm::StringRef text);

/// The same for our own text with names in it: line ends stay. JSON, which escapes control
/// characters itself, stays the same document.
std::string shownLines(llvm::StringRef text);

/// Number of bytes of the first letter of `text`, which is not empty; 0 if it does not begin with a
/// letter.
size_t letterBytes(llvm::StringRef text);

/// The escape for a letter that shown() replaces; empty for a letter that it keeps.
std::string escapeOf(llvm::StringRef letter);

/// Number of bytes at the end of `text` that begin a letter whose rest may follow.
size_t unfinishedBytes(llvm::StringRef text);

} // namespace pipec
