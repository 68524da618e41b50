// Devices, memory, streams, events and copies, against the fake driver or the real one.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::HasSubstr;

std::string Message(tutti_status* status) { return AsStatus(status).ToString(); }

TEST_F(Gpu, ListsDevicesWithTheirPropertiesWithoutUsingThem) {
  ASSERT_GE(plugin_->num_devices(), 1);
  EXPECT_EQ(plugin_->why_no_device(), "");
  const auto properties = plugin_->Properties(0);
  GPU_OK(properties);
  const tutti_plugin_device_properties& known = properties.value();
  EXPECT_STRNE(known.name, "");
  EXPECT_STRNE(known.bus_id, "");
  EXPECT_GE(known.compute_major, 1);
  EXPECT_GE(known.multiprocessors, 1);
  EXPECT_GT(known.memory_bytes, 0);
  EXPECT_GE(known.driver_version, 11020);
  const auto memory = plugin_->Memory(0);
  GPU_OK(memory);
  EXPECT_EQ(memory.value().total_bytes, known.memory_bytes);
  EXPECT_EQ(memory.value().free_bytes, -1) << "nobody has used it";
  EXPECT_EQ(memory.value().used_bytes, 0);
  std::printf("%s, compute capability %d.%d, %d multiprocessors, %.1f GB, L2 %.1f MB, driver %d, "
              "kernels %d\n", known.name, known.compute_major, known.compute_minor,
              known.multiprocessors, static_cast<double>(known.memory_bytes) / 1e9,
              static_cast<double>(known.l2_bytes) / 1e6, known.driver_version, known.has_kernels);
}

TEST_F(Gpu, FillsOnlyWhatACallerOfAnOlderVersionHasRoomFor) {
  tutti_plugin_memory_info info;
  std::memset(&info, 0x5a, sizeof(info));
  info.struct_size = offsetof(tutti_plugin_memory_info, used_bytes);
  GPU_OK(api().memory_info(handle(), 0, &info));
  EXPECT_GT(info.total_bytes, 0);
  EXPECT_EQ(info.peak_bytes, 0x5a5a5a5a5a5a5a5a);
  EXPECT_EQ(info.struct_size, offsetof(tutti_plugin_memory_info, used_bytes));
}

TEST_F(Gpu, NamesADeviceThatIsNotThere) {
  const Status status = plugin_->Properties(99).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.ToString(), HasSubstr("there is no GPU:99; this machine has GPU:0 to GPU:"));
  tutti_plugin_stream* stream = nullptr;
  EXPECT_THAT(Message(api().create_stream(handle(), -1, &stream)), HasSubstr("no GPU:-1"));
}

TEST_F(Gpu, AllocatesCountsAndGivesBack) {
  void* first = nullptr;
  void* second = nullptr;
  GPU_OK(api().allocate_memory(handle(), 0, 1000, &first));
  GPU_OK(api().allocate_memory(handle(), 0, 24, &second));
  EXPECT_NE(first, second);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
  EXPECT_EQ(plugin_->Memory(0).value().used_bytes, 1024);
  EXPECT_EQ(plugin_->account(0).used_bytes(), 1024u);
  EXPECT_GT(plugin_->Memory(0).value().free_bytes, 0);
  GPU_OK(api().release_memory(handle(), 0, first));
  EXPECT_EQ(plugin_->Memory(0).value().used_bytes, 24);
  EXPECT_EQ(plugin_->Memory(0).value().peak_bytes, 1024);
  EXPECT_THAT(Message(api().release_memory(handle(), 0, first)), HasSubstr("given back before"));
  GPU_OK(api().release_memory(handle(), 0, second));
  EXPECT_EQ(plugin_->account(0).used_bytes(), 0u);
  GPU_OK(api().allocate_memory(handle(), 0, 0, &first));
  EXPECT_EQ(first, nullptr);
  GPU_OK(api().release_memory(handle(), 0, nullptr));
}

TEST_F(Gpu, RefusesWhatTheAccountOfTheDeviceRefuses) {
  plugin_->account(0).set_limit_bytes(1000);
  void* memory = nullptr;
  const Status status = AsStatus(api().allocate_memory(handle(), 0, 1001, &memory));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.ToString(), HasSubstr("GPU:0"));
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(plugin_->account(0).used_bytes(), 0u);
}

TEST_F(Gpu, SaysHowMuchIsFreeWhenThereIsNotEnough) {
  void* memory = nullptr;
  const uint64_t bytes = static_cast<uint64_t>(plugin_->Memory(0).value().total_bytes) + 1;
  const Status status = AsStatus(api().allocate_memory(handle(), 0, bytes, &memory));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.ToString(), HasSubstr(std::to_string(bytes) + " bytes of its memory"));
  EXPECT_THAT(status.ToString(), HasSubstr("are free"));
  EXPECT_EQ(plugin_->Memory(0).value().used_bytes, 0);
  EXPECT_EQ(plugin_->account(0).used_bytes(), 0u) << "what was reserved goes back";
  GPU_OK(api().allocate_memory(handle(), 0, 100, &memory));
  GPU_OK(api().release_memory(handle(), 0, memory));
}

TEST_F(Gpu, ChargesPinnedMemoryToTheHostsAccount) {
  options_.host_account = MakeRef<MemoryAccount>("host");
  Open(fake::Machine());
  void* memory = nullptr;
  GPU_OK(api().allocate_pinned(handle(), 0, 5000, &memory));
  std::memset(memory, 1, 5000);
  EXPECT_EQ(options_.host_account->used_bytes(), 5000u);
  GPU_OK(api().release_pinned(handle(), 0, memory));
  EXPECT_EQ(options_.host_account->used_bytes(), 0u);
  EXPECT_THAT(Message(api().release_pinned(handle(), 0, memory)), HasSubstr("no pinned memory"));
}

TEST_F(Gpu, CopiesToTheDeviceWithinItAndBack) {
  constexpr uint64_t kBytes = 1 << 20;
  std::vector<unsigned char> sent(kBytes), received(kBytes);
  for (uint64_t i = 0; i < kBytes; ++i) sent[i] = static_cast<unsigned char>(i * 7 + i / 251);
  tutti_plugin_stream* stream = nullptr;
  GPU_OK(api().create_stream(handle(), 0, &stream));
  void* first = nullptr;
  void* second = nullptr;
  void* pinned = nullptr;
  GPU_OK(api().allocate_on_stream(stream, kBytes, &first));
  GPU_OK(api().allocate_memory(handle(), 0, kBytes, &second));
  GPU_OK(api().allocate_pinned(handle(), 0, kBytes, &pinned));
  GPU_OK(api().copy(stream, TUTTI_PLUGIN_HOST_TO_DEVICE, first, sent.data(), kBytes));
  GPU_OK(api().copy(stream, TUTTI_PLUGIN_DEVICE_TO_DEVICE, second, first, kBytes));
  GPU_OK(api().fill(stream, static_cast<char*>(second) + 1000, 0x5a, 1000));
  GPU_OK(api().copy(stream, TUTTI_PLUGIN_DEVICE_TO_HOST, pinned, second, kBytes));
  GPU_OK(api().copy(stream, TUTTI_PLUGIN_DEVICE_TO_HOST, received.data(), first, kBytes));
  GPU_OK(api().wait_for_stream(stream, nullptr));
  EXPECT_EQ(received, sent);
  std::fill(sent.begin() + 1000, sent.begin() + 2000, 0x5a);
  EXPECT_EQ(std::memcmp(pinned, sent.data(), kBytes), 0);
  EXPECT_THAT(Message(api().copy(stream, 4, second, first, 1)), HasSubstr("no direction"));
  EXPECT_THAT(Message(api().release_on_stream(stream, second)), HasSubstr("on a stream"));
  GPU_OK(api().release_on_stream(stream, first));
  GPU_OK(api().release_memory(handle(), 0, second));
  GPU_OK(api().wait_for_stream(stream, nullptr));
  GPU_OK(api().release_pinned(handle(), 0, pinned));
  api().destroy_stream(stream);
}

TEST_F(Gpu, OneStreamWaitsForAnEventOfAnother) {
  constexpr uint64_t kBytes = 32 << 20;
  tutti_plugin_stream* writer = nullptr;
  tutti_plugin_stream* reader = nullptr;
  tutti_plugin_event* written = nullptr;
  GPU_OK(api().create_stream(handle(), 0, &writer));
  GPU_OK(api().create_stream(handle(), 0, &reader));
  GPU_OK(api().create_event(handle(), 0, 0, &written));
  EXPECT_NE(api().stream_handle(writer), api().stream_handle(reader));
  EXPECT_EQ(api().stream_device(writer), 0);
  int32_t reached = 0;
  GPU_OK(api().query_event(written, &reached));
  EXPECT_EQ(reached, 1) << "never recorded";
  void* memory = nullptr;
  void* pinned = nullptr;
  GPU_OK(api().allocate_memory(handle(), 0, kBytes, &memory));
  GPU_OK(api().allocate_pinned(handle(), 0, kBytes, &pinned));
  for (unsigned char round = 1; round <= 5; ++round) {
    GPU_OK(api().fill(writer, memory, round, kBytes));
    GPU_OK(api().record_event(written, writer));
    GPU_OK(api().stream_wait_event(reader, written));
    GPU_OK(api().copy(reader, TUTTI_PLUGIN_DEVICE_TO_HOST, pinned, memory, kBytes));
    GPU_OK(api().wait_for_stream(reader, nullptr));
    const auto* const bytes = static_cast<const unsigned char*>(pinned);
    ASSERT_EQ(std::count(bytes, bytes + kBytes, round), static_cast<int64_t>(kBytes));
    GPU_OK(api().query_event(written, &reached));
    EXPECT_EQ(reached, 1);
  }
  GPU_OK(api().wait_for_event(written, nullptr));
  api().destroy_event(written);
  api().destroy_stream(writer);
  api().destroy_stream(reader);
  GPU_OK(api().release_memory(handle(), 0, memory));
  GPU_OK(api().release_pinned(handle(), 0, pinned));
}

TEST_F(Gpu, TimesWhatLiesBetweenTwoEvents) {
  tutti_plugin_stream* stream = nullptr;
  tutti_plugin_event* events[3] = {};
  GPU_OK(api().create_stream(handle(), 0, &stream));
  for (int i = 0; i < 3; ++i) GPU_OK(api().create_event(handle(), 0, i < 2, &events[i]));
  void* memory = nullptr;
  GPU_OK(api().allocate_memory(handle(), 0, 16 << 20, &memory));
  GPU_OK(api().record_event(events[0], stream));
  GPU_OK(api().fill(stream, memory, 1, 16 << 20));
  GPU_OK(api().record_event(events[1], stream));
  GPU_OK(api().wait_for_event(events[1], nullptr));
  double ms = -1;
  GPU_OK(api().event_elapsed(events[0], events[1], &ms));
  EXPECT_GT(ms, 0);
  EXPECT_THAT(Message(api().event_elapsed(events[0], events[2], &ms)), HasSubstr("timed events"));
  for (tutti_plugin_event* event : events) api().destroy_event(event);
  api().destroy_stream(stream);
  GPU_OK(api().release_memory(handle(), 0, memory));
}

TEST_F(Gpu, WrapsStreamsOfOthersAndRefusesNone) {
  tutti_plugin_stream* own = nullptr;
  tutti_plugin_stream* wrapped = nullptr;
  GPU_OK(api().create_stream(handle(), 0, &own));
  GPU_OK(api().wrap_stream(handle(), 0, api().stream_handle(own), &wrapped));
  EXPECT_EQ(api().stream_handle(wrapped), api().stream_handle(own));
  void* memory = nullptr;
  GPU_OK(api().allocate_on_stream(wrapped, 4, &memory));
  GPU_OK(api().fill(wrapped, memory, 3, 4));
  uint32_t read = 0;
  GPU_OK(api().copy(own, TUTTI_PLUGIN_DEVICE_TO_HOST, &read, memory, 4));
  GPU_OK(api().wait_for_stream(own, nullptr));
  EXPECT_EQ(read, 0x03030303u);
  GPU_OK(api().release_on_stream(wrapped, memory));
  api().destroy_stream(wrapped);
  GPU_OK(api().wait_for_stream(own, nullptr));
  tutti_plugin_stream* refused = nullptr;
  EXPECT_THAT(Message(api().wrap_stream(handle(), 0, 0, &refused)), HasSubstr("pass 1 for"));
  for (const uint64_t standard : {1, 2}) {
    GPU_OK(api().wrap_stream(handle(), 0, standard, &wrapped));
    GPU_OK(api().wait_for_stream(wrapped, nullptr));
    api().destroy_stream(wrapped);
  }
  if (plugin_->num_devices() > 1) {
    EXPECT_THAT(Message(api().wrap_stream(handle(), 1, api().stream_handle(own), &refused)),
                HasSubstr("belongs to another device"));
    tutti_plugin_event* event = nullptr;
    GPU_OK(api().create_event(handle(), 1, 0, &event));
    EXPECT_THAT(Message(api().record_event(event, own)), HasSubstr("an event of GPU:1"));
    api().destroy_event(event);
  }
  api().destroy_stream(own);
}

TEST_F(Gpu, CopiesBetweenDevices) {
  if (plugin_->num_devices() < 2) GTEST_SKIP() << "one device";
  tutti_plugin_stream* stream = nullptr;
  GPU_OK(api().create_stream(handle(), 0, &stream));
  void* here = nullptr;
  void* there = nullptr;
  GPU_OK(api().allocate_memory(handle(), 0, 8, &here));
  GPU_OK(api().allocate_memory(handle(), 1, 8, &there));
  const uint64_t sent = 0x123456789abcdef0;
  uint64_t received = 0;
  GPU_OK(api().copy(stream, TUTTI_PLUGIN_HOST_TO_DEVICE, here, &sent, 8));
  GPU_OK(api().copy(stream, TUTTI_PLUGIN_DEVICE_TO_DEVICE, there, here, 8));
  GPU_OK(api().copy(stream, TUTTI_PLUGIN_DEVICE_TO_HOST, &received, there, 8));
  GPU_OK(api().wait_for_stream(stream, nullptr));
  EXPECT_EQ(received, sent);
  EXPECT_THAT(Message(api().release_memory(handle(), 0, there)), HasSubstr("not allocated on it"));
  GPU_OK(api().release_memory(handle(), 0, here));
  GPU_OK(api().release_memory(handle(), 1, there));
  api().destroy_stream(stream);
}

TEST_F(Gpu, AWaitEndsWhenItsOwnerSaysSo) {
  fake::Machine machine;
  machine.not_ready = 1 << 30;
  Open(machine);
  tutti_plugin_stream* stream = nullptr;
  GPU_OK(api().create_stream(handle(), 0, &stream));
  struct Asked {
    int times = 0;
  } asked;
  const tutti_plugin_wait wait = {
      sizeof(tutti_plugin_wait),
      [](void* user_data) -> tutti_status* {
        if (++static_cast<Asked*>(user_data)->times < 20) return nullptr;
        Status stopped(StatusCode::kCancelled, "enough");
        return reinterpret_cast<tutti_status*>(const_cast<StatusRep*>(stopped.release()));
      },
      &asked};
  if (!IsReal()) {
    EXPECT_THAT(Message(api().wait_for_stream(stream, &wait)), HasSubstr("CANCELLED: enough"));
    EXPECT_EQ(asked.times, 20);
  } else {
    // A copy that takes longer than 20 questions.
    constexpr uint64_t kBytes = uint64_t{1} << 30;
    void* memory = nullptr;
    GPU_OK(api().allocate_memory(handle(), 0, kBytes, &memory));
    for (int i = 0; i < 200; ++i) GPU_OK(api().fill(stream, memory, 1, kBytes));
    EXPECT_THAT(Message(api().wait_for_stream(stream, &wait)), HasSubstr("CANCELLED: enough"));
    GPU_OK(api().wait_for_stream(stream, nullptr));
    GPU_OK(api().release_memory(handle(), 0, memory));
  }
  api().destroy_stream(stream);
}

TEST_F(Gpu, ManyThreadsUseOneDevice) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      tutti_plugin_stream* stream = nullptr;
      if (!AsStatus(api().create_stream(handle(), 0, &stream)).ok()) ++wrong;
      for (int round = 0; round < 20; ++round) {
        void* memory = nullptr;
        unsigned char read[64] = {};
        const auto byte = static_cast<unsigned char>(t * 20 + round);
        Status status = AsStatus(api().allocate_on_stream(stream, 64, &memory));
        if (status.ok()) status = AsStatus(api().fill(stream, memory, byte, 64));
        if (status.ok()) {
          status = AsStatus(api().copy(stream, TUTTI_PLUGIN_DEVICE_TO_HOST, read, memory, 64));
        }
        if (status.ok()) status = AsStatus(api().release_on_stream(stream, memory));
        if (status.ok()) status = AsStatus(api().wait_for_stream(stream, nullptr));
        if (!status.ok() || std::count(read, read + 64, byte) != 64) ++wrong;
      }
      api().destroy_stream(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(plugin_->Memory(0).value().used_bytes, 0);
}

}  // namespace
}  // namespace tutti::gpu
