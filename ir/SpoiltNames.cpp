#include "ir/SpoiltNames.h"

namespace pipec {

namespace {

/// The literal that the parser points at: the line above the mark, from the column of its first ~.
llvm::StringRef markedLiteral(llvm::StringRef message) {
  llvm::StringRef before = message.split(" <--- HERE").first;
  auto [rest, mark] = before.rsplit('\n');
  llvm::StringRef line = rest.rsplit('\n').second;
  size_t column = mark.find('~');
  if (column == llvm::StringRef::npos || column >= line.size() || line[column] != '"')
    return "";
  llvm::StringRef literal = line.drop_front(column + 1);
  return literal.substr(0, literal.find('"'));
}

/// Undoes the digits: each is 0 or a little less, and below '0' where the sign shows.
std::string readable(llvm::StringRef literal) {
  std::string text;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 3 >= literal.size()) {
      text += literal[i];
      continue;
    }
    int value = 0;
    for (size_t digit = 1; digit <= 3; ++digit)
      value = 8 * value + (literal[i + digit] - '0');
    text += static_cast<char>(value);
    i += 3;
  }
  return text;
}

} // namespace

std::optional<std::string> spoiltName(llvm::StringRef parserMessage) {
  if (!parserMessage.contains("ill formed octal specifier"))
    return std::nullopt;
  return readable(markedLiteral(parserMessage));
}

} // namespace pipec
