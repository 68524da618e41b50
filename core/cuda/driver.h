// The driver's interface, found at run time: libcuda.so.1 belongs to the machine's driver, not to
// the toolkit, and most machines have none. So its functions are slots of a table here, declared in
// our own words, and filled by dlsym.
//
// The path is "libcuda.so.1", or what TUTTI_CUDA_DRIVER says. The names are those of the library's
// symbols, with their version suffixes; numbers are the driver's and never change.
#ifndef TUTTI_CORE_CUDA_DRIVER_H_
#define TUTTI_CORE_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::cuda {

using Outcome = int32_t;  // what every function of the driver returns
using DeviceOrdinal = int32_t;
using Address = uint64_t;
using Context = struct ContextOfDriver*;
using Stream = struct StreamOfDriver*;
using Event = struct EventOfDriver*;
using Module = struct ModuleOfDriver*;
using Function = struct FunctionOfDriver*;
using Pool = struct PoolOfDriver*;

inline constexpr Outcome kSuccess = 0;
inline constexpr Outcome kOutOfMemory = 2;
inline constexpr Outcome kNoDevice = 100;
inline constexpr Outcome kNoBinaryForDevice = 209;
inline constexpr Outcome kPeersAlready = 704;  // nothing is broken then
inline constexpr Outcome kNotReady = 600;
// From here to kLastPoison a kernel has failed, and the process can use the device no more.
inline constexpr Outcome kFirstPoison = 700;
inline constexpr Outcome kLastPoison = 721;
inline constexpr Outcome kEccUncorrectable = 214;

// Of a device.
inline constexpr int32_t kMultiprocessorCount = 16;
inline constexpr int32_t kIntegrated = 18;
inline constexpr int32_t kL2CacheSize = 38;
inline constexpr int32_t kComputeMajor = 75;
inline constexpr int32_t kComputeMinor = 76;

inline constexpr uint32_t kStreamNonBlocking = 1;
inline constexpr uint32_t kEventDefault = 0;
inline constexpr uint32_t kEventWithoutTime = 2;
inline constexpr uint32_t kHostPortable = 1;

// Who may do what with the memory of a pool.
struct PoolAccess {
  int32_t kind_of_place = 1;  // a device
  DeviceOrdinal device = 0;
  int32_t rights = 3;  // to read and to write
};

// The first driver that has all the functions below: 11.2.
inline constexpr int32_t kOldestDriver = 11020;

// X(member, symbol, parameters)
#define TUTTI_CUDA_SLOTS(X) \
  X(Init, "cuInit", (uint32_t flags)) \
  X(DriverGetVersion, "cuDriverGetVersion", (int32_t* version)) \
  X(GetErrorName, "cuGetErrorName", (Outcome outcome, const char** name)) \
  X(GetErrorString, "cuGetErrorString", (Outcome outcome, const char** text)) \
  X(DeviceGetCount, "cuDeviceGetCount", (int32_t* count)) \
  X(DeviceGet, "cuDeviceGet", (DeviceOrdinal* device, int32_t index)) \
  X(DeviceGetName, "cuDeviceGetName", (char* name, int32_t size, DeviceOrdinal device)) \
  X(DeviceGetUuid, "cuDeviceGetUuid", (void* uuid, DeviceOrdinal device)) \
  X(DeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char* id, int32_t size, DeviceOrdinal device)) \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t* bytes, DeviceOrdinal device)) \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", \
    (int32_t* value, int32_t attribute, DeviceOrdinal device)) \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context* context, DeviceOrdinal device)) \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (DeviceOrdinal device)) \
  X(CtxPushCurrent, "cuCtxPushCurrent_v2", (Context context)) \
  X(CtxPopCurrent, "cuCtxPopCurrent_v2", (Context* context)) \
  X(DeviceCanAccessPeer, "cuDeviceCanAccessPeer", \
    (int32_t* can, DeviceOrdinal device, DeviceOrdinal peer)) \
  X(CtxEnablePeerAccess, "cuCtxEnablePeerAccess", (Context peer, uint32_t flags)) \
  X(DeviceGetMemPool, "cuDeviceGetMemPool", (Pool* pool, DeviceOrdinal device)) \
  X(MemPoolSetAccess, "cuMemPoolSetAccess", \
    (Pool pool, const PoolAccess* accesses, size_t count)) \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t* free, size_t* total)) \
  X(MemAlloc, "cuMemAlloc_v2", (Address* memory, size_t bytes)) \
  X(MemFree, "cuMemFree_v2", (Address memory)) \
  X(MemAllocAsync, "cuMemAllocAsync", (Address* memory, size_t bytes, Stream stream)) \
  X(MemFreeAsync, "cuMemFreeAsync", (Address memory, Stream stream)) \
  X(MemHostAlloc, "cuMemHostAlloc", (void** memory, size_t bytes, uint32_t flags)) \
  X(MemFreeHost, "cuMemFreeHost", (void* memory)) \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", \
    (Address to, const void* from, size_t bytes, Stream stream)) \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", \
    (void* to, Address from, size_t bytes, Stream stream)) \
  X(MemcpyAsync, "cuMemcpyAsync", (Address to, Address from, size_t bytes, Stream stream)) \
  X(MemsetD8Async, "cuMemsetD8Async", \
    (Address memory, unsigned char byte, size_t bytes, Stream stream)) \
  X(StreamCreate, "cuStreamCreate", (Stream* stream, uint32_t flags)) \
  X(StreamDestroy, "cuStreamDestroy_v2", (Stream stream)) \
  X(StreamQuery, "cuStreamQuery", (Stream stream)) \
  X(StreamSynchronize, "cuStreamSynchronize", (Stream stream)) \
  X(StreamWaitEvent, "cuStreamWaitEvent", (Stream stream, Event event, uint32_t flags)) \
  X(StreamGetCtx, "cuStreamGetCtx", (Stream stream, Context* context)) \
  X(EventCreate, "cuEventCreate", (Event* event, uint32_t flags)) \
  X(EventDestroy, "cuEventDestroy_v2", (Event event)) \
  X(EventRecord, "cuEventRecord", (Event event, Stream stream)) \
  X(EventQuery, "cuEventQuery", (Event event)) \
  X(EventSynchronize, "cuEventSynchronize", (Event event)) \
  X(EventElapsedTime, "cuEventElapsedTime", (float* ms, Event begin, Event end)) \
  X(ModuleLoadData, "cuModuleLoadData", (Module* module, const void* image)) \
  X(ModuleUnload, "cuModuleUnload", (Module module)) \
  X(ModuleGetFunction, "cuModuleGetFunction", \
    (Function* function, Module module, const char* name)) \
  X(LaunchKernel, "cuLaunchKernel", \
    (Function function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x, \
     uint32_t block_y, uint32_t block_z, uint32_t shared_bytes, Stream stream, void** parameters, \
     void** extra))

struct Driver {
#define TUTTI_CUDA_SLOT(member, symbol, parameters) Outcome(*member) parameters = nullptr;
  TUTTI_CUDA_SLOTS(TUTTI_CUDA_SLOT)
#undef TUTTI_CUDA_SLOT
  int32_t version = 0;  // 13000 is 13.0

  // Opens and starts the driver. False, and why in `reason`, when there is none, or none that will
  // do. It stays loaded.
  bool Load(std::string* reason);

  // "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
  std::string Describe(Outcome outcome) const;
};

// "13.0" of 13000.
std::string DriverVersionText(int32_t version);

}  // namespace tutti::cuda

#endif  // TUTTI_CORE_CUDA_DRIVER_H_
