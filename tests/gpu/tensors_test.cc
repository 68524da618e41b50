// Tensors on a GPU, their streams and events, as the core has them.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/device/device.h"
#include "core/device/gpu_memory.h"
#include "core/tensor/copy.h"
#include "core/tensor/dlpack.h"
#include "core/tensor/dlpack_abi.h"
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

}  // namespace
}  // namespace tutti::gpu
