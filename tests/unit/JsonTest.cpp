// The safe JSON front: what it refuses before llvm::json sees it, and what it prints.
#include "ir/support/Json.h"

#include "tests/support/Matchers.h"

namespace pipec {
namespace {

llvm::Expected<llvm::json::Value> parse(llvm::StringRef text) {
  JsonLimits limits;
  limits.what = "doc";
  limits.maxDepth = 8;
  return parseJson(text, limits);
}

TEST(Json, acceptsWhatJsonIs) {
  for (const char *text :
       {"null", " true ", "0", "-0", "-1.5e-3", "9223372036854775807", "-9223372036854775808",
        "\"\"", "\"\\u00e9\\n\\ud83d\\ude00\"", "[]", "{}",
        "[1, [2, {}], {\"a\": [], \"b\": {\"a\": 1}}]", "[[[[[[[[1]]]]]]]]"})
    EXPECT_TRUE(succeeded(parse(text))) << text;
}

TEST(Json, keepsExtremeIntegers) {
  llvm::Expected<llvm::json::Value> value = parse("[9223372036854775807, -9223372036854775808]");
  ASSERT_TRUE(succeeded(value));
  EXPECT_EQ((*value->getAsArray())[0].getAsInteger(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ((*value->getAsArray())[1].getAsInteger(), std::numeric_limits<int64_t>::min());
}

TEST(Json, refusesWithPlaceAndReason) {
  struct Case {
    std::string text;
    const char *message;
  };
  const Case cases[] = {
      {"", "doc: line 1, column 1: unexpected end"},
      {"{\"a\": 1,\n \"a\": 2}", "doc: line 2, column 2: key \"a\" appears twice"},
      {"{\"a\": 1, \"\\u0061\": 2}", "key \"\\u0061\" appears twice"},
      {"[{\"a\": {\"b\": 1, \"b\": 1}}]", "key \"b\" appears twice"},
      {"[9223372036854775808]", "column 2: integer outside int64"},
      {"[-9223372036854775809]", "integer outside int64"},
      {"[1e999]", "number out of range"},
      {std::string(100000, '['), "nested deeper than 8"},
      {"[[[[[[[[[1]]]]]]]]]", "nested deeper than 8"},
      {"[01]", "leading zero"},
      {"[+1]", "expected a value"},
      {"[1.]", "expected a digit after '.'"},
      {"[1e]", "expected a digit in the exponent"},
      {"[-]", "expected a digit"},
      {"[NaN]", "expected a value"},
      {"[1 2]", "expected ',' or ']'"},
      {"[1,]", "expected a value"},
      {"{\"a\":1,}", "expected a key"},
      {"{a:1}", "expected a key"},
      {"{\"a\" 1}", "expected ':'"},
      {"{\"a\":1]", "expected ',' or '}'"},
      {"[1", "expected ',' or ']'"},
      {"{} {}", "text after the end"},
      {"truest", "text after the end"},
      {"[\"abc", "string without an end"},
      {"[\"a\nb\"]", "control character"},
      {"[\"\\x\"]", "unknown escape"},
      {"[\"\\u12g4\"]", "four hex digits"},
      {"[\"\\ud800\"]", "lone surrogate"},
      {"[\"\\udc00\"]", "lone surrogate"},
      {"[\"\\ud800\\u0041\"]", "lone surrogate"},
      {"[\"\xff\"]", "column 3: invalid UTF-8"},
      {"[\"\xc0\xaf\"]", "invalid UTF-8"},
      {std::string("[1\0]", 4), "expected ',' or ']'"},
      {std::string("[\"\0\"]", 5), "control character"},
  };
  for (const Case &c : cases)
    EXPECT_TRUE(failedWith(parse(c.text), ExitCode::BadArtifact, c.message))
        << c.text.substr(0, 40);
}

TEST(Json, boundsTheSize) {
  JsonLimits limits;
  limits.maxBytes = 10;
  EXPECT_TRUE(succeeded(parseJson("[1,2,3,4] ", limits)));
  EXPECT_TRUE(failedWith(parseJson("[1,2,3,45] ", limits), ExitCode::BadArtifact,
                         "expected at most 10 bytes, got 11"));
}

TEST(Json, usesTheCodeItIsGiven) {
  JsonLimits limits;
  limits.code = ExitCode::Usage;
  EXPECT_TRUE(failedWith(parseJson("[", limits), ExitCode::Usage, "json: line 1"));
}

/// Every cut-off and every changed byte of a document is either refused or still JSON; nothing
/// crashes.
TEST(Json, survivesDamage) {
  const std::string text =
      "{\"a\": [1, -2.5e3, \"x\\u00e9\\\\\", null], \"b\": {\"c\": true, \"d\": []}}";
  for (size_t end = 0; end < text.size(); ++end)
    EXPECT_FALSE(succeeded(parse(text.substr(0, end)))) << end;
  size_t accepted = 0;
  for (size_t at = 0; at < text.size(); ++at)
    for (int byte = 0; byte < 256; ++byte) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(byte);
      llvm::Expected<llvm::json::Value> value = parse(damaged);
      if (!value) {
        llvm::consumeError(value.takeError());
        continue;
      }
      ++accepted;
      EXPECT_TRUE(succeeded(parse(printJson(*value)))) << damaged;
    }
  EXPECT_GT(accepted, 100u); // other digits and letters
}

TEST(Json, printsShortValuesOnOneLine) {
  llvm::Expected<llvm::json::Value> value =
      parse("{\"z\": [1, 2, {\"b\": \"x\", \"a\": null}], \"long\": [\"" + std::string(60, 'x') +
            "\", \"" + std::string(60, 'y') + "\"], \"e\": {}}");
  ASSERT_TRUE(succeeded(value));
  EXPECT_EQ(printJson(*value), "{\n"
                               "  \"e\": {},\n"
                               "  \"long\": [\n"
                               "    \"" +
                                   std::string(60, 'x') +
                                   "\",\n"
                                   "    \"" +
                                   std::string(60, 'y') +
                                   "\"\n"
                                   "  ],\n"
                                   "  \"z\": [1, 2, {\"a\": null, \"b\": \"x\"}]\n"
                                   "}\n");
}

} // namespace
} // namespace pipec
