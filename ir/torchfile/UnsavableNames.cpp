#include "ir/torchfile/UnsavableNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

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

/// Names of classes and arguments are written as they are.
std::string firstForeignWord(llvm::StringRef text) {
  auto isForeign = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  auto isPart = [&](char c) { return llvm::isAlnum(c) || c == '_' || isForeign(c); };
  while (!text.empty()) {
    llvm::StringRef word = text.take_while(isPart);
    if (llvm::any_of(word, isForeign))
      return word.str();
    text = text.drop_front(std::max<size_t>(word.size(), 1));
  }
  return "";
}

} // namespace

std::optional<std::string> unsavableName(llvm::StringRef parserMessage) {
  if (parserMessage.contains("ill formed octal specifier"))
    return readable(markedLiteral(parserMessage));
  // "expected a valid token but found '?' here:" and then the text.
  auto [complaint, text] = parserMessage.split(" here:");
  std::string word = complaint.contains("expected a valid token") ? firstForeignWord(text) : "";
  return word.empty() ? std::nullopt : std::optional<std::string>(word);
}

} // namespace pipec
