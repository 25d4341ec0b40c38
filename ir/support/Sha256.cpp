#include "ir/support/Sha256.h"

#include "llvm/ADT/StringExtras.h"

#include <new>
#include <openssl/evp.h>

namespace pipec {

/// OpenSSL's SHA-256 fails for lack of memory only, which is thrown as `new` throws it.
static void check(bool worked) {
  if (!worked)
    throw std::bad_alloc();
}

Sha256::Sha256() : state_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  check(state_ && EVP_DigestInit_ex(state_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(llvm::StringRef bytes) {
  check(EVP_DigestUpdate(state_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  check(EVP_DigestFinal_ex(state_.get(), digest, &size));
  return llvm::toHex(llvm::ArrayRef<unsigned char>(digest, size), /*LowerCase=*/true);
}

std::string sha256Hex(llvm::StringRef bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

} // namespace pipec
