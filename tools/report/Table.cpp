#include "tools/report/Table.h"

#include "ir/support/ShownStream.h"
#include "ir/support/ShownText.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Unicode.h"

#include <cstdlib>

namespace pipec {
namespace {

/// Columns on the screen; bytes where the text is not valid UTF-8 or not printable.
size_t widthOf(llvm::StringRef text) {
  int width = llvm::sys::unicode::columnWidthUTF8(text);
  return width >= 0 ? static_cast<size_t>(width) : text.size();
}

} // namespace

bool usesColour(llvm::raw_ostream &out) {
  const char *noColour = std::getenv("NO_COLOR");
  return out.is_displayed() && (!noColour || !*noColour);
}

void printHeading(llvm::raw_ostream &out, llvm::StringRef heading) {
  if (usesColour(out))
    printPainted(out, "\033[1m" + shown(heading) + "\033[0m\n");
  else
    out << heading << "\n";
}

void Table::print(llvm::raw_ostream &out) const {
  std::vector<std::vector<std::string>> rows = rows_; // as wide as they are shown
  for (std::vector<std::string> &row : rows)
    for (std::string &cell : row)
      cell = shown(cell);
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(widthOf(columns_[c].title));
    for (const std::vector<std::string> &row : rows)
      if (c < row.size())
        widths[c] = std::max(widths[c], widthOf(row[c]));
  }
  auto line = [&](auto cellOf) {
    std::string text;
    for (size_t c = 0; c < columns_.size(); ++c) {
      std::string cell = cellOf(c);
      std::string pad(widths[c] - widthOf(cell), ' ');
      text += "  " + (columns_[c].align == Right ? pad + cell : cell + pad);
    }
    return llvm::StringRef(text).rtrim(' ').str();
  };
  printHeading(out, line([&](size_t c) { return columns_[c].title; }));
  for (const std::vector<std::string> &row : rows)
    out << line([&](size_t c) { return c < row.size() ? row[c] : std::string(); }) << "\n";
}

} // namespace pipec
