// Uses the OpenSSL functions with a visible state, because updateBoth works on its words.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "ir/support/Sha256.h"

#include "ir/support/Sha256Pair.h"
#include "llvm/ADT/StringExtras.h"

#include <openssl/sha.h>

namespace pipec {

static_assert(sizeof(SHA_LONG) == sizeof(uint32_t));

Sha256::Sha256() : state_(std::make_unique<SHA256_CTX>()) { SHA256_Init(state_.get()); }

Sha256::~Sha256() = default;

void Sha256::update(llvm::StringRef bytes) {
  SHA256_Update(state_.get(), bytes.data(), bytes.size());
}

/// Counts the bits that were hashed without SHA256_Update.
static void countHashed(SHA256_CTX &state, uint64_t bytes) {
  const uint64_t bits = (uint64_t(state.Nh) << 32 | state.Nl) + bytes * 8;
  state.Nl = static_cast<SHA_LONG>(bits);
  state.Nh = static_cast<SHA_LONG>(bits >> 32);
}

void Sha256::updateBoth(Sha256 &a, Sha256 &b, llvm::StringRef bytes) {
  auto each = [&](llvm::StringRef part) {
    a.update(part);
    b.update(part);
  };
  if (a.state_->num != b.state_->num || !canHashPairs())
    return each(bytes);
  // `num` bytes of an incomplete block are waiting.
  const size_t head =
      std::min<size_t>(bytes.size(), (SHA256_CBLOCK - a.state_->num) % SHA256_CBLOCK);
  each(bytes.take_front(head));
  bytes = bytes.drop_front(head);
  const size_t blocks = bytes.size() / SHA256_CBLOCK;
  hashPair(a.state_->h, b.state_->h, bytes.data(), blocks);
  countHashed(*a.state_, blocks * SHA256_CBLOCK);
  countHashed(*b.state_, blocks * SHA256_CBLOCK);
  each(bytes.drop_front(blocks * SHA256_CBLOCK));
}

std::string Sha256::hex() {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_Final(digest, state_.get());
  return llvm::toHex(llvm::ArrayRef<unsigned char>(digest), /*LowerCase=*/true);
}

std::string sha256Hex(llvm::StringRef bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

} // namespace pipec
