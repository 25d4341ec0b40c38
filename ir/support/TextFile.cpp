#include "ir/support/TextFile.h"

#include "ir/support/CannotRead.h"
#include "ir/support/Error.h"
#include "ir/support/FileKind.h"
#include "ir/support/Quantities.h"
#include "ir/support/Try.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pipec {

namespace {

/// Editors and spreadsheets of some systems begin UTF-8 text with it; it is no part of the text.
constexpr llvm::StringLiteral kByteOrderMark("\xef\xbb\xbf");

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd > STDIN_FILENO)
      ::close(fd);
  }
};

llvm::Error tooLarge(const std::string &name, const TextFormat &format, const std::string &got) {
  return failf(format.code, "{}: too large: expected at most {}, got {}", name,
               formatBytes(static_cast<int64_t>(format.maxBytes)), got);
}

llvm::Expected<std::string> readUpTo(int fd, const std::string &name, const TextFormat &format) {
  struct stat status;
  if (::fstat(fd, &status) != 0)
    return cannotRead(name, std::error_code(errno, std::generic_category()), format.help);
  const bool isRegular = S_ISREG(status.st_mode);
  if (isRegular && static_cast<uint64_t>(status.st_size) > format.maxBytes)
    return tooLarge(name, format, formatBytes(status.st_size));
  std::string text;
  text.reserve(isRegular ? static_cast<size_t>(status.st_size) + 1 : 0);
  for (;;) {
    constexpr size_t kStep = size_t(64) << 10;
    const size_t before = text.size();
    text.resize(before + kStep);
    const ssize_t got = ::read(fd, text.data() + before, kStep);
    const int error = errno;
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR)
      continue;
    if (got < 0)
      return cannotRead(name, std::error_code(error, std::generic_category()), format.help);
    if (got == 0)
      return text;
    if (text.size() > format.maxBytes)
      return tooLarge(name, format, "more");
    if (!isRegular && llvm::StringRef(text).drop_front(before).contains('\0')) // may have no end
      return text;
  }
}

/// The kind of a file that is no text, or text of a known other format; empty: text.
std::string otherKind(llvm::StringRef bytes) {
  std::string what = kindOfFile(bytes).what;
  if (what == "text" || what == "JSON text") // whether it is the expected one, a parser says
    return "";
  return what.empty() && bytes.contains('\0') ? "binary data" : what;
}

} // namespace

llvm::Expected<std::string> readTextFile(const std::string &path, const TextFormat &format) {
  const bool isStdin = format.mayBeStdin && path == "-";
  const std::string name = isStdin ? "standard input" : path;
  const Descriptor file{isStdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    return cannotRead(name, std::error_code(errno, std::generic_category()), format.help);
  std::string text = TRY(readUpTo(file.fd, name, format));
  if (llvm::StringRef(text).take_front(kByteOrderMark.size()) == kByteOrderMark)
    text.erase(0, kByteOrderMark.size());
  if (const std::string what = otherKind(text); !what.empty())
    return failf(format.code, "{}: expected {}, got {}", name, format.what, what);
  return text;
}

} // namespace pipec
