// The other side of the comparison: MPI_Allreduce of float32 sums. Started by mpirun:
//
//   all_reduce_mpi SIZES SECONDS     SIZES are bytes: 8,4096,1048576
//
// Rank 0 prints a line per size: bytes and the median in microseconds.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/benchmarks/timed_calls.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3) {
    std::fprintf(stderr, "usage: all_reduce_mpi SIZES SECONDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (const int64_t bytes : ParseSizes(argv[1])) {
    const auto count = static_cast<size_t>(bytes) / sizeof(float);
    std::vector<float> input(count, 1.0f);
    std::vector<float> output(count, 0.0f);
    TimedCalls timed;
    timed.is_rank_0 = rank == 0;
    timed.seconds = std::atof(argv[2]);
    timed.call = [&] {
      MPI_Allreduce(input.data(), output.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    };
    timed.agree = [](int64_t number) {
      MPI_Bcast(&number, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
      return number;
    };
    const double median = timed.Median();
    if (count != 0 && output[count - 1] != static_cast<float>(ranks)) MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0) {
      std::printf("%lld %.4f\n", static_cast<long long>(bytes), median);
      std::fflush(stdout);
    }
  }
  MPI_Finalize();
  return 0;
}
