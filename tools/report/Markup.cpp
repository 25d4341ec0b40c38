#include "tools/report/Markup.h"

#include "ir/support/ShownText.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipec {
namespace {

constexpr llvm::StringLiteral kReplacement = "\xEF\xBF\xBD"; // U+FFFD

/// The replacement for a letter that markup must not contain; empty: it may.
std::string standIn(llvm::StringRef letter) {
  if (letter.size() == 2 && letter[0] == '\xC2' && static_cast<unsigned char>(letter[1]) < 0xA0)
    return kReplacement.str(); // a control character of the second block
  if (letter.size() == 3 && (letter == "\xEF\xBF\xBE" || letter == "\xEF\xBF\xBF"))
    return kReplacement.str(); // no characters
  if (letter.size() != 1)
    return escapeOf(letter); // it would turn the rest of the line around, or not be seen
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
    return static_cast<unsigned char>(letter[0]) < 0x20 || letter[0] == 0x7F ? kReplacement.str()
                                                                             : "";
  }
}

} // namespace

std::string markupEscaped(llvm::StringRef text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = letterBytes(text);
    const llvm::StringRef letter = text.take_front(std::max<size_t>(1, bytes));
    const std::string instead = bytes ? standIn(letter) : kReplacement.str();
    out += instead.empty() ? letter.str() : instead;
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
