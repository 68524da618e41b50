// Tensors on a GPU, their streams and events, as the core has them.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/device/device.h"
#include "core/device/gpu_memory.h"
#include "core/device/gpu_staging.h"
#include "core/tensor/copy.h"
#include "core/tensor/dlpack.h"
#include "core/tensor/dlpack_abi.h"
#include "core/tensor/value.h"
#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuTensors : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped()) return;
    Close();
    DeviceSetOptions options;
    options.cuda_plugin = PluginPath();
    devices_ = DeviceSet::Create(2, nullptr, options).value();
  }
  void TearDown() override {
    devices_.reset();
    // Memory goes back in the order of streams that nobody holds any more.
    const auto until = std::chrono::steady_clock::now() + kLong;
    while (!IsReal() && FakeFunction<fake::CountThings>(fake::kCountThings)() != 0 &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    Gpu::TearDown();
  }

  GpuMemory& Memory(int index) {
    const Ref<Device> device = devices_->Find(Format("GPU:{}", index)).value();
    return *GpuMemoryOf(*device);
  }
  static Ref<Tensor> Numbers(int64_t count) {
    Ref<Tensor> tensor = Tensor::Create(DType::kInt32, Shape({count})).value();
    const std::span<int32_t> all = tensor->mutable_span<int32_t>();
    std::iota(all.begin(), all.end(), 1);
    return tensor;
  }
  bool HasSecond() { return devices_->ListNames("GPU").size() > 1; }

  Ref<DeviceSet> devices_;
};

TEST_F(GpuTensors, GoThereAndComeBack) {
  const Ref<Tensor> numbers = Numbers(1000);
  const Ref<Tensor> there = CopyToGpu(*numbers, Memory(0)).value();
  EXPECT_EQ(there->device().ToString(), "GPU:0");
  EXPECT_EQ(there->ToString(), "int32[1000] <on GPU:0>");
  EXPECT_EQ(DeviceBufferOf(*there)->ordinal(), 0);
  // Views are views there, too.
  const Ref<Tensor> part = there->Slice(10, 13);
  EXPECT_THAT(CopyToCpu(*part).value()->span<int32_t>(), ElementsAre(11, 12, 13));
  TensorOptions same;
  same.device = there->device();
  const Ref<Tensor> copy = part->Copy(same).value();
  EXPECT_EQ(copy->device().ToString(), "GPU:0");
  EXPECT_NE(copy->address(), part->address());
  EXPECT_TRUE(OnHost(*copy).value()->ContentsEqual(*numbers->Slice(10, 13)));
  // No elements, and one.
  const Ref<Tensor> none = CopyToGpu(*Numbers(0), Memory(0)).value();
  EXPECT_EQ(CopyToCpu(*none).value()->num_elements(), 0);
  const Ref<Tensor> scalar = CopyToGpu(*Tensor::Scalar<double>(0.5), Memory(0)).value();
  EXPECT_EQ(CopyToCpu(*scalar).value()->item<double>(), 0.5);
}

TEST_F(GpuTensors, GoFromOneDeviceToAnother) {
  if (!HasSecond()) GTEST_SKIP() << "one device";
  const Ref<Tensor> numbers = Numbers(100);
  Ref<Tensor> first = CopyToGpu(*numbers, Memory(0)).value();
  const Ref<Tensor> second = CopyToGpu(*first, Memory(1)).value();
  first.reset();  // what reads it goes on
  EXPECT_EQ(second->device().ToString(), "GPU:1");
  EXPECT_EQ(DeviceBufferOf(*second)->ordinal(), 1);
  EXPECT_TRUE(CopyToCpu(*second).value()->ContentsEqual(*numbers));
  const Ref<Tensor> zeros = Memory(0).Create(DType::kInt32, Shape({100}), true).value();
  GPU_OK(CopyAnywhere(*second, zeros.get()));
  EXPECT_TRUE(CopyToCpu(*zeros).value()->ContentsEqual(*numbers));
}

TEST_F(GpuTensors, StridedOnesAreGathered) {
  const Ref<Tensor> matrix = Numbers(12)->Reshape(std::vector<int64_t>{3, 4}).value();
  const Ref<Tensor> column = matrix->SliceAxis(1, 1, 2).value();
  // From strided host memory without kernels; on the device by one.
  EXPECT_THAT(CopyToCpu(*CopyToGpu(*column, Memory(0)).value()).value()->span<int32_t>(),
              ElementsAre(2, 6, 10));
  const auto properties = devices_->cuda()->Properties(0);
  if (properties.value().has_kernels == 0) GTEST_SKIP() << "built without a CUDA toolkit";
  const Ref<Tensor> there = CopyToGpu(*matrix, Memory(0)).value();
  const Ref<Tensor> part = there->SliceAxis(1, 1, 2).value();
  EXPECT_THAT(CopyToCpu(*part).value()->span<int32_t>(), ElementsAre(2, 6, 10));
  const Ref<Tensor> flat = part->Reshape(std::vector<int64_t>{-1}).value();
  EXPECT_EQ(flat->device().ToString(), "GPU:0");
  EXPECT_THAT(CopyToCpu(*flat).value()->span<int32_t>(), ElementsAre(2, 6, 10));
  const Ref<Tensor> tens = Tensor::Vector<int32_t>({10, 20, 30})->Reshape(
      std::vector<int64_t>{3, 1}).value();
  GPU_OK(CopyAnywhere(*tens, const_cast<Tensor*>(part.get())));
  EXPECT_THAT(CopyToCpu(*there).value()->span<int32_t>(),
              ElementsAre(1, 10, 3, 4, 5, 20, 7, 8, 9, 30, 11, 12));
}

TEST_F(GpuTensors, HostCodeRefusesThem) {
  const Ref<Tensor> there = CopyToGpu(*Numbers(3), Memory(0)).value();
  const Status copy = there->Copy().status();
  EXPECT_EQ(copy.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(copy.ToString(), HasSubstr("int32[3] lies on GPU:0, and this needs elements in the "
                                         "host's memory; copy it to the host first"));
  TensorOptions label;
  label.device = there->device();
  EXPECT_THAT(Tensor::Create(DType::kInt32, Shape({3}), label).status().ToString(),
              HasSubstr("memory of GPU:0 comes from that device alone"));
  const Status text = CopyToGpu(*Tensor::Bytes("text"), Memory(0)).status();
  EXPECT_EQ(text.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(text.ToString(), HasSubstr("byte strings stay on the host"));
  EXPECT_THAT(devices_->Find("GPU:9").status().ToString(), HasSubstr("no GPU:9"));
}

TEST_F(GpuTensors, MemoryIsCountedAndGoesBackInTheOrderOfTheStream) {
  const auto used = [&] { return devices_->cuda()->Memory(0).value().used_bytes; };
  Ref<Tensor> there = CopyToGpu(*Numbers(1000), Memory(0)).value();
  EXPECT_EQ(used(), 4000);
  const Ref<Tensor> view = there->Slice(0, 1);
  there.reset();
  EXPECT_EQ(used(), 4000) << "the view holds it";
  const int64_t total = devices_->cuda()->Memory(0).value().total_bytes;
  const Result<Ref<Tensor>> large = Memory(0).Create(DType::kInt8, Shape({total + 1}), false);
  EXPECT_EQ(large.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(large.status().ToString(), HasSubstr(Format("{} bytes of its memory", total + 1)));
  EXPECT_EQ(used(), 4000) << "nothing is lost";
  EXPECT_EQ(CopyToCpu(*view).value()->item<int32_t>(), 1);
  const_cast<Ref<Tensor>&>(view).reset();
  EXPECT_EQ(used(), 0);
}

TEST_F(GpuTensors, PinnedMemoryIsTheHosts) {
  const Ref<BufferAllocator> pinned = devices_->Pinned().value();
  TensorOptions options;
  options.allocator = pinned.get();
  const Ref<Tensor> here = Tensor::Create(DType::kInt32, Shape({3}), options).value();
  EXPECT_THAT(here->span<int32_t>(), ElementsAre(0, 0, 0));
  here->mutable_span<int32_t>()[1] = 7;
  const Ref<Tensor> there = CopyToGpu(*here, Memory(0)).value();
  here->mutable_span<int32_t>()[1] = 8;  // it has been read
  EXPECT_THAT(CopyToCpu(*there, options).value()->span<int32_t>(), ElementsAre(0, 7, 0));
}

TEST_F(GpuTensors, StreamsOfTheCallersDoTheWork) {
  const Ref<GpuStream> stream = GpuStream::Create(Memory(0).place()).value();
  const Ref<Tensor> numbers = Numbers(50);
  const Ref<Tensor> there = CopyToGpu(*numbers, Memory(0), stream).value();
  EXPECT_EQ(StreamOf(*there), stream.get());
  const Ref<Tensor> again = CopyToGpu(*there, Memory(0)).value();
  EXPECT_EQ(StreamOf(*again), Memory(0).stream().value().get());
  EXPECT_TRUE(CopyToCpu(*again).value()->ContentsEqual(*numbers));
  EXPECT_TRUE(CopyToCpu(*again, {}, stream.get()).value()->ContentsEqual(*numbers));
  const Ref<GpuEvent> event = GpuEvent::Create(Memory(0).place(), true).value();
  const Ref<GpuEvent> later = GpuEvent::Create(Memory(0).place(), true).value();
  EXPECT_TRUE(event->IsReached().value()) << "never recorded";
  GPU_OK(event->Record(*stream));
  GPU_OK(later->Record(*stream));
  GPU_OK(later->Wait());
  EXPECT_GE(GpuEvent::ElapsedNs(*event, *later).value(), 0);
  GPU_OK(stream->WaitFor(*event));
  GPU_OK(stream->WaitFor(*Memory(0).stream().value()));
  GPU_OK(stream->Wait());
  const Ref<GpuStream> wrapped =
      GpuStream::Wrap(Memory(0).place(), stream->handle()).value();
  EXPECT_EQ(wrapped->handle(), stream->handle());
  EXPECT_THAT(GpuStream::Wrap(Memory(0).place(), 0).status().ToString(),
              HasSubstr("stream 0 says nothing"));
  CallOptions expired;
  expired.deadline = Deadline::After(RealClock(), 0);
  EXPECT_TRUE(stream->Wait(GpuWait{&expired, &RealClock()}).ok()) << "there is nothing to wait for";
  if (!HasSecond()) return;
  const Ref<GpuStream> other = GpuStream::Create(Memory(1).place()).value();
  EXPECT_THAT(CopyToGpu(*numbers, Memory(0), other).status().ToString(),
              HasSubstr("the stream is one of GPU:1, and the copy is made by GPU:0"));
  EXPECT_THAT(event->Record(*other).ToString(), HasSubstr("cannot be recorded on a stream of"));
  EXPECT_THAT(GpuStream::Wrap(Memory(1).place(), stream->handle()).status().ToString(),
              HasSubstr("belongs to another device"));
}

TEST_F(GpuTensors, OfLogicalGpusShareOnesMemoryWithinTheirLimits) {
  const int64_t total = devices_->cuda()->Properties(0).value().memory_bytes;
  const LogicalDevice two[] = {{.memory_limit_bytes = 8 << 20}, {}};
  const LogicalDevice large[] = {{.memory_limit_bytes = total}, {.memory_limit_bytes = 1}};
  const Status refused = devices_->SetLogicalDevices("GPU:0", large);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.ToString(), HasSubstr(Format("2 logical devices are {} bytes together, and "
                                                   "GPU:0 has {}", total + 1, total)));
  EXPECT_EQ(devices_->NumLogicalDevices("GPU:0").value(), std::nullopt);
  const size_t others = devices_->ListPhysicalNames("GPU").size() - 1;
  GPU_OK(devices_->SetLogicalDevices("/physical_device:GPU:0", two));
  EXPECT_EQ(devices_->NumLogicalDevices("GPU:0").value(), 2u);
  EXPECT_EQ(devices_->LogicalMemoryLimit("GPU:0", 0).value(), 8 << 20);
  EXPECT_EQ(devices_->LogicalMemoryLimit("GPU:0", 1).value(), 0);
  EXPECT_EQ(devices_->LogicalMemoryLimit("GPU:0", 2).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(devices_->ListNames("GPU").size(), 2 + others);
  EXPECT_EQ(devices_->SetLogicalDevices("GPU:0", large).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(devices_->SetLogicalDevices("GPU:0", {two, 1}).code(),
            StatusCode::kFailedPrecondition);

  // Two devices by their names, one by its memory; a copy between them is a copy all the same.
  const Ref<Tensor> numbers = Numbers(1000);
  const Ref<Tensor> first = CopyToGpu(*numbers, Memory(0)).value();
  Ref<Tensor> second = CopyToGpu(*first, Memory(1)).value();
  EXPECT_EQ(second->device().ToString(), "GPU:1");
  EXPECT_EQ(DeviceBufferOf(*second)->ordinal(), 0);
  EXPECT_NE(second->address(), first->address());
  EXPECT_NE(StreamOf(*second)->handle(), StreamOf(*first)->handle());
  EXPECT_TRUE(CopyToCpu(*second).value()->ContentsEqual(*numbers));
  EXPECT_EQ(devices_->FindGpuByOrdinal(0).value()->short_name(), "GPU:0");
  if (others > 0) {
    EXPECT_EQ(Memory(2).place().ordinal, 1);
  }

  // Each counts its own.
  EXPECT_EQ(devices_->ReadMemory("GPU:1").value().used_bytes, 4000);
  second.reset();
  EXPECT_EQ(devices_->ReadMemory("GPU:1").value().used_bytes, 0);
  EXPECT_EQ(devices_->ReadMemory("GPU:1").value().peak_bytes, 4000);
  GPU_OK(devices_->ResetPeak("GPU:1"));
  EXPECT_EQ(devices_->ReadMemory("GPU:1").value().peak_bytes, 0);
  EXPECT_EQ(devices_->ReadMemory("GPU:0").value().peak_bytes, 4000);
  EXPECT_THAT(devices_->ResetPeak("CPU:0").ToString(), HasSubstr("name a GPU"));
  EXPECT_THAT(devices_->Describe("GPU:0").value(),
              HasSubstr("\"used_bytes\": 4000, \"peak_bytes\": 4000, \"limit_bytes\": 8388608"));

  // The limit holds for one and not for the other, and nothing is lost.
  const Status full = Memory(0).Create(DType::kInt8, Shape({8 << 20}), false).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(full.ToString(), HasSubstr("GPU:0: 8388608 bytes of its memory were asked for, 4000 "
                                         "of its limit of 8388608 are in use"));
  GPU_OK(Memory(1).Create(DType::kInt8, Shape({8 << 20}), false));
  EXPECT_EQ(devices_->ReadMemory("GPU:0").value().used_bytes, 4000);
}

TEST_F(GpuTensors, OfEachGpuAsManyLogicalOnesAsTheOptionSays) {
  DeviceSetOptions options;
  options.cuda_plugin = PluginPath();
  options.logical_gpus = 3;
  devices_ = DeviceSet::Create(1, nullptr, options).value();
  const size_t there = devices_->ListPhysicalNames("GPU").size();
  EXPECT_EQ(devices_->ListVisibleNames("GPU").size(), there);
  EXPECT_EQ(devices_->ListNames("GPU").size(), 3 * there);
  EXPECT_EQ(Memory(2).place().ordinal, 0);
  EXPECT_THAT(devices_->Find(Format("GPU:{}", 3 * there)).status().ToString(),
              HasSubstr(Format("and GPU:0 to GPU:{}", 3 * there - 1)));
  options.logical_gpus = 0;
  EXPECT_EQ(DeviceSet::Create(1, nullptr, options).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(GpuTensors, GoByDlpackWithTheReceiversStream) {
  const Ref<Tensor> numbers = Numbers(6);
  Ref<Tensor> there = CopyToGpu(*numbers, Memory(0)).value();
  const Ref<GpuStream> stream = GpuStream::Create(Memory(0).place()).value();
  EXPECT_THAT(TensorToDlpack(*there, false, 0).status().ToString(),
              HasSubstr("stream 0 says nothing"));
  for (const int64_t receiver : {kNoStream, kDefaultStream, int64_t{2}, stream->handle()}) {
    DLManagedTensorVersioned* managed = TensorToDlpack(*there, false, receiver).value();
    EXPECT_EQ(managed->dl_tensor.device.device_type, 2);
    EXPECT_EQ(managed->dl_tensor.device.device_id, 0);
    EXPECT_EQ(managed->dl_tensor.data, there->address());
    EXPECT_EQ(TensorFromDlpack(managed, nullptr).status().code(), StatusCode::kUnimplemented);
    const auto on_gpu = [&](int ordinal, void* data, size_t bytes, DType dtype, const Shape& shape,
                            std::span<const int64_t> strides, bool read_only,
                            Ref<const RefCounted> keeper) {
      return GpuMemoryOf(*devices_->FindGpuByOrdinal(ordinal).value())
          ->Wrap(data, bytes, dtype, shape, strides, read_only, std::move(keeper));
    };
    const Ref<Tensor> back = TensorFromDlpack(managed, nullptr, on_gpu).value();
    EXPECT_EQ(back->address(), there->address());
    EXPECT_TRUE(CopyToCpu(*back).value()->ContentsEqual(*numbers));
  }
  EXPECT_THAT(devices_->FindGpuByOrdinal(9).status().ToString(), HasSubstr("CUDA's device 9"));
}

class GpuPrefetch : public GpuTensors {
 protected:
  void SetUp() override {
    GpuTensors::SetUp();
    if (!IsSkipped()) Begin();
  }
  void TearDown() override {
    gpu_.reset();
    GpuTensors::TearDown();
  }
  void Begin() { gpu_ = devices_->Find("GPU:0").value(); }
  // The same fake GPU with a fault.
  void Begin(const fake::Machine& machine) {
    gpu_.reset();
    devices_.reset();
    FakeFunction<fake::SetMachine>(fake::kSetMachine)(&machine);
    DeviceSetOptions options;
    options.cuda_plugin = PluginPath();
    devices_ = DeviceSet::Create(1, nullptr, options).value();
    Begin();
  }
  static Ref<Value> Batch(int64_t count) {
    const Ref<Tensor> matrix = Numbers(2 * count)->Reshape(std::vector<int64_t>{count, 2}).value();
    return Value::Dict({{"image", Value::OfTensor(matrix)},
                        {"name", Value::OfTensor(Tensor::Bytes("seven"))},
                        {"second", Value::OfTensor(matrix->SliceAxis(1, 1, 2).value())},
                        {"why", Value::None()}})
        .value();
  }
  static const Tensor& At(const StagedValue& staged, const char* key) {
    return staged.value()->Find(key).value()->leaf().tensor();
  }

  Ref<Device> gpu_;
};

TEST_F(GpuPrefetch, ValuesGoThereWhileOthersAreWritten) {
  const std::unique_ptr<GpuStaging> staging = GpuStaging::Create(*gpu_).value();
  const Ref<GpuStream> own = Memory(0).stream().value();
  std::vector<StagedValue> sent;
  constexpr int64_t kCounts[] = {3, 300, 0, 600000};  // the last one in parts
  for (const int64_t count : kCounts) {
    const Ref<Value> batch = Batch(count);
    sent.push_back(staging->Send(*batch).value());
    // It has been read.
    Tensor& image = const_cast<Tensor&>(batch->Find("image").value()->leaf().tensor());
    for (int32_t& number : image.mutable_span<int32_t>()) number = -1;
  }
  for (size_t i = 0; i < sent.size(); ++i) {
    GPU_OK(sent[i].Arrive());
    GPU_OK(sent[i].Arrive());  // once is enough
    const Ref<Value> batch = Batch(kCounts[i]);
    EXPECT_EQ(At(sent[i], "image").device().ToString(), "GPU:0");
    EXPECT_EQ(StreamOf(At(sent[i], "image")), own.get());
    for (const char* key : {"image", "second"}) {
      EXPECT_TRUE(CopyToCpu(At(sent[i], key)).value()->ContentsEqual(
          batch->Find(key).value()->leaf().tensor()))
          << i << " " << key;
    }
    EXPECT_EQ(At(sent[i], "name").ToString(), Tensor::Bytes("seven")->ToString());
    EXPECT_TRUE(sent[i].value()->Find("why").value()->leaf().is_none());
    // What lies there already stays.
    StagedValue again = staging->Send(*sent[i].value()).value();
    EXPECT_EQ(At(again, "image").address(), At(sent[i], "image").address());
  }
  EXPECT_EQ(devices_->ReadMemory("GPU:0").value().used_bytes, (3 + 300 + 600000) * 12 + 2);
  sent.clear();
  EXPECT_EQ(devices_->ReadMemory("GPU:0").value().used_bytes, 0);
  // One that nobody waits for goes back, too.
  { const StagedValue unused = staging->Send(*Batch(5)).value(); }
  EXPECT_EQ(devices_->ReadMemory("GPU:0").value().used_bytes, 0);
  EXPECT_THAT(GpuStaging::Create(*devices_->Find("CPU:0").value()).status().ToString(),
              HasSubstr("CPU:0 is no GPU"));
}

TEST_F(GpuPrefetch, ALackOfMemoryAndAnInterruptionLoseNothing) {
  if (IsReal()) GTEST_SKIP() << "the fake driver fails when it is told to";
  fake::Machine machine;
  machine.fail_allocation = 4;  // the second tensor of the second value
  Begin(machine);
  std::unique_ptr<GpuStaging> staging = GpuStaging::Create(*gpu_).value();
  StagedValue first = staging->Send(*Batch(10)).value();
  const Status full = staging->Send(*Batch(10)).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(full.ToString(), HasSubstr("40 bytes of its memory were asked for"));
  EXPECT_EQ(devices_->ReadMemory("GPU:0").value().used_bytes, 120);
  StagedValue second = staging->Send(*Batch(10)).value();
  GPU_OK(first.Arrive());
  GPU_OK(second.Arrive());
  EXPECT_TRUE(CopyToCpu(At(second, "image")).value()->ContentsEqual(
      Batch(10)->Find("image").value()->leaf().tensor()));

  first = StagedValue();
  second = StagedValue();
  staging.reset();
  machine = fake::Machine();
  machine.not_ready = 1000;
  Begin(machine);
  staging = GpuStaging::Create(*gpu_).value();
  const Ref<Cancellation> closing = MakeRef<Cancellation>();
  const CallOptions call{Deadline::Infinite(), closing.get()};
  first = staging->Send(*Batch(1)).value();
  second = staging->Send(*Batch(2)).value();
  closing->Cancel(Cancelled("closing"));
  EXPECT_EQ(staging->Send(*Batch(3), GpuWait{&call, &RealClock()}).status().code(),
            StatusCode::kCancelled);
  StagedValue third = staging->Send(*Batch(3)).value();
  GPU_OK(third.Arrive());
  EXPECT_EQ(At(third, "second").num_elements(), 3);
}

}  // namespace
}  // namespace tutti::gpu
