#include "ir/support/Json.h"

#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <set>

namespace pipec {
namespace {

/// One pass over the text that builds nothing but the keys of open objects. llvm::json itself
/// accepts duplicate keys (last wins), clamps large integers, reads "+1" and "01", replaces lone
/// surrogates and recurses without a bound.
class Scanner {
public:
  Scanner(llvm::StringRef text, const JsonLimits &limits) : text_(text), limits_(limits) {}

  llvm::Error run() {
    if (text_.size() > limits_.maxBytes)
      return failf(limits_.code, "{}: too large: expected at most {} bytes, got {}", limits_.what,
                   limits_.maxBytes, text_.size());
    size_t badByte = 0;
    if (!llvm::json::isUTF8(text_, &badByte)) {
      at_ = badByte;
      return error("invalid UTF-8");
    }
    TRY(value());
    while (!open_.empty())
      TRY(afterValue());
    skipSpace();
    return at_ == text_.size() ? llvm::Error::success()
                               : error("text after the end of the document");
  }

private:
  /// An object or array that is not closed yet.
  struct Open {
    bool object;
    std::set<std::string> keys;
  };

  llvm::Error error(const std::string &message) const {
    llvm::StringRef before = text_.take_front(at_);
    size_t line = before.count('\n') + 1;
    size_t lineStart = before.rfind('\n') == llvm::StringRef::npos ? 0 : before.rfind('\n') + 1;
    return failf(limits_.code, "{}: line {}, column {}: {}", limits_.what, line,
                 at_ - lineStart + 1, message);
  }

  bool atEnd() const { return at_ == text_.size(); }
  char peek() const { return atEnd() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (atEnd() || text_[at_] != c)
      return false;
    ++at_;
    return true;
  }
  void skipSpace() {
    while (!atEnd() && llvm::StringRef(" \t\r\n").contains(text_[at_]))
      ++at_;
  }

  /// One value, or the opening of a container up to the place where its first value starts.
  llvm::Error value() {
    for (;;) {
      skipSpace();
      char c = peek();
      if (c != '{' && c != '[')
        return scalar();
      if (open_.size() == limits_.maxDepth)
        return error(fmt::format("nested deeper than {}", limits_.maxDepth));
      ++at_;
      open_.push_back({c == '{', {}});
      skipSpace();
      if (peek() == (c == '{' ? '}' : ']'))
        return close();
      if (c == '{')
        TRY(key());
    }
  }

  llvm::Error close() {
    ++at_;
    open_.pop_back();
    return llvm::Error::success();
  }

  /// After a value inside a container: the end of the container, or a comma and the next value.
  llvm::Error afterValue() {
    skipSpace();
    bool object = open_.back().object;
    if (peek() == (object ? '}' : ']') && !atEnd())
      return close();
    if (!take(','))
      return error(object ? "expected ',' or '}'" : "expected ',' or ']'");
    if (object)
      TRY(key());
    return value();
  }

  llvm::Error key() {
    skipSpace();
    size_t start = at_;
    if (peek() != '"')
      return error("expected a key in double quotes");
    TRY(string());
    llvm::StringRef token = text_.slice(start, at_);
    std::string name = token.drop_front().drop_back().str();
    if (token.contains('\\')) { // "a" and "\u0061" are the same key
      llvm::json::Value decoded = TRY(llvm::json::parse(token));
      name = decoded.getAsString()->str();
    }
    if (!open_.back().keys.insert(name).second) {
      at_ = start;
      return error("key " + token.str() + " appears twice in one object");
    }
    skipSpace();
    return take(':') ? llvm::Error::success() : error("expected ':' after a key");
  }

  llvm::Error scalar() {
    if (atEnd())
      return error("unexpected end of text");
    char c = peek();
    if (c == '"')
      return string();
    if (c == '-' || llvm::isDigit(c))
      return number();
    for (llvm::StringRef word : {"true", "false", "null"})
      if (startsWith(text_.substr(at_), word)) {
        at_ += word.size();
        return llvm::Error::success();
      }
    return error("expected a value");
  }

  /// Four hex digits at the current place, or -1.
  int hex4() {
    unsigned code = 0;
    if (text_.size() - at_ < 4 ||
        text_.substr(at_, 4).find_first_not_of("0123456789abcdefABCDEF") != llvm::StringRef::npos ||
        text_.substr(at_, 4).getAsInteger(16, code))
      return -1;
    at_ += 4;
    return static_cast<int>(code);
  }

  llvm::Error escape() {
    char c = peek();
    if (c != 'u' && llvm::StringRef("\"\\/bfnrt").contains(c) && !atEnd()) {
      ++at_;
      return llvm::Error::success();
    }
    if (!take('u'))
      return error("unknown escape in a string");
    int unit = hex4();
    if (unit < 0)
      return error("expected four hex digits after \\u");
    if (unit < 0xD800 || unit > 0xDFFF)
      return llvm::Error::success();
    int low = unit < 0xDC00 && take('\\') && take('u') ? hex4() : -1;
    return low >= 0xDC00 && low <= 0xDFFF ? llvm::Error::success()
                                          : error("lone surrogate in a string");
  }

  llvm::Error string() {
    take('"');
    while (!take('"')) {
      if (atEnd())
        return error("string without an end");
      if (static_cast<unsigned char>(peek()) < 0x20)
        return error("control character in a string");
      if (take('\\')) {
        TRY(escape());
        continue;
      }
      ++at_;
    }
    return llvm::Error::success();
  }

  bool digits() {
    size_t start = at_;
    while (llvm::isDigit(peek()))
      ++at_;
    return at_ > start;
  }

  llvm::Error number() {
    size_t start = at_;
    take('-');
    bool whole = true;
    if (!take('0') && !digits())
      return error("expected a digit");
    if (llvm::isDigit(peek()))
      return error("number with a leading zero");
    if (take('.')) {
      whole = false;
      if (!digits())
        return error("expected a digit after '.'");
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+'))
        take('-');
      if (!digits())
        return error("expected a digit in the exponent");
    }
    llvm::StringRef token = text_.slice(start, at_);
    int64_t integer = 0;
    double real = 0;
    bool fits =
        whole ? !token.getAsInteger(10, integer) : !token.getAsDouble(real) && std::isfinite(real);
    if (fits)
      return llvm::Error::success();
    at_ = start;
    return error(whole ? "integer outside int64" : "number out of range");
  }

  llvm::StringRef text_;
  const JsonLimits &limits_;
  size_t at_ = 0;
  std::vector<Open> open_;
};

constexpr size_t kWidth = 100;

std::vector<const llvm::json::Object::value_type *>
sortedMembers(const llvm::json::Object &object) {
  std::vector<const llvm::json::Object::value_type *> members;
  for (const auto &member : object)
    members.push_back(&member);
  llvm::sort(members, [](const auto *a, const auto *b) { return a->first < b->first; });
  return members;
}

/// Appends `value` on one line; false as soon as more than `room` columns are needed.
bool appendFlat(const llvm::json::Value &value, size_t room, std::string &out) {
  size_t limit = out.size() + room;
  auto appendPiece = [&](llvm::StringRef piece) {
    out += piece;
    return out.size() <= limit;
  };
  if (const llvm::json::Array *array = value.getAsArray()) {
    out += '[';
    for (size_t i = 0; i < array->size(); ++i)
      if (!appendPiece(i ? ", " : "") || !appendFlat((*array)[i], limit - out.size(), out))
        return false;
    return appendPiece("]");
  }
  if (const llvm::json::Object *object = value.getAsObject()) {
    out += '{';
    bool first = true;
    for (const auto *member : sortedMembers(*object)) {
      if (!appendPiece(first ? "" : ", ") || !appendPiece(jsonText(member->first.str()) + ": ") ||
          !appendFlat(member->second, limit - out.size(), out))
        return false;
      first = false;
    }
    return appendPiece("}");
  }
  return appendPiece(jsonText(value));
}

void append(const llvm::json::Value &value, size_t indent, size_t column, std::string &out) {
  const llvm::json::Array *array = value.getAsArray();
  const llvm::json::Object *object = value.getAsObject();
  std::string flat;
  if ((!array && !object) || appendFlat(value, column < kWidth ? kWidth - column : 0, flat)) {
    out += array || object ? flat : jsonText(value);
    return;
  }
  std::string pad(indent + 2, ' ');
  bool first = true;
  auto startLine = [&] {
    out += first ? "\n" : ",\n";
    out += pad;
    first = false;
  };
  out += array ? '[' : '{';
  if (array) {
    for (const llvm::json::Value &element : *array) {
      startLine();
      append(element, indent + 2, indent + 3, out);
    }
  } else {
    for (const auto *member : sortedMembers(*object)) {
      startLine();
      std::string key = jsonText(member->first.str()) + ": ";
      out += key;
      append(member->second, indent + 2, indent + 3 + key.size(), out);
    }
  }
  out += '\n';
  out.append(indent, ' ');
  out += array ? ']' : '}';
}

} // namespace

llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text, const JsonLimits &limits) {
  TRY(Scanner(text, limits).run());
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value)
    return makeError(limits.code, limits.what + ": " + llvm::toString(value.takeError()));
  return value;
}

std::string printJson(const llvm::json::Value &value) {
  std::string out;
  append(value, 0, 0, out);
  out += '\n';
  return out;
}

std::string jsonText(const llvm::json::Value &value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

} // namespace pipec
