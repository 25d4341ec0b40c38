// Quantities as people read them, in reports and messages.
#pragma once

#include <cstdint>
#include <string>

namespace pipec {

/// "0 B", "999 B", "1.2 KiB", "3.4 GiB": three significant digits, binary units.
std::string formatBytes(int64_t bytes);
/// "4772864 bytes (4.55 MiB)", "60 bytes": where the reader may want to type the number again.
std::string exactBytes(int64_t bytes);
/// "850 ns", "12.3 us", "4.56 ms", "1.23 s".
std::string formatDuration(int64_t nanoseconds);
/// "1.23 G" and the like: flops, parameters.
std::string formatCount(int64_t count);

} // namespace pipec
