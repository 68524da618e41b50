// Lists of pieces that come again: written once, and never those of other pieces.
#include <cstring>
#include <vector>

#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {
namespace {

class KeptLists : public GpuKernels {
 protected:
  void SetUp() override {
    GpuKernels::SetUp();
    if (IsReal()) GTEST_SKIP() << "counts what the fake driver has done";
  }

  // `count` pieces of `bytes` each, with a gap between them, filled with numbers from `seed` on.
  struct Case {
    std::vector<tutti_plugin_piece> pieces;
    std::vector<unsigned char> packed;
  };
  Case Make(uint64_t count, uint64_t bytes, unsigned seed) {
    Case made;
    std::vector<unsigned char> apart(count * (bytes + 16));
    for (size_t i = 0; i < apart.size(); ++i) {
      apart[i] = static_cast<unsigned char>(i * 31 + i / 256 + seed);
    }
    char* const memory = static_cast<char*>(Copied(apart.data(), apart.size()));
    for (uint64_t i = 0; i < count; ++i) {
      made.pieces.push_back({memory + i * (bytes + 16), bytes, i * bytes});
      made.packed.insert(made.packed.end(), apart.begin() + static_cast<long>(i * (bytes + 16)),
                         apart.begin() + static_cast<long>(i * (bytes + 16) + bytes));
    }
    return made;
  }
  // What packing them does.
  fake::Done Pack(const Case& of, tutti_plugin_stream* stream = nullptr) {
    void* const packed = Memory(of.packed.size());
    fake::Done before, after;
    const auto count = FakeFunction<fake::CountDone>(fake::kCountDone);
    count(&before);
    EXPECT_TRUE(AsStatus(api().pack(stream != nullptr ? stream : stream_, of.pieces.data(),
                                    of.pieces.size(), packed))
                    .ok());
    count(&after);
    if (stream != nullptr) {
      EXPECT_TRUE(AsStatus(api().wait_for_stream(stream, nullptr)).ok());
    }
    EXPECT_EQ(Read(packed, of.packed.size()), of.packed);
    return {after.launches - before.launches, after.copies_in - before.copies_in, 0, 0};
  }
};

TEST_F(KeptLists, AreWrittenTheSecondTimeAndNeverAgain) {
  const Case many = Make(5000, 64, 1);
  fake::Done done = Pack(many);
  EXPECT_EQ(done.copies_in, 0);
  EXPECT_GT(done.launches, 1);  // lists that grow, in pinned memory
  done = Pack(many);
  EXPECT_EQ(done.copies_in, 1);
  EXPECT_EQ(done.launches, 1);
  for (int step = 0; step < 3; ++step) {
    done = Pack(many);
    EXPECT_EQ(done.copies_in, 0);
    EXPECT_EQ(done.launches, 1);
  }
  // Unpack has the same list.
  const std::vector<unsigned char> turned(many.packed.rbegin(), many.packed.rend());
  const void* const packed = Copied(turned.data(), turned.size());
  fake::Done before, after;
  FakeFunction<fake::CountDone>(fake::kCountDone)(&before);
  GPU_OK(api().unpack(stream_, many.pieces.data(), many.pieces.size(), packed));
  FakeFunction<fake::CountDone>(fake::kCountDone)(&after);
  EXPECT_EQ(after.copies_in - before.copies_in, 0);
  for (size_t i = 0; i < many.pieces.size(); i += 997) {
    EXPECT_EQ(Read(many.pieces[i].memory, 64),
              std::vector<unsigned char>(turned.begin() + static_cast<long>(i * 64),
                                         turned.begin() + static_cast<long>(i * 64 + 64)));
  }
  // On another stream, which waits for the list where it has to.
  tutti_plugin_stream* other = nullptr;
  GPU_OK(api().create_stream(handle(), 0, &other));
  const Case again = Make(5000, 64, 1);
  GPU_OK(api().wait_for_stream(stream_, nullptr));
  EXPECT_GT(Pack(again).launches, 1);
  EXPECT_EQ(Pack(again, other).copies_in, 1);
  EXPECT_EQ(Pack(again).copies_in, 0);
  GPU_OK(api().wait_for_stream(other, nullptr));
  api().destroy_stream(other);
}

TEST_F(KeptLists, AreOfThesePiecesAndOfNoOthersThatLookAlike) {
  Case many = Make(3000, 32, 2);
  Pack(many);
  Pack(many);
  EXPECT_EQ(Pack(many).copies_in, 0);
  // One piece of many is another one, which no sample of them has to show.
  const Case other = Make(3000, 32, 9);
  const size_t middle = 1501;
  many.pieces[middle].memory = other.pieces[middle].memory;
  std::memcpy(&many.packed[middle * 32], &other.packed[middle * 32], 32);
  Pack(many);
  Pack(many);
  EXPECT_EQ(Pack(many).copies_in, 0);
}

TEST_F(KeptLists, GiveWayOnlyWhenNobodyHasUsedThemForLong) {
  std::vector<Case> cases;
  for (unsigned i = 0; i < 9; ++i) cases.push_back(Make(1500, 8, i));
  for (int round = 0; round < 3; ++round) {
    for (const Case& each : cases) Pack(each);
  }
  // The ninth found no room (its pieces take two lists in pinned memory), and the others are there.
  EXPECT_EQ(Pack(cases[8]).copies_in, 0);
  EXPECT_GT(Pack(cases[8]).launches, 1);
  for (size_t i = 0; i < 8; ++i) {
    const fake::Done done = Pack(cases[i]);
    EXPECT_EQ(done.copies_in, 0);
    EXPECT_EQ(done.launches, 1);
  }
  for (int i = 0; i < 10; ++i) {
    for (size_t k = 1; k < 8; ++k) Pack(cases[k]);
  }
  EXPECT_EQ(Pack(cases[8]).copies_in, 1);  // in the place of the first
  EXPECT_EQ(Pack(cases[7]).copies_in, 0);
}

TEST_F(KeptLists, AreNotThereWithoutMemoryForThem) {
  const Case many = Make(1000, 64, 3);
  Pack(many);
  void* const packed = Memory(many.packed.size());
  FakeFunction<fake::FailAllocation>(fake::kFailAllocation)(1);
  GPU_OK(api().pack(stream_, many.pieces.data(), many.pieces.size(), packed));
  FakeFunction<fake::FailAllocation>(fake::kFailAllocation)(0);
  EXPECT_EQ(Read(packed, many.packed.size()), many.packed);
  EXPECT_EQ(Pack(many).copies_in, 1);
}

}  // namespace
}  // namespace tutti::gpu
