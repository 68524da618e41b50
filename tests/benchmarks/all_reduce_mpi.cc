// The other side of the comparison: MPI_Allreduce of float32 sums. Started by mpirun:
//
//   all_reduce_mpi SIZES SECONDS [fresh]     SIZES are bytes: 8,4096,1048576
//
// Rank 0 prints the lines of TimedCalls. Fresh: inputs are written before each call and outputs
// read behind it, and that counts.

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/benchmarks/timed_calls.h"

namespace {

// A page of zeros that all ranks map: rank 0 makes it, the others find it among its descriptors.
std::atomic<uint64_t>* SharedWord(int rank) {
  int64_t place[2] = {getpid(), -1};
  if (rank == 0) {
    place[1] = memfd_create("round_trips", MFD_CLOEXEC);
    if (ftruncate(static_cast<int>(place[1]), 4096) != 0) return nullptr;
  }
  MPI_Bcast(place, 2, MPI_INT64_T, 0, MPI_COMM_WORLD);
  int descriptor = static_cast<int>(place[1]);
  if (rank != 0) {
    const std::string path =
        "/proc/" + std::to_string(place[0]) + "/fd/" + std::to_string(place[1]);
    descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return page == MAP_FAILED ? nullptr : static_cast<std::atomic<uint64_t>*>(page);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool fresh = argc == 4 && std::string(argv[3]) == "fresh";
  if (argc != 3 && !fresh) {
    std::fprintf(stderr, "usage: all_reduce_mpi SIZES SECONDS [fresh]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  std::atomic<uint64_t>* const word = SharedWord(rank);
  if (word == nullptr) MPI_Abort(MPI_COMM_WORLD, 1);
  // mpirun binds the ranks, where there are cores enough, to one each; so all see one core or all
  // several.
  int64_t own_core = HasCoreForEach(2) ? 0 : 1;
  MPI_Bcast(&own_core, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  RoundTrips round_trips(word, rank);
  for (const int64_t bytes : ParseSizes(argv[1])) {
    const auto count = static_cast<size_t>(bytes) / sizeof(float);
    std::vector<float> input(count, 1.0f);
    std::vector<float> output(count, 0.0f);
    TimedCalls timed;
    timed.rank = rank;
    timed.seconds = std::atof(argv[2]);
    timed.call = [&] {
      if (fresh) WriteAnew(input.data(), static_cast<size_t>(bytes));
      MPI_Allreduce(input.data(), output.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
      if (fresh) ReadThrough(output.data(), static_cast<size_t>(bytes));
    };
    timed.agree = [](int64_t number) {
      MPI_Bcast(&number, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
      return number;
    };
    timed.round_trips = own_core != 0 && ranks > 1 ? &round_trips : nullptr;
    timed.Print(bytes);
    if (count != 0 && output[count - 1] != static_cast<float>(ranks)) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
