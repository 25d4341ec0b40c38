// Parameters that are not trained, by name.
#pragma once

#include "ir/support/Error.h"

#include <string>
#include <vector>

namespace pipec {

/// Which parameters the patterns name. `names`: all names of each parameter. A pattern is a name,
/// or the beginning of names and a star. Errors: Usage for a pattern that names none.
llvm::Expected<std::vector<bool>> frozen(const std::vector<std::string> &patterns,
                                         const std::vector<std::vector<std::string>> &names);

} // namespace pipec
