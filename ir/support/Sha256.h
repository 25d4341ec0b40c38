// SHA-256, for MANIFEST and for the digest of a source.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

struct evp_md_ctx_st;

namespace pipec {

/// Uses OpenSSL, which has code for the processor's SHA instructions: three to eight times as fast
/// as portable code. Throws std::bad_alloc if memory is missing, as a container does. One thread at
/// a time.
class Sha256 {
public:
  Sha256();

  void update(llvm::StringRef bytes);
  /// 64 lower-case hex digits. Call it once, as the last call.
  std::string hex();

private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st *)> state_;
};

std::string sha256Hex(llvm::StringRef bytes);

} // namespace pipec
