// Hashes of byte strings, the same in every process, on every machine and in every release.
//
// TextFingerprint is FarmHash's Fingerprint64 (Geoff Pike; the value that is frozen for all times).
// With 64-bit words read in little-endian order, n the length and the constants
//
//   p0 = C3A5C85C97CB3127, p1 = B492B66FBE98F273, p2 = 9AE16A3B2F90404F
//
// it is a polynomial of the first and last bytes for n up to 16, of four words for n up to 32, of
// eight for n up to 64; longer texts are read in blocks of 64 bytes into seven words of state, and
// the last 64 bytes once more. Nobody who wants to is kept from finding texts that collide.
//
// KeyedTextHash is SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) of a
// key of two words: as long as the key is secret, nobody finds such texts.
#ifndef TUTTI_CORE_TENSOR_TEXT_HASH_H_
#define TUTTI_CORE_TENSOR_TEXT_HASH_H_

#include <cstdint>
#include <string_view>

namespace tutti {

uint64_t TextFingerprint(std::string_view text);

uint64_t KeyedTextHash(uint64_t key0, uint64_t key1, std::string_view text);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_TEXT_HASH_H_
