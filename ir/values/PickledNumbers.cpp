#include "ir/values/PickledNumbers.h"

namespace pipec {

namespace {

constexpr char kLong1 = '\x8a'; // one byte with the length, then the number, lowest byte first
constexpr size_t kWidth = 8;

/// The length of the opcode at the front and of what belongs to it, as Python's pickletools
/// describes them. Nullopt for an opcode that torch.save does not write.
std::optional<size_t> lengthOfFirst(llvm::StringRef rest) {
  const auto withCounted = [&](size_t width) { // a length of `width` bytes, then that many
    size_t length = 0;
    for (size_t i = width; i > 0; --i)
      length = length << 8 | static_cast<unsigned char>(i < rest.size() ? rest[i] : 0);
    return 1 + width + length;
  };
  switch (rest[0]) {
  case 'c': { // a module and a name, a line each
    const size_t first = rest.find('\n');
    const size_t second = first == llvm::StringRef::npos ? first : rest.find('\n', first + 1);
    return second == llvm::StringRef::npos ? std::nullopt : std::optional(second + 1);
  }
  case 'B':
  case 'T':
  case 'X':
    return withCounted(4);
  case 'C':
  case 'U':
  case kLong1:
    return withCounted(1);
  case 'G':
    return 1 + 8;
  case 'J':
  case 'j':
  case 'r':
    return 1 + 4;
  case 'M':
    return 1 + 2;
  case 'K':
  case 'h':
  case 'q':
  case '\x80':
    return 1 + 1;
  default:
    return llvm::StringRef("()]}.NtlaesuRQbd012\x81\x85\x86\x87\x88\x89").contains(rest[0])
               ? std::optional<size_t>(1)
               : std::nullopt;
  }
}

std::string in8Bytes(llvm::StringRef number) {
  const bool isNegative = !number.empty() && (number.back() & 0x80) != 0;
  std::string text = {kLong1, kWidth};
  text += number.str();
  text.append(kWidth - number.size(), isNegative ? '\xff' : '\0');
  return text;
}

} // namespace

std::optional<std::string> withNumbersOf8Bytes(llvm::StringRef pickle) {
  std::string written;
  bool changed = false;
  for (llvm::StringRef rest = pickle; !rest.empty();) {
    const std::optional<size_t> length = lengthOfFirst(rest);
    if (!length || *length > rest.size())
      return std::nullopt;
    const llvm::StringRef whole = rest.take_front(*length), number = whole.drop_front(1);
    if (whole[0] == kLong1 && number.size() <= kWidth) { // number begins with its length
      written += in8Bytes(number.drop_front(1));
      changed = true;
    } else {
      written += whole.str();
    }
    rest = rest.drop_front(*length);
  }
  return changed ? std::optional(std::move(written)) : std::nullopt;
}

} // namespace pipec
