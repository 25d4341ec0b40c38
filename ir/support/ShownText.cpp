#include "ir/support/ShownText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ConvertUTF.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipec {

namespace {

struct Range {
  uint32_t first, last;
};

/// Beyond ASCII: controls, marks of direction, characters without width, code points that are no
/// characters. Not the joiners of scripts and emoji (U+200C, U+200D), nor combining marks.
constexpr Range kEscaped[] = {
    {0x80, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},     {0x180e, 0x180e}, {0x200b, 0x200b},
    {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},   {0xfdd0, 0xfdef}, {0xfeff, 0xfeff},
    {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe0fff},
};

uint32_t codePoint(llvm::StringRef letter) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(letter[i]); };
  if (letter.size() == 1)
    return byte(0);
  uint32_t code = byte(0) & (0xff >> (letter.size() + 1));
  for (size_t i = 1; i < letter.size(); ++i)
    code = code << 6 | (byte(i) & 0x3f);
  return code;
}

std::string escaped(uint32_t code) {
  if (code < 0x7f)
    return fmt::format("\\x{:02x}", code);
  if (code < 0x10000)
    return fmt::format("\\u{:04x}", code);
  code -= 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
}

bool isPlain(unsigned char byte) { return byte >= 0x20 && byte < 0x7f; }

std::string escapeText(llvm::StringRef text, bool keepLineEnds) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const llvm::StringRef plain = text.take_while([&](char c) {
      return isPlain(static_cast<unsigned char>(c)) || (keepLineEnds && c == '\n');
    });
    out += plain;
    text = text.drop_front(plain.size());
    if (text.empty())
      break;
    const size_t bytes = letterBytes(text);
    const llvm::StringRef letter = text.take_front(std::max<size_t>(1, bytes));
    const std::string instead = escapeOf(letter);
    out += instead.empty() ? letter.str() : instead;
    text = text.drop_front(letter.size());
  }
  return out;
}

} // namespace

size_t letterBytes(llvm::StringRef text) {
  const size_t length = llvm::getNumBytesForUTF8(static_cast<llvm::UTF8>(text.front()));
  if (length > text.size())
    return 0;
  const auto *first = reinterpret_cast<const llvm::UTF8 *>(text.data());
  return llvm::isLegalUTF8Sequence(first, first + length) ? length : 0;
}

std::string escapeOf(llvm::StringRef letter) {
  if (letterBytes(letter) != letter.size())
    return fmt::format("\\x{:02x}", static_cast<unsigned char>(letter.front()));
  if (letter == "\n")
    return "\\n";
  if (letter == "\t")
    return "\\t";
  const uint32_t code = codePoint(letter);
  if (code < 0x80)
    return isPlain(static_cast<unsigned char>(code)) ? "" : escaped(code);
  const bool isEscaped = llvm::any_of(
      kEscaped, [&](const Range &range) { return range.first <= code && code <= range.last; });
  return isEscaped ? escaped(code) : "";
}

std::string shown(llvm::StringRef text) { return escapeText(text, /*keepLineEnds=*/false); }
std::string shownLines(llvm::StringRef text) { return escapeText(text, /*keepLineEnds=*/true); }

size_t unfinishedBytes(llvm::StringRef text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<llvm::UTF8>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80)
      continue;
    return byte >= 0xc2 && byte <= 0xf4 && llvm::getNumBytesForUTF8(byte) > back ? back : 0;
  }
  return 0;
}

} // namespace pipec
