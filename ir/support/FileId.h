// The identity of a file, independent of its names.
#pragma once

#include <cstdint>
#include <tuple>

namespace pipec {

struct FileId {
  uint64_t device = 0, inode = 0; // both 0: not known

  bool known() const { return device != 0 || inode != 0; }
  bool operator==(const FileId &) const = default;
  friend bool operator<(const FileId &a, const FileId &b) {
    return std::tie(a.device, a.inode) < std::tie(b.device, b.inode);
  }
};

} // namespace pipec
