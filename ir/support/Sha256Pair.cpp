// A round of SHA-256 waits for the one before it, so one hash leaves half of the unit idle: a
// second one over the same blocks fits into the gaps, and needs no message schedule of its own.
//
// The instructions keep the eight words of a state in two registers, {a,b,e,f} and {c,d,g,h}; each
// makes two rounds.
#include "ir/support/Sha256Pair.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace pipec {

#define PIPEC_SHA __attribute__((target("sha,sse4.1"))) static inline

namespace {

alignas(16) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

struct ShaState {
  __m128i abef, cdgh;
};

} // namespace

PIPEC_SHA __m128i wordsAt(const void *at) {
  return _mm_loadu_si128(static_cast<const __m128i *>(at));
}

PIPEC_SHA ShaState unpacked(const uint32_t *words) {
  const __m128i badc = _mm_shuffle_epi32(wordsAt(words), 0xB1);
  const __m128i hgfe = _mm_shuffle_epi32(wordsAt(words + 4), 0x1B);
  return {_mm_alignr_epi8(badc, hgfe, 8), _mm_blend_epi16(hgfe, badc, 0xF0)};
}

PIPEC_SHA void pack(const ShaState &state, uint32_t *words) {
  const __m128i feba = _mm_shuffle_epi32(state.abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(state.cdgh, 0xB1);
  auto *to = reinterpret_cast<__m128i *>(words);
  _mm_storeu_si128(to, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(to + 1, _mm_alignr_epi8(dchg, feba, 8));
}

PIPEC_SHA void fourRounds(ShaState &state, __m128i first, __m128i second) {
  state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, first);
  state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, second);
}

PIPEC_SHA void addTo(ShaState &state, const ShaState &before) {
  state.abef = _mm_add_epi32(state.abef, before.abef);
  state.cdgh = _mm_add_epi32(state.cdgh, before.cdgh);
}

bool canHashPairs() {
  static const bool can = [] {
    constexpr unsigned kSha = 1u << 29;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (b & kSha) != 0;
  }();
  return can;
}

__attribute__((target("sha,sse4.1"))) void hashPair(uint32_t *a, uint32_t *b, const char *bytes,
                                                    size_t blocks) {
  const __m128i bigEndian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  ShaState left = unpacked(a), right = unpacked(b);
  for (; blocks > 0; --blocks, bytes += 64) {
    const ShaState leftBefore = left, rightBefore = right;
    __m128i w[4]; // the next 16 words of the schedule
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(wordsAt(bytes + 16 * i), bigEndian);
#pragma GCC unroll 16
    for (int group = 0; group < 16; ++group) {
      __m128i &now = w[group % 4];
      const __m128i next = w[(group + 1) % 4], last = w[(group + 3) % 4];
      const __m128i first = _mm_add_epi32(now, wordsAt(kRound + 4 * group));
      const __m128i second = _mm_shuffle_epi32(first, 0x0E);
      fourRounds(left, first, second);
      fourRounds(right, first, second);
      const __m128i shifted = _mm_alignr_epi8(last, w[(group + 2) % 4], 4);
      if (group < 12)
        now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, next), shifted), last);
    }
    addTo(left, leftBefore);
    addTo(right, rightBefore);
  }
  pack(left, a);
  pack(right, b);
}

#undef PIPEC_SHA

} // namespace pipec

#else

namespace pipec {

bool canHashPairs() { return false; }
void hashPair(uint32_t *, uint32_t *, const char *, size_t) {}

} // namespace pipec

#endif
