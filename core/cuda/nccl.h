// NCCL's interface, found at run time: declared in our own words, as the driver's (driver.h). Many
// programs have a copy in the process already (PyTorch brings one), and two of them would be two
// sets of connections, so that one is taken first.
//
// Names are those of the library's symbols, without "nccl"; numbers are its own and never change.
#ifndef TUTTI_CORE_CUDA_NCCL_H_
#define TUTTI_CORE_CUDA_NCCL_H_

#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/cuda/driver.h"

namespace tutti::cuda::nccl {

using Outcome = int32_t;  // what every function returns
using DataType = int32_t;
using Operation = int32_t;
using Comm = struct CommOfNccl*;
using Window = struct WindowOfNccl*;

inline constexpr Outcome kSuccess = 0;
inline constexpr Outcome kUnhandledCudaError = 1;
inline constexpr Outcome kSystemError = 2;
inline constexpr Outcome kInternalError = 3;
inline constexpr Outcome kInvalidArgument = 4;
inline constexpr Outcome kInvalidUsage = 5;
inline constexpr Outcome kRemoteError = 6;
inline constexpr Outcome kInProgress = 7;
inline constexpr Outcome kTimeout = 8;

inline constexpr DataType kInt8 = 0, kUint8 = 1, kInt32 = 2, kUint32 = 3, kInt64 = 4, kUint64 = 5,
                          kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9;
inline constexpr Operation kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAverage = 4;

inline constexpr int32_t kNoColor = -1;
inline constexpr int32_t kShrinkAborting = 1;
inline constexpr int32_t kUndefined = INT_MIN;
inline constexpr uint32_t kMagic = 0xcafebeef;
inline constexpr int32_t kSymmetricWindow = 1;

// 2.18.1, 2.30, 2.32.
inline constexpr int32_t kOldest = 21800, kSharesDevices = 23000, kEncrypts = 23200;

struct UniqueId {
  char bytes[128];
};

// As of 2.18; newer ones take what is missing at its end as undefined.
struct Config {
  size_t size = sizeof(Config);
  uint32_t magic = kMagic;
  uint32_t version = kOldest;
  int32_t blocking = 0;
  int32_t cga_cluster_size = kUndefined;
  int32_t min_ctas = kUndefined;
  int32_t max_ctas = kUndefined;
  const char* net_name = nullptr;
  int32_t split_share = kUndefined;
};

struct Encryption {
  size_t size = sizeof(Encryption);
  uint32_t magic = kMagic;
  uint32_t version = kEncrypts;
  int32_t mode = 1;  // a key that all share
  const char* key = nullptr;
};

// X(member, symbol, parameters): what every version has that we take,
#define TUTTI_NCCL_SLOTS(X) \
  X(GetVersion, "ncclGetVersion", (int32_t* version)) \
  X(GetUniqueId, "ncclGetUniqueId", (UniqueId* id)) \
  X(CommInitRankConfig, "ncclCommInitRankConfig", \
    (Comm* comm, int32_t ranks, UniqueId id, int32_t rank, Config* config)) \
  X(CommFinalize, "ncclCommFinalize", (Comm comm)) \
  X(CommDestroy, "ncclCommDestroy", (Comm comm)) \
  X(CommAbort, "ncclCommAbort", (Comm comm)) \
  X(CommSplit, "ncclCommSplit", \
    (Comm comm, int32_t color, int32_t key, Comm* made, Config* config)) \
  X(CommGetAsyncError, "ncclCommGetAsyncError", (Comm comm, Outcome* error)) \
  X(CommCount, "ncclCommCount", (Comm comm, int32_t* count)) \
  X(CommUserRank, "ncclCommUserRank", (Comm comm, int32_t* rank)) \
  X(AllReduce, "ncclAllReduce", \
    (const void* in, void* out, size_t count, DataType type, Operation op, Comm comm, \
     Stream stream)) \
  X(Reduce, "ncclReduce", \
    (const void* in, void* out, size_t count, DataType type, Operation op, int32_t root, \
     Comm comm, Stream stream)) \
  X(Broadcast, "ncclBroadcast", \
    (const void* in, void* out, size_t count, DataType type, int32_t root, Comm comm, \
     Stream stream)) \
  X(AllGather, "ncclAllGather", \
    (const void* in, void* out, size_t count, DataType type, Comm comm, Stream stream)) \
  X(ReduceScatter, "ncclReduceScatter", \
    (const void* in, void* out, size_t count, DataType type, Operation op, Comm comm, \
     Stream stream)) \
  X(Send, "ncclSend", \
    (const void* in, size_t count, DataType type, int32_t peer, Comm comm, Stream stream)) \
  X(Recv, "ncclRecv", \
    (void* out, size_t count, DataType type, int32_t peer, Comm comm, Stream stream)) \
  X(GroupStart, "ncclGroupStart", ()) \
  X(GroupEnd, "ncclGroupEnd", ())

// and what only newer ones have.
#define TUTTI_NCCL_NEWER_SLOTS(X) \
  X(MemAlloc, "ncclMemAlloc", (void** memory, size_t bytes)) \
  X(MemFree, "ncclMemFree", (void* memory)) \
  X(CommRegister, "ncclCommRegister", (Comm comm, void* memory, size_t bytes, void** handle)) \
  X(CommDeregister, "ncclCommDeregister", (Comm comm, void* handle)) \
  X(CommShrink, "ncclCommShrink", \
    (Comm comm, int32_t* left_out, int32_t count, Comm* made, Config* config, int32_t flags)) \
  X(CommWindowRegister, "ncclCommWindowRegister", \
    (Comm comm, void* memory, size_t bytes, Window* window, int32_t flags)) \
  X(CommWindowDeregister, "ncclCommWindowDeregister", (Comm comm, Window window)) \
  X(CommRevoke, "ncclCommRevoke", (Comm comm, int32_t flags)) \
  X(CommGetUniqueId, "ncclCommGetUniqueId", (Comm comm, UniqueId* id)) \
  X(CommGrow, "ncclCommGrow", \
    (Comm comm, int32_t ranks, const UniqueId* id, int32_t rank, Comm* made, Config* config)) \
  X(SetEncryption, "ncclSetEncryption", (const Encryption* config))

struct Library {
#define TUTTI_NCCL_SLOT(member, symbol, parameters) Outcome(*member) parameters = nullptr;
  TUTTI_NCCL_SLOTS(TUTTI_NCCL_SLOT)
  TUTTI_NCCL_NEWER_SLOTS(TUTTI_NCCL_SLOT)
#undef TUTTI_NCCL_SLOT
  const char* (*GetErrorString)(Outcome outcome) = nullptr;
  const char* (*GetLastError)(Comm comm) = nullptr;

  int32_t version = 0;
  uint32_t capabilities = 0;
  std::string file;
  std::string origin;

  // Finds and opens NCCL, which stays loaded. TUTTI_OK, TUTTI_NOT_FOUND where there is none, or
  // TUTTI_FAILED_PRECONDITION for one that will not do; `reason` says why.
  int32_t Load(std::string* reason);

  // "unhandled cuda error (1): Cuda failure 'no device'", with what `comm` (may be null) said last.
  std::string Describe(Outcome outcome, Comm comm) const;
};

// "2.30.7" of 23007.
std::string VersionText(int32_t version);

}  // namespace tutti::cuda::nccl

#endif  // TUTTI_CORE_CUDA_NCCL_H_
