#include "ir/support/Quantities.h"

#include <fmt/format.h>

#include <initializer_list>

namespace pipec {
namespace {

/// Three significant digits: 1.23, 12.3, 123.
std::string threeDigits(double value) {
  if (value < 9.995)
    return fmt::format("{:.2f}", value);
  return value < 99.95 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string scaled(int64_t value, double base, std::initializer_list<const char *> units) {
  double rest = static_cast<double>(value);
  const char *unit = *units.begin();
  for (const char *next : units) {
    unit = next;
    if (rest < base - 0.5)
      break;
    if (next != *(units.end() - 1))
      rest /= base;
  }
  bool whole = unit == *units.begin();
  std::string number = whole ? std::to_string(value) : threeDigits(rest);
  return *unit ? number + " " + unit : number;
}

} // namespace

std::string formatBytes(int64_t bytes) {
  return scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string exactBytes(int64_t bytes) {
  const std::string number = fmt::format("{} bytes", bytes);
  return bytes < 1024 ? number : fmt::format("{} ({})", number, formatBytes(bytes));
}

std::string formatCount(int64_t count) {
  return scaled(count, 1000, {"", "K", "M", "G", "T", "P"});
}

std::string formatDuration(int64_t nanoseconds) {
  return scaled(nanoseconds, 1000, {"ns", "us", "ms", "s"});
}

} // namespace pipec
