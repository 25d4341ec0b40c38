#include "ir/text/TextLine.h"

#include "ir/support/Json.h"
#include "ir/support/Llvm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {
namespace {

bool isPlain(char c) { return llvm::isAlnum(c) || llvm::StringRef("_.:/*+-").contains(c); }

std::string unquoted(llvm::StringRef text) {
  if (!startsWith(text, "\""))
    return text.str();
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return text.str();
  }
  return valueOr(value->getAsString(), text).str();
}

/// Calls `at` with each character outside brackets and quotes and its position.
void forEachOutside(llvm::StringRef text, llvm::function_ref<void(char, size_t)> at) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if (c == ')' || c == ']' || c == '}')
      --depth;
    if (depth <= 0)
      at(c, i);
    if (c == '(' || c == '[' || c == '{')
      ++depth;
  }
}

} // namespace

std::string quotedWord(llvm::StringRef text) {
  if (!text.empty() && llvm::all_of(text, isPlain) && text != ":" && text != "->")
    return text.str();
  return jsonText(llvm::json::Value(llvm::json::fixUTF8(text)));
}

std::string flagText(llvm::StringRef name, bool set) { return set ? " " + name.str() : ""; }

std::vector<llvm::StringRef> splitOutsideBrackets(llvm::StringRef text, char separator) {
  std::vector<llvm::StringRef> parts;
  if (text.trim().empty())
    return parts;
  size_t begin = 0;
  forEachOutside(text, [&](char c, size_t i) {
    if (c != separator)
      return;
    parts.push_back(text.slice(begin, i).trim());
    begin = i + 1;
  });
  parts.push_back(text.drop_front(begin).trim());
  return parts;
}

std::optional<std::vector<std::string>> splitList(llvm::StringRef text) {
  text = text.trim();
  if (!text.consume_front("[") || !text.consume_back("]"))
    return std::nullopt;
  std::vector<std::string> parts;
  for (llvm::StringRef part : splitOutsideBrackets(text, ','))
    parts.push_back(unquoted(part));
  return parts;
}

llvm::Error textError(size_t line, const std::string &message) {
  return failf(ExitCode::Unreadable, "line {}, column 1: {}", line, message);
}

TextLine::TextLine(llvm::StringRef line, size_t number) : number_(number) {
  size_t begin = 0;
  const auto close = [&](size_t end) {
    if (end > begin)
      tokens_.push_back({line.slice(begin, end).str(), begin + 1});
    begin = end + 1;
  };
  forEachOutside(line, [&](char c, size_t i) {
    if (llvm::isSpace(c))
      close(i);
  });
  close(line.size());
  // A word that starts with # begins a comment.
  const auto comment =
      llvm::find_if(tokens_, [](const Token &token) { return token.text[0] == '#'; });
  tokens_.erase(comment, tokens_.end());
}

void TextLine::complain(const std::string &message) {
  if (complaint_.empty())
    complaint_ = fmt::format("line {}, column {}: {}", number_, column_, message);
}

std::string TextLine::word(llvm::StringRef what) {
  while (!atEnd() && tokens_[next_].used)
    ++next_;
  if (atEnd()) {
    complain(fmt::format("expected {}, got the end of the line", what.str()));
    return "";
  }
  Token &token = tokens_[next_++];
  column_ = token.column;
  token.used = true;
  return unquoted(token.text);
}

int64_t TextLine::integer(llvm::StringRef what) {
  const std::string text = word(what);
  int64_t value = 0;
  if (llvm::StringRef(text).getAsInteger(10, value))
    complain(fmt::format("expected {}, got {}", what.str(), text));
  return value;
}

size_t TextLine::index(llvm::StringRef what) {
  const int64_t value = integer(what);
  if (value < 0)
    complain(fmt::format("expected {}, got {}", what.str(), value));
  return value < 0 ? 0 : static_cast<size_t>(value);
}

void TextLine::expect(llvm::StringRef token) {
  const std::string got = word(token);
  if (got != token)
    complain(fmt::format("expected {}, got {}", token.str(), got));
}

void TextLine::expectLast(llvm::StringRef token) {
  if (tokens_.empty() || tokens_.back().used || tokens_.back().text != token) {
    complain(fmt::format("expected {} at the end of the line", token.str()));
    return;
  }
  tokens_.back().used = true;
}

bool TextLine::skip(llvm::StringRef token) {
  if (atEnd() || tokens_[next_].used || tokens_[next_].text != token)
    return false;
  word(token);
  return true;
}

std::optional<std::string> TextLine::key(llvm::StringRef name) {
  const std::optional<std::string> raw = rawKey(name);
  return raw ? std::optional<std::string>(unquoted(*raw)) : std::nullopt;
}

std::optional<std::string> TextLine::rawKey(llvm::StringRef name) {
  for (size_t i = next_; i < tokens_.size(); ++i) {
    Token &token = tokens_[i];
    llvm::StringRef text = token.text;
    if (token.used || !text.consume_front(name) || !text.consume_front("="))
      continue;
    token.used = true;
    column_ = token.column;
    return text.str();
  }
  return std::nullopt;
}

std::optional<int64_t> TextLine::integerKey(llvm::StringRef name) {
  const std::optional<std::string> text = key(name);
  if (!text)
    return std::nullopt;
  int64_t value = 0;
  if (llvm::StringRef(*text).getAsInteger(10, value))
    complain(fmt::format("{}: expected an integer, got {}", name.str(), *text));
  return value;
}

std::vector<std::string> TextLine::listKey(llvm::StringRef name) {
  const std::optional<std::string> text = key(name);
  if (!text)
    return {};
  std::optional<std::vector<std::string>> parts = splitList(*text);
  if (parts)
    return *parts;
  complain(fmt::format("{}: expected a list [a,b], got {}", name.str(), *text));
  return {};
}

std::vector<size_t> TextLine::indexListKey(llvm::StringRef name) {
  std::vector<size_t> values;
  for (const std::string &part : listKey(name)) {
    size_t value = 0;
    if (llvm::StringRef(part).getAsInteger(10, value))
      complain(fmt::format("{}: expected an index, got {}", name.str(), part));
    values.push_back(value);
  }
  return values;
}

bool TextLine::flag(llvm::StringRef name) {
  for (size_t i = next_; i < tokens_.size(); ++i) {
    if (tokens_[i].used || tokens_[i].text != name)
      continue;
    tokens_[i].used = true;
    return true;
  }
  return false;
}

llvm::Error TextLine::finish() {
  if (complaint_.empty())
    for (const Token &token : tokens_) {
      if (token.used)
        continue;
      column_ = token.column;
      complain(fmt::format("unknown key {}", llvm::StringRef(token.text).split('=').first.str()));
      break;
    }
  if (complaint_.empty())
    return llvm::Error::success();
  return makeError(ExitCode::Unreadable, complaint_);
}

} // namespace pipec
