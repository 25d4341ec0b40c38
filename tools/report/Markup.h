// Text as HTML and SVG take it.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "tools/report/Table.h"

namespace pipec {

/// For text and for values of attributes in double quotes, whatever the bytes are: what neither may
/// hold (control characters, broken UTF-8) becomes U+FFFD; what turns the direction of writing or
/// has no width is written out, as \u202e.
std::string markupEscaped(llvm::StringRef text);

/// The first `most` letters, with an ellipsis where some are left out.
std::string shortened(llvm::StringRef text, size_t most);

/// `table` as HTML, a row per line; columns aligned right have the class "n".
std::string htmlTable(const Table &table);

} // namespace pipec
