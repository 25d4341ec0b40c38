// SHA-256: what MANIFEST and the digest of a source are made of.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace pipec {

/// By OpenSSL, which uses the processor's own instructions: weights are hashed three to eight times
/// as fast as portable code can. One thread at a time.
class Sha256 {
public:
  Sha256();
  Sha256(const Sha256 &) = delete;
  Sha256 &operator=(const Sha256 &) = delete;
  ~Sha256();

  void update(llvm::StringRef bytes);
  /// 64 lower-case hex digits. Once, and nothing after it.
  std::string hex();

private:
  void *context_;
};

std::string sha256Hex(llvm::StringRef bytes);

} // namespace pipec
