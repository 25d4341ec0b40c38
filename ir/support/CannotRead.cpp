#include "ir/support/CannotRead.h"

#include <fmt/format.h>

#include <cctype>

namespace pipec {

llvm::Error cannotRead(const std::string &path, std::error_code why, std::string help) {
  std::string words = why.message();
  if (words.size() > 1 && std::islower(static_cast<unsigned char>(words[1]))) // not "RPC ..."
    words[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(words[0])));
  if (help.empty() && why == std::errc::too_many_files_open)
    help = "raise the limit: ulimit -n 1024";
  return makeError(ExitCode::IO, fmt::format("cannot read {}: {}", path, words), std::move(help));
}

} // namespace pipec
