// Names that PyTorch cannot save.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace pipec {

/// PyTorch writes the bytes of names and texts outside ASCII as octal digits of a signed number
/// ("\303" becomes "\0)+") and then cannot parse them; its parser knows no such letters in names of
/// classes and arguments either. From the parser's message: the name or text as the author wrote
/// it; nullopt when the message is about something else.
std::optional<std::string> unsavableName(llvm::StringRef parserMessage);

} // namespace pipec
