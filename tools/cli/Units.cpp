#include "tools/cli/Units.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

namespace pipec {
namespace {

struct Unit {
  const char *name;
  double factor;
};

llvm::Expected<int64_t> parseWithUnit(llvm::StringRef text, llvm::ArrayRef<Unit> units,
                                      const char *what) {
  size_t end = text.find_first_not_of("0123456789.");
  llvm::StringRef digits = text.substr(0, end);
  llvm::StringRef name = text.drop_front(digits.size()).ltrim(' ');
  double number = 0;
  bool ok = !digits.empty() && llvm::isDigit(digits[0]) && llvm::isDigit(digits.back()) &&
            !digits.getAsDouble(number);
  for (const Unit &unit : units)
    if (ok && name == unit.name) {
      double result = std::round(number * unit.factor);
      // 2^63 as a double: the first value that does not fit.
      if (result < 9223372036854775808.0)
        return static_cast<int64_t>(result);
      break;
    }
  return failf(ExitCode::Usage, "expected {}, got \"{}\"", what, text.str());
}

} // namespace

llvm::Expected<int64_t> parseSize(llvm::StringRef text) {
  static const Unit kUnits[] = {{"", 1},
                                {"B", 1},
                                {"kB", 1e3},
                                {"KB", 1e3},
                                {"MB", 1e6},
                                {"GB", 1e9},
                                {"TB", 1e12},
                                {"KiB", 1024},
                                {"MiB", 1024.0 * 1024},
                                {"GiB", 1024.0 * 1024 * 1024},
                                {"TiB", 1024.0 * 1024 * 1024 * 1024}};
  return parseWithUnit(text, kUnits, "a size like 512MiB or 64GiB");
}

llvm::Expected<int64_t> parseDuration(llvm::StringRef text) {
  static const Unit kUnits[] = {{"", 1e9},  {"ns", 1},     {"us", 1e3},  {"ms", 1e6},
                                {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};
  return parseWithUnit(text, kUnits, "a time like 90s or 1.5ms");
}

} // namespace pipec
