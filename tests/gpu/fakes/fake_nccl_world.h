// The ranks of the fake NCCL, and what they do together; fake_nccl.cc has NCCL's own functions.
#ifndef TUTTI_TESTS_GPU_FAKES_FAKE_NCCL_WORLD_H_
#define TUTTI_TESTS_GPU_FAKES_FAKE_NCCL_WORLD_H_

#include <dlfcn.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda/nccl.h"
#include "tests/gpu/fakes/fake_nccl.h"

namespace tutti::fake {

using namespace cuda::nccl;  // NOLINT
using cuda::Stream;

struct Communicator;

struct Call {
  enum Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kRecv } kind;
  const void* in;
  void* out;
  size_t count;
  DataType type;
  Operation op;
  int32_t peer;  // or the root

  bool Fits(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type && op == other.op &&
           peer == other.peer;
  }
};

// What all ranks bring to one collective operation.
struct Round {
  struct Part {
    const void* in = nullptr;
    void* out = nullptr;
  };
  Call call;  // of the first one that came
  std::vector<Part> parts;
  size_t come = 0;
  bool done = false;
};

// What makes new communicators of a world: split, shrink or grow.
struct Making {
  struct Part {
    Communicator* rank;  // null: comes from outside
    int32_t color, key;
    Comm* made;
    Communicator* joining;  // comes from outside
  };
  std::vector<Part> parts;
  size_t expected = 0;
};

// The ranks of one communicator.
struct World {
  std::string id;
  std::string folder;  // where ranks of several processes meet (fake_nccl_processes.cc); "": of one
  int32_t size = 0;
  std::vector<Communicator*> ranks;  // null: not yet, or no more
  int32_t come = 0;
  int32_t finalized = 0;
  std::map<uint64_t, Round> rounds;
  std::map<uint64_t, Making> makings;
  std::map<std::pair<int32_t, int32_t>, std::deque<std::vector<char>>> mail;  // from, to
};

// Several at once: those of one group on one stream.
struct Batch {
  Communicator* rank;
  Stream stream;
  std::vector<Call> operations;
};

struct Communicator {
  std::shared_ptr<World> world;
  int32_t rank = 0;
  int32_t device = 0;
  Outcome error = kSuccess;
  std::string why = "set by the test";  // of the error
  int32_t in_progress = 0;        // questions that are answered so
  std::vector<Batch> prepared;    // go to their streams when that is over
  int32_t running = 0;            // batches on streams
  uint64_t rounds = 0, makings = 0;
  int32_t operations = 0;
  std::multiset<void*> registered;
  bool ends = false;              // what waits on streams returns
  bool revoked = false, finalized = false, making = false;
};

extern std::mutex mutex;  // guards all there is
extern std::condition_variable changed;
extern NcclFaults faults;
extern std::map<std::string, std::shared_ptr<World>> worlds;  // that wait for ranks, by id
extern std::set<Communicator*> alive;

extern thread_local int32_t depth;               // of the thread's group
extern thread_local std::vector<Batch> grouped;  // what it has
extern thread_local std::string last_error;

// A function of the fake driver's.
template <class FunctionType>
FunctionType OfDriver(const char* name) {
  static void* const driver = dlopen(std::getenv("TUTTI_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  return driver == nullptr ? nullptr : reinterpret_cast<FunctionType>(dlsym(driver, name));
}

inline Communicator* Of(Comm comm) { return reinterpret_cast<Communicator*>(comm); }
inline Comm HandleOf(Communicator* communicator) { return reinterpret_cast<Comm>(communicator); }

// The outcome, and why, for ncclGetLastError.
Outcome Refuse(Outcome outcome, std::string why);
int32_t CurrentDevice();
int32_t Version();

// All these with the mutex held.
void Launch(Batch batch);
// Counts a batch, and launches it unless the test wants that to take a while.
Outcome Prepare(Batch batch);
Communicator* Make(std::shared_ptr<World> world, int32_t rank, int32_t device);
std::shared_ptr<World> MakeWorld(size_t size);
// Of several processes, where the test has named a folder for them.
std::string FolderOfProcesses();
// This process has a rank of a world of several; how many have come, and on which devices.
void ComeTo(const World& world, const Communicator& rank);
int32_t CountCome(const World& world, std::vector<int32_t>* devices);
// One rank's part of a round of several processes: gives its output when all have come, or ends.
void RunRoundOfProcesses(std::unique_lock<std::mutex>& lock, Communicator* rank, const Call& of,
                         uint64_t number);
// What a round of all ranks gives, written where their parts say.
void DoRound(const Call& of, Round* round);
size_t BytesOf(const Call& of);
// Where the bytes of device memory are; of the host's where they are anyway.
char* Real(const void* memory);
// A rank's part in making communicators of its world; `expected` parts finish it.
Outcome BeginMaking(Comm comm, size_t expected, int32_t color, int32_t order, Comm* made);
void FinishMaking(World* world, uint64_t number);
// Two ranks are on one device, and may not.
bool SharesDevice(const World& world);
// Waits until nothing of it runs, and ends it.
void WaitForEnd(std::unique_lock<std::mutex>& lock, Communicator* rank);

// Takes an operation of a thread that does not hold the mutex.
Outcome Add(Comm comm, Stream stream, const Call& call);

}  // namespace tutti::fake

#endif  // TUTTI_TESTS_GPU_FAKES_FAKE_NCCL_WORLD_H_
