// Hashes beside those that TensorFlow 2.21 gives (its Fingerprint and StringToHashBucketStrong), at
// each length where the way of computing changes, and beside the vectors of SipHash's authors.
#include "core/tensor/text_hash.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace tutti {
namespace {

std::string Tens(int times, const std::string& end = "") {
  std::string text;
  for (int i = 0; i < times; ++i) text += "0123456789";
  return text + end;
}

struct HashedText {
  std::string text;
  uint64_t fingerprint;
  uint64_t keyed;  // modulo 2^63 - 1, of the key 1, -2
};

const std::vector<HashedText>& HashedTexts() {
  static const std::vector<HashedText> texts = {
      {"", 0x9ae16a3b2f90404f, 1583518726171341606},
      {"a", 0xb3454265b6df75e3, 3067518542778738979},
      {"abc", 0x24a5b3a074e7f369, 7078110304451063422},
      {"abcd", 0x1a5502de4a1f8101, 4776545272365901657},
      {"abcdefg", 0x3c40c92b1ccb7355, 3861425695378547027},
      {"abcdefgh", 0xfee9d22990c82909, 573758819942051249},
      {"0123456789abcdef", 0x54b961e5dc834067, 5267834257617729861},
      {"0123456789abcdefg", 0xa6ddff87a449d24a, 5978552332227512135},
      {std::string(32, 'x'), 0xb30b9baccc74dc05, 3147027087952610663},
      {std::string(33, 'x'), 0xaa49185443e61637, 3165619467822117846},
      {Tens(6, "abcd"), 0xd6cdd69983771ebf, 8653741141038320516},
      {Tens(6, "abcde"), 0x99d301f66db2b434, 7002114061198767920},
      {Tens(12, "01234567"), 0xd700ef71eb37f4bb, 6464299287335139270},
      {Tens(20), 0x861a2ca290dc8395, 4560092803388428375},
      {std::string("\xff\x80\x00", 3), 0xcbebee35231ad1b6, 6087332086883002890},
  };
  return texts;
}

TEST(TextHash, FingerprintsAreFarmHashes) {
  for (const HashedText& each : HashedTexts()) {
    EXPECT_EQ(TextFingerprint(each.text), each.fingerprint) << each.text;
  }
}

TEST(TextHash, KeyedHashesAreTheReferences) {
  for (const HashedText& each : HashedTexts()) {
    EXPECT_EQ(KeyedTextHash(1, static_cast<uint64_t>(-2), each.text) % INT64_MAX, each.keyed)
        << each.text;
  }
}

// Appendix A of the paper: the key 00 01 ... 0f, the text 00 01 ... 0e.
TEST(TextHash, KeyedHashIsThatOfThePaper) {
  std::string text;
  for (char byte = 0; byte < 15; ++byte) text += byte;
  EXPECT_EQ(KeyedTextHash(0x0706050403020100, 0x0f0e0d0c0b0a0908, text), 0xa129ca6149be45e5);
}

TEST(TextHash, DoesNotHangOnWhereTheTextLies) {
  const std::string text = Tens(20);
  for (size_t offset = 0; offset < 8; ++offset) {
    const std::string moved = std::string(offset, '-') + text;
    const std::string_view part = std::string_view(moved).substr(offset);
    EXPECT_EQ(TextFingerprint(part), TextFingerprint(text));
    EXPECT_EQ(KeyedTextHash(3, 4, part), KeyedTextHash(3, 4, text));
  }
}

}  // namespace
}  // namespace tutti
