#include "core/device/gpu_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

class GpuBuffer final : public DeviceBuffer {
 public:
  // Memory of our own, given back on `stream`; or another library's, which `keeper` keeps alive.
  // `use` (may be null) has counted the bytes.
  GpuBuffer(void* data, size_t bytes, Ref<GpuStream> stream, bool owned,
            Ref<const RefCounted> keeper, Ref<DeviceUse> use = nullptr)
      : DeviceBuffer(data, bytes),
        stream_(std::move(stream)),
        owned_(owned),
        keeper_(std::move(keeper)),
        use_(std::move(use)) {}

  const Ref<GpuStream>& stream() const { return stream_; }
  bool is_foreign() const { return !owned_; }

  Result<Ref<Tensor>> CopyOnDevice(const Tensor& tensor) const override;
  Result<Ref<Tensor>> CopyToHost(const Tensor& tensor) const override { return CopyToCpu(tensor); }
  int ordinal() const override { return stream_->place().ordinal; }
  Status OrderFor(int64_t stream) const override {
    if (stream == stream_->handle()) return OkStatus();
    TUTTI_ASSIGN_OR_RETURN(const Ref<GpuStream> other, GpuStream::Wrap(stream_->place(), stream));
    return other->WaitFor(*stream_);
  }

 private:
  ~GpuBuffer() override {
    // What fails here has failed before, and was reported to whoever waited for it.
    if (!owned_) return;
    (void)DevicePlugin::Taken(api().release_on_stream(stream_->raw(), data()));
    if (use_) use_->Unreserve(static_cast<int64_t>(bytes()));
  }
  const tutti_plugin_api& api() const { return stream_->place().api(); }

  const Ref<GpuStream> stream_;
  const bool owned_;
  const Ref<const RefCounted> keeper_;
  const Ref<DeviceUse> use_;
};

const GpuBuffer* GpuBufferOf(const Tensor& tensor) {
  return static_cast<const GpuBuffer*>(DeviceBufferOf(tensor));
}

Result<const GpuBuffer*> BufferOfGpu(const Tensor& tensor) {
  const GpuBuffer* const buffer = GpuBufferOf(tensor);
  if (buffer != nullptr) return buffer;
  return InvalidArgument("copy: {} does not lie in memory of a GPU but on {}", tensor.SpecString(),
                         tensor.device().ToString());
}

// Work of `stream` on the memory of `buffer` stands between these two.
Status BeginUse(const GpuStream& stream, const GpuBuffer& buffer) {
  return stream.WaitFor(*buffer.stream());
}
Status EndUse(const GpuStream& stream, const GpuBuffer& buffer) {
  // Whoever owns foreign memory knows nothing of our streams.
  if (buffer.is_foreign()) return stream.Wait();
  return buffer.stream()->WaitFor(stream);
}

Status CopyBytes(const GpuStream& stream, int32_t direction, void* to, const void* from,
                 size_t bytes) {
  return DevicePlugin::Taken(stream.place().api().copy(stream.raw(), direction, to, from, bytes));
}

Status CheckDevice(const GpuStream& stream, const GpuPlace& place) {
  if (stream.place().ordinal == place.ordinal) return OkStatus();
  return InvalidArgument("copy: the stream is one of {}, and the copy is made by {}; pass a stream "
                         "of that device, or none",
                         stream.device_name(), place.id.ToString());
}

Status CopyStridedOnGpu(const GpuStream& stream, const Tensor& source, const Tensor& destination) {
  return DevicePlugin::Taken(stream.place().api().copy_strided(
      stream.raw(), source.item_size(), static_cast<int32_t>(source.rank()),
      source.shape().dims().data(), source.address(), source.strides().data(),
      destination.address(), destination.strides().data()));
}

// Element for element, within one device: on `stream`, which has waited for both.
Status CopyWithin(const GpuStream& stream, const Tensor& source, const Tensor& destination) {
  if (source.num_elements() == 0) return OkStatus();
  if (!source.is_contiguous() || !destination.is_contiguous()) {
    return CopyStridedOnGpu(stream, source, destination);
  }
  return CopyBytes(stream, TUTTI_PLUGIN_DEVICE_TO_DEVICE, destination.address(), source.address(),
                   source.byte_size());
}

Status CheckNumbers(const Tensor& tensor) {
  if (tensor.dtype() != DType::kBytes) return OkStatus();
  return InvalidArgument("copy: {}: byte strings stay on the host; a GPU takes numbers and bool",
                         tensor.SpecString());
}

// From contiguous host memory: the copy has read it when this returns.
Status CopyIn(const GpuStream& stream, const Tensor& source, const Tensor& destination,
              const GpuWait& wait) {
  if (source.num_elements() == 0) return OkStatus();
  TUTTI_RETURN_IF_ERROR(stream.Wait(wait));
  TUTTI_RETURN_IF_ERROR(CopyBytes(stream, TUTTI_PLUGIN_HOST_TO_DEVICE, destination.address(),
                                  source.data(), source.byte_size()));
  // Pinned memory is read while the host goes on. Nobody may free it before: no way to end this.
  return stream.Wait();
}

// To contiguous host memory. What can last, the work before, is waited for first.
Status CopyOut(const GpuStream& stream, const Tensor& source, Tensor* destination,
               const GpuWait& wait) {
  if (source.num_elements() == 0) return OkStatus();
  TUTTI_RETURN_IF_ERROR(stream.Wait(wait));
  TUTTI_RETURN_IF_ERROR(CopyBytes(stream, TUTTI_PLUGIN_DEVICE_TO_HOST, destination->mutable_data(),
                                  source.address(), source.byte_size()));
  return stream.Wait();
}

class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(void* data, size_t bytes, GpuPlace place)
      : Buffer(data, bytes), place_(std::move(place)) {}

 private:
  ~PinnedBuffer() override {
    (void)DevicePlugin::Taken(
        place_.api().release_pinned(place_.plugin->handle(), place_.ordinal, data()));
  }

  const GpuPlace place_;
};

}  // namespace

Result<Ref<GpuStream>> GpuMemory::stream() {
  const std::lock_guard lock(mutex_);
  if (!stream_) {
    TUTTI_ASSIGN_OR_RETURN(stream_, GpuStream::Create(place_));
  }
  return stream_;
}

bool GpuMemory::has_kernels() {
  const std::lock_guard lock(mutex_);
  if (!has_kernels_) {
    const Result<tutti_plugin_device_properties> properties =
        place_.plugin->Properties(place_.ordinal);
    has_kernels_ = properties.ok() && properties->has_kernels != 0;
  }
  return *has_kernels_;
}

Result<Ref<Buffer>> GpuMemory::Allocate(size_t bytes, bool zeroed) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<GpuStream> own, stream());
  return AllocateOn(own, bytes, zeroed);
}

Result<Ref<Buffer>> GpuMemory::AllocateOn(const Ref<GpuStream>& stream, size_t bytes,
                                          bool zeroed) {
  return AllocateBy(*stream, stream, bytes, zeroed);
}

Result<Ref<Buffer>> GpuMemory::AllocateBy(const GpuStream& by, const Ref<GpuStream>& owner,
                                          size_t bytes, bool zeroed) {
  bytes = std::max<size_t>(bytes, 1);
  const Ref<DeviceUse>& use = place_.use;
  if (use) TUTTI_RETURN_IF_ERROR(use->Reserve(static_cast<int64_t>(bytes)));
  void* memory = nullptr;
  Status allocated =
      DevicePlugin::Taken(place_.api().allocate_on_stream(by.raw(), bytes, &memory));
  if (!allocated.ok()) {
    if (use) use->Unreserve(static_cast<int64_t>(bytes));
    return allocated;
  }
  if (use) use->CountPeak();
  Ref<Buffer> buffer = MakeRef<GpuBuffer>(memory, bytes, owner, true, nullptr, use);
  if (zeroed) {
    TUTTI_RETURN_IF_ERROR(
        DevicePlugin::Taken(place_.api().fill(by.raw(), memory, 0, bytes)));
  }
  return buffer;
}

Result<Ref<Tensor>> GpuMemory::Create(DType dtype, const Shape& shape, bool zeroed,
                                      const Ref<GpuStream>& stream) {
  Ref<GpuStream> owner = stream;
  if (!owner) {
    TUTTI_ASSIGN_OR_RETURN(owner, this->stream());
  }
  return CreateBy(*owner, owner, dtype, shape, zeroed);
}

Result<Ref<Tensor>> GpuMemory::CreateBy(const Ref<GpuStream>& by, DType dtype,
                                        const Shape& shape) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<GpuStream> own, stream());
  return CreateBy(*by, own, dtype, shape, false);
}

Result<Ref<Tensor>> GpuMemory::CreateBy(const GpuStream& by, const Ref<GpuStream>& owner,
                                        DType dtype, const Shape& shape, bool zeroed) {
  if (dtype == DType::kBytes) {
    return InvalidArgument("tensor bytes{}: byte strings stay on the host; a GPU takes numbers and "
                           "bool",
                           shape.ToString());
  }
  // Two streams', as an allocator.
  class OfStreams final : public BufferAllocator {
   public:
    OfStreams(GpuMemory& memory, const GpuStream& by, const Ref<GpuStream>& owner)
        : memory_(memory), by_(by), owner_(owner) {}
    Result<Ref<Buffer>> Allocate(size_t bytes, bool zeroed) override {
      return memory_.AllocateBy(by_, owner_, bytes, zeroed);
    }

   private:
    GpuMemory& memory_;
    const GpuStream& by_;
    const Ref<GpuStream>& owner_;
  };
  const Ref<OfStreams> allocator = MakeRef<OfStreams>(*this, by, owner);
  TensorOptions options;
  options.zeroed = zeroed;
  options.allocator = allocator.get();
  options.device = place_.id;
  return Tensor::Create(dtype, shape, options);
}

Result<Ref<Tensor>> GpuMemory::Wrap(void* data, size_t bytes, DType dtype, const Shape& shape,
                                    std::span<const int64_t> strides, bool read_only,
                                    Ref<const RefCounted> keeper, size_t offset_bytes) {
  if (dtype == DType::kBytes) {
    return InvalidArgument("tensor: byte strings stay on the host; a GPU takes numbers and bool");
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<GpuStream> own, stream());
  // What can be wrong is said there, and what keeps the memory is not needed for that.
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> described,
                         Tensor::Wrap(data, bytes, dtype, shape, strides, read_only, nullptr,
                                      offset_bytes, place_.id));
  return Tensor::View(described->address(), dtype, shape, strides, read_only,
                      MakeRef<GpuBuffer>(data, bytes, own, false, std::move(keeper)), place_.id);
}

GpuMemory* GpuMemoryOf(const Device& device) {
  return dynamic_cast<GpuMemory*>(device.allocator());
}

const GpuStream* StreamOf(const Tensor& tensor) {
  const GpuBuffer* const buffer = GpuBufferOf(tensor);
  return buffer == nullptr ? nullptr : buffer->stream().get();
}

bool IsOfOtherLibrary(const Tensor& tensor) {
  const GpuBuffer* const buffer = GpuBufferOf(tensor);
  return buffer != nullptr && buffer->is_foreign();
}

Status BeginUse(const GpuStream& stream, const Tensor& tensor) {
  TUTTI_ASSIGN_OR_RETURN(const GpuBuffer* const buffer, BufferOfGpu(tensor));
  return buffer->stream().get() == &stream ? OkStatus() : BeginUse(stream, *buffer);
}

Status EndUse(const GpuStream& stream, const Tensor& tensor) {
  TUTTI_ASSIGN_OR_RETURN(const GpuBuffer* const buffer, BufferOfGpu(tensor));
  const bool own = buffer->stream().get() == &stream && !buffer->is_foreign();
  return own ? OkStatus() : EndUse(stream, *buffer);
}

Result<Ref<Tensor>> GpuBuffer::CopyOnDevice(const Tensor& tensor) const {
  const Ref<GpuMemory> memory = MakeRef<GpuMemory>(stream_->place());
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy,
                         memory->Create(tensor.dtype(), tensor.shape(), false, stream_));
  TUTTI_RETURN_IF_ERROR(CopyWithin(*stream_, tensor, *copy));
  TUTTI_RETURN_IF_ERROR(EndUse(*stream_, *this));
  return copy;
}

Result<Ref<Tensor>> CopyToGpu(const Tensor& source, GpuMemory& target,
                              const Ref<GpuStream>& stream, const GpuWait& wait) {
  TUTTI_RETURN_IF_ERROR(CheckNumbers(source));
  if (stream) TUTTI_RETURN_IF_ERROR(CheckDevice(*stream, target.place()));
  TUTTI_ASSIGN_OR_RETURN(const Ref<GpuStream> own, target.stream());
  const Ref<GpuStream>& by = stream ? stream : own;
  if (source.device().is_cpu()) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> dense, source.Contiguous());
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy,
                           target.Create(source.dtype(), source.shape(), false, by));
    TUTTI_RETURN_IF_ERROR(CopyIn(*by, *dense, *copy, wait));
    return copy;
  }
  TUTTI_ASSIGN_OR_RETURN(const GpuBuffer* const from, BufferOfGpu(source));
  const bool is_same = from->ordinal() == target.place().ordinal;
  // What is strided is gathered where it lies.
  Ref<Tensor> gathered;
  if (!is_same && !source.is_contiguous()) {
    TUTTI_ASSIGN_OR_RETURN(gathered, from->CopyOnDevice(source));
    return CopyToGpu(*gathered, target, stream, wait);
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy,
                         target.Create(source.dtype(), source.shape(), false, by));
  TUTTI_RETURN_IF_ERROR(BeginUse(*by, *from));
  TUTTI_RETURN_IF_ERROR(CopyWithin(*by, source, *copy));
  TUTTI_RETURN_IF_ERROR(EndUse(*by, *from));
  return copy;
}

Result<Ref<Tensor>> CopyToCpu(const Tensor& source, const TensorOptions& options,
                              const GpuStream* stream, const GpuWait& wait) {
  TUTTI_ASSIGN_OR_RETURN(const GpuBuffer* const from, BufferOfGpu(source));
  if (stream != nullptr) TUTTI_RETURN_IF_ERROR(CheckDevice(*stream, from->stream()->place()));
  const GpuStream& by = stream != nullptr ? *stream : *from->stream();
  if (!source.is_contiguous()) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> gathered, from->CopyOnDevice(source));
    return CopyToCpu(*gathered, options, stream, wait);
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy,
                         Tensor::Create(source.dtype(), source.shape(), Unzeroed(options)));
  TUTTI_RETURN_IF_ERROR(BeginUse(by, *from));
  TUTTI_RETURN_IF_ERROR(CopyOut(by, source, copy.get(), wait));
  return copy;
}

Status CopyAnywhere(const Tensor& source, Tensor* destination, const GpuWait& wait) {
  const bool to_host = destination->device().is_cpu();
  if (source.device().is_cpu() && to_host) return CopyInto(source, destination);
  if (source.dtype() != destination->dtype() || !(source.shape() == destination->shape())) {
    return InvalidArgument("copy: the source is {} and the destination {}; they must be equal",
                           source.SpecString(), destination->SpecString());
  }
  if (destination->read_only()) {
    return FailedPrecondition("copy: the destination {} is read-only", destination->SpecString());
  }
  if (to_host) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> host, CopyToCpu(source, {}, nullptr, wait));
    return CopyInto(*host, destination);
  }
  TUTTI_ASSIGN_OR_RETURN(const GpuBuffer* const to, BufferOfGpu(*destination));
  const GpuStream& by = *to->stream();
  const Ref<GpuMemory> memory = MakeRef<GpuMemory>(by.place());
  Ref<Tensor> here = Ref<Tensor>::Retain(const_cast<Tensor*>(&source));
  const GpuBuffer* const from = GpuBufferOf(source);
  if (source.device().is_cpu() && destination->is_contiguous()) {
    TUTTI_ASSIGN_OR_RETURN(here, source.Contiguous());
    return CopyIn(by, *here, *destination, wait);
  }
  if (from == nullptr || from->ordinal() != to->ordinal()) {
    TUTTI_ASSIGN_OR_RETURN(here, CopyToGpu(source, *memory, to->stream(), wait));
  } else {
    TUTTI_RETURN_IF_ERROR(BeginUse(by, *from));
  }
  TUTTI_RETURN_IF_ERROR(CopyWithin(by, *here, *destination));
  if (from != nullptr) TUTTI_RETURN_IF_ERROR(EndUse(by, *from));
  return to->is_foreign() ? by.Wait() : OkStatus();
}

Result<Ref<Buffer>> PinnedAllocator::Allocate(size_t bytes, bool zeroed) {
  bytes = std::max<size_t>(bytes, 1);
  void* memory = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(
      place_.api().allocate_pinned(place_.plugin->handle(), place_.ordinal, bytes, &memory)));
  if (zeroed) std::memset(memory, 0, bytes);
  return Ref<Buffer>(MakeRef<PinnedBuffer>(memory, bytes, place_));
}

}  // namespace tutti
