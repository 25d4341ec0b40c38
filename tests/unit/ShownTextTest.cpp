// Foreign text on its way to a terminal.
#include "ir/support/ShownText.h"

#include "ir/support/ShownStream.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

namespace pipec {
namespace {

TEST(ShownText, keepsWhatIsRead) {
  for (const char *text : {"", "encoder.layers.0",
                           "gr\xc3\xb6\xc3\x9f"
                           "e",
                           "\xe6\xa8\xa1\xe5\x9e\x8b", "\xf0\x9f\x98\x80", "C:\\x1b",
                           "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d"})
    EXPECT_EQ(shown(text), text);
}

TEST(ShownText, escapesWhatIsObeyed) {
  EXPECT_EQ(shown("\x1b[31m\a\b\r\x7f"), "\\x1b[31m\\x07\\x08\\x0d\\u007f");
  EXPECT_EQ(shown("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(shownLines("a\nb\tc\r\n"), "a\nb\\tc\\x0d\n");
  EXPECT_EQ(shown("\xc2\x9b"
                  "31m"),
            "\\u009b31m"); // C1: CSI in one character
  EXPECT_EQ(shown("a\xe2\x80\xae"
                  "b"),
            "a\\u202eb");
  EXPECT_EQ(shown("\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c"), "\\u2066\\u200f\\u061c");
  EXPECT_EQ(shown("\xef\xbb\xbfx\xe2\x80\x8b"), "\\ufeffx\\u200b");
  EXPECT_EQ(shown("\xf3\xa0\x80\x81"), "\\udb40\\udc01"); // a tag, U+E0001
}

TEST(ShownText, bytesThatAreNoTextAreNumbers) {
  EXPECT_EQ(shown("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(shown("\xc0\x9b"), "\\xc0\\x9b");          // overlong
  EXPECT_EQ(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80"); // half of a pair
  EXPECT_EQ(shown("caf\xc3"), "caf\\xc3");             // cut off
  EXPECT_EQ(shown(llvm::StringRef("\0x", 2)), "\\x00x");
}

TEST(ShownText, knowsBeginningsOfLetters) {
  EXPECT_EQ(unfinishedBytes(""), 0u);
  EXPECT_EQ(unfinishedBytes("abc"), 0u);
  EXPECT_EQ(unfinishedBytes("ab\xe2"), 1u);
  EXPECT_EQ(unfinishedBytes("ab\xe2\x80"), 2u);
  EXPECT_EQ(unfinishedBytes("ab\xe2\x80\xae"), 0u);
  EXPECT_EQ(unfinishedBytes("\xf0\x9f\x98"), 3u);
  EXPECT_EQ(unfinishedBytes("\xff"), 0u);
  EXPECT_EQ(unfinishedBytes("\x80\x80\x80\x80"), 0u);
}

TEST(ShownStream, escapesAlsoByteByByte) {
  testing::internal::CaptureStdout();
  const std::vector<const char *> arguments = {"pipe-run", "--inputs=a\nerror: b.pt", "x,y\nz"};
  escapeLineEndsOf(arguments);
  for (char c : std::string("a\xe2\x80\xae\xc3\xb6\x1b"))
    toStdout() << c;
  toStdout() << "\n"
             << "a\nerror: b.pt: y\nz\nline\n";
  printPainted(toStdout(), "\033[1mheading\033[0m\n");
  toStdout() << "\xe2";
  flushStdout();
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "a\\u202e\xc3\xb6\\x1b\na\\nerror: b.pt: y\\nz\nline\n\033[1mheading\033[0m\n\\xe2");
  escapeLineEndsOf({});
}

} // namespace
} // namespace pipec
