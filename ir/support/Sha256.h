// SHA-256, for MANIFEST and for the digest of a source.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

struct SHA256state_st;

namespace pipec {

/// Uses OpenSSL, which has code for the processor's SHA instructions: three to eight times as fast
/// as portable code. One thread at a time.
class Sha256 {
public:
  Sha256();
  Sha256(const Sha256 &) = delete;
  Sha256 &operator=(const Sha256 &) = delete;
  ~Sha256();

  void update(llvm::StringRef bytes);
  /// Adds the same bytes to both. If the processor has the instructions and both have taken the
  /// same number of bytes modulo 64, this takes little longer than one of them would.
  static void updateBoth(Sha256 &a, Sha256 &b, llvm::StringRef bytes);
  /// 64 lower-case hex digits. Call it once, as the last call.
  std::string hex();

private:
  std::unique_ptr<SHA256state_st> state_;
};

std::string sha256Hex(llvm::StringRef bytes);

} // namespace pipec
