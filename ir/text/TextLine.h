// One line of our text form: words, then `key=value` pairs and flags in any order. Reader and the
// quoting that the printers use.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// `text` as one word of a line: itself, or in double quotes with JSON's escapes when it has other
/// characters than [A-Za-z0-9_.:/*+-].
std::string quotedWord(llvm::StringRef text);
/// " name" when set, else nothing.
std::string flagText(llvm::StringRef name, bool set);

/// Reads one line. The first thing that is wrong is kept and returned by finish(); until then
/// readers return empty values. Words are separated by blanks; blanks inside brackets and quotes do
/// not separate. A word that starts with # ends the line.
class TextLine {
public:
  /// `number`: of the line in its file, for messages.
  TextLine(llvm::StringRef line, size_t number);

  size_t number() const { return number_; }
  bool atEnd() const { return next_ >= tokens_.size(); }

  /// The next token in order, unquoted. At the end of the line: a complaint "expected <what>".
  std::string word(llvm::StringRef what);
  size_t index(llvm::StringRef what);
  int64_t integer(llvm::StringRef what);
  /// Complains unless the next token is `token`.
  void expect(llvm::StringRef token);
  /// Takes the last token of the line; complains unless it is `token`.
  void expectLast(llvm::StringRef token);
  /// True, and the token is consumed, when the next one is `token`.
  bool skip(llvm::StringRef token);

  /// Takes `name=value` from the rest of the line. Lists are written `[a,b]`; keys appear once.
  std::optional<std::string> key(llvm::StringRef name);
  /// The same with quotes and escapes left as they stand.
  std::optional<std::string> rawKey(llvm::StringRef name);
  std::optional<int64_t> integerKey(llvm::StringRef name);
  std::vector<std::string> listKey(llvm::StringRef name);
  std::vector<size_t> indexListKey(llvm::StringRef name);
  bool flag(llvm::StringRef name);

  /// Keeps the first complaint; `column` 0: the token read last.
  void complain(const std::string &message);
  /// Errors: Unreadable "line 3, column 7: ..."; a token that nobody took is an unknown key.
  llvm::Error finish();

private:
  struct Token {
    std::string text;
    size_t column;
    bool used = false;
  };

  size_t number_;
  size_t next_ = 0;
  size_t column_ = 1;
  std::vector<Token> tokens_;
  std::string complaint_;
};

/// `[a, "b c"]` as its unquoted parts. Not a list: nullopt.
std::optional<std::vector<std::string>> splitList(llvm::StringRef text);
/// Parts of `text` between `separator`s that are not inside brackets or quotes, trimmed; empty text
/// has none.
std::vector<llvm::StringRef> splitOutsideBrackets(llvm::StringRef text, char separator);

/// "line 3, column 7: <message>" as an Unreadable error.
llvm::Error textError(size_t line, size_t column, const std::string &message,
                      const std::string &help = "");

} // namespace pipec
