// Text in HTML and SVG.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "tools/report/Table.h"

namespace pipec {

/// Escapes arbitrary bytes for text and for attribute values in double quotes. Characters that
/// neither may hold (control characters, broken UTF-8) become U+FFFD. Characters that turn the
/// direction of writing or have no width are spelled out, as \u202e.
std::string markupEscaped(llvm::StringRef text);

/// The first `most` letters, with an ellipsis if some are left out.
std::string shortened(llvm::StringRef text, size_t most);

/// `table` as HTML, a row per line. Right-aligned columns have the class "n".
std::string htmlTable(const Table &table);

} // namespace pipec
