#include "tools/Markup.h"

#include "llvm/Support/ConvertUTF.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipec {
namespace {

constexpr llvm::StringLiteral kReplacement = "\xEF\xBF\xBD"; // U+FFFD

/// Bytes of the letter that `text` begins with; 0 where it begins with none.
size_t letterBytes(llvm::StringRef text) {
  const size_t length = llvm::getNumBytesForUTF8(static_cast<llvm::UTF8>(text.front()));
  if (length > text.size())
    return 0;
  const auto *first = reinterpret_cast<const llvm::UTF8 *>(text.data());
  return llvm::isLegalUTF8Sequence(first, first + length) ? length : 0;
}

/// What stands for a letter that markup must not hold as it is; empty: it may.
llvm::StringRef standIn(llvm::StringRef letter) {
  if (letter.size() == 2 && letter[0] == '\xC2' && static_cast<unsigned char>(letter[1]) < 0xA0)
    return kReplacement; // a control character of the second block
  if (letter.size() == 3 && (letter == "\xEF\xBF\xBE" || letter == "\xEF\xBF\xBF"))
    return kReplacement; // no characters
  if (letter.size() != 1)
    return "";
  switch (letter[0]) {
  case '<':
    return "&lt;";
  case '>':
    return "&gt;";
  case '&':
    return "&amp;";
  case '"':
    return "&quot;";
  case '\'':
    return "&#39;";
  default:
    return static_cast<unsigned char>(letter[0]) < 0x20 || letter[0] == 0x7F ? kReplacement : "";
  }
}

} // namespace

std::string markupEscaped(llvm::StringRef text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = letterBytes(text);
    const llvm::StringRef letter = text.take_front(std::max<size_t>(1, bytes));
    const llvm::StringRef instead = bytes ? standIn(letter) : llvm::StringRef(kReplacement);
    out += instead.empty() ? letter : instead;
    text = text.drop_front(letter.size());
  }
  return out;
}

std::string shortened(llvm::StringRef text, size_t most) {
  size_t letters = 0, kept = 0;
  for (llvm::StringRef rest = text; !rest.empty(); ++letters) {
    if (letters + 1 == most)
      kept = text.size() - rest.size();
    rest = rest.drop_front(std::max<size_t>(1, letterBytes(rest)));
  }
  return letters <= most ? text.str() : text.take_front(kept).str() + "\xE2\x80\xA6";
}

std::string htmlTable(const Table &table) {
  auto row = [&](const char *tag, auto cellOf) {
    std::string cells;
    for (size_t c = 0; c < table.columns().size(); ++c)
      cells += fmt::format("<{0}{1}>{2}</{0}>", tag,
                           table.columns()[c].align == Table::Right ? " class=\"n\"" : "",
                           markupEscaped(cellOf(c)));
    return "<tr>" + cells + "</tr>\n";
  };
  std::string html = "<div class=\"wide\"><table>\n<thead>" +
                     row("th", [&](size_t c) { return table.columns()[c].title; }) +
                     "</thead>\n<tbody>\n";
  for (const std::vector<std::string> &cells : table.rows())
    html += row("td", [&](size_t c) { return c < cells.size() ? cells[c] : std::string(); });
  return html + "</tbody>\n</table></div>\n";
}

} // namespace pipec
