// One line of our text form: words, then `key=value` pairs and flags in any order. The reader, and
// the quoting that printers use.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// `text` as one word of a line: unchanged, or in double quotes with JSON's escapes if it has
/// characters other than [A-Za-z0-9_.:/*+-].
std::string quotedWord(llvm::StringRef text);
/// " name" if set, else nothing.
std::string flagText(llvm::StringRef name, bool set);

/// Reads one line. It keeps the first error, which finish() returns; after an error the readers
/// return empty values. Words are separated by blanks outside brackets and quotes. A word that
/// starts with # ends the line.
class TextLine {
public:
  /// `number` is the line number in the file, for messages.
  TextLine(llvm::StringRef line, size_t number);

  size_t number() const { return number_; }
  bool atEnd() const { return next_ >= tokens_.size(); }

  /// The next token in order, unquoted. At the end of the line: the error "expected <what>".
  std::string word(llvm::StringRef what);
  size_t index(llvm::StringRef what);
  int64_t integer(llvm::StringRef what);
  /// Consumes the next token. Error unless it is `token`.
  void expect(llvm::StringRef token);
  /// Consumes the last token of the line. Error unless it is `token`.
  void expectLast(llvm::StringRef token);
  /// If the next token is `token`, consumes it and returns true.
  bool skip(llvm::StringRef token);

  /// Takes `name=value` from the rest of the line. Lists are written `[a,b]`. A key appears once.
  std::optional<std::string> key(llvm::StringRef name);
  /// The same with quotes and escapes unchanged.
  std::optional<std::string> rawKey(llvm::StringRef name);
  std::optional<int64_t> integerKey(llvm::StringRef name);
  std::vector<std::string> listKey(llvm::StringRef name);
  std::vector<size_t> indexListKey(llvm::StringRef name);
  bool flag(llvm::StringRef name);

  /// Keeps the first error, with the column of the last token read.
  void complain(const std::string &message);
  /// Errors: Unreadable "line 3, column 7: ..."; a token that no reader took is an unknown key.
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

/// The unquoted parts of `[a, "b c"]`. Not a list: nullopt.
std::optional<std::vector<std::string>> splitList(llvm::StringRef text);
/// The parts of `text` between `separator`s outside brackets and quotes, trimmed. An empty text has
/// no parts.
std::vector<llvm::StringRef> splitOutsideBrackets(llvm::StringRef text, char separator);

/// "line 3, column 1: <message>" as an Unreadable error.
llvm::Error textError(size_t line, const std::string &message);

} // namespace pipec
