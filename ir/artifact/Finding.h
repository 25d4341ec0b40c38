// A result of a check of an artifact.
#pragma once

#include "ir/support/Failure.h"

#include <string>

namespace pipec {

/// One problem, or one difference to another artifact. pipe-check prints all; readers stop at the
/// first.
struct Finding {
  std::string code;  // a word for programs, as "changed-file"; the function that finds it lists its
                     // words
  std::string where; // a file, a weight, an operator; empty: the whole artifact
  std::string message; // names the thing and both sides
  ExitCode exitCode = ExitCode::BadArtifact;
};

} // namespace pipec
