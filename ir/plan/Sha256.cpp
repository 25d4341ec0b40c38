#include "ir/plan/Sha256.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <openssl/evp.h>

namespace pipec {

static EVP_MD_CTX *contextOf(void *context) { return static_cast<EVP_MD_CTX *>(context); }

/// OpenSSL fails here only without memory, or when its configuration forbids SHA-256.
static void require(bool done) {
  if (!done)
    llvm::report_fatal_error("OpenSSL does not compute SHA-256");
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  // Looked up once: finding an algorithm by name takes longer than hashing a line of text.
  static const EVP_MD *algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  require(context_ && algorithm && EVP_DigestInit_ex(contextOf(context_), algorithm, nullptr));
}

Sha256::~Sha256() { EVP_MD_CTX_free(contextOf(context_)); }

void Sha256::update(llvm::StringRef bytes) {
  require(EVP_DigestUpdate(contextOf(context_), bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  require(EVP_DigestFinal_ex(contextOf(context_), digest, &size));
  return llvm::toHex(llvm::makeArrayRef(digest, size), /*LowerCase=*/true);
}

std::string sha256Hex(llvm::StringRef bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

} // namespace pipec
