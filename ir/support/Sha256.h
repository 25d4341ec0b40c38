// SHA-256: what MANIFEST and the digest of a source are made of.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

struct SHA256state_st;

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
  /// The same bytes into both. Where the processor has the instructions and as many bytes (modulo
  /// 64) went into the one as into the other, this takes little longer than one of them would.
  static void updateBoth(Sha256 &a, Sha256 &b, llvm::StringRef bytes);
  /// 64 lower-case hex digits. Once, and nothing after it.
  std::string hex();

private:
  std::unique_ptr<SHA256state_st> state_;
};

std::string sha256Hex(llvm::StringRef bytes);

} // namespace pipec
