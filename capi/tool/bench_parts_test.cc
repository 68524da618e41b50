// What `tutti bench` is made of: sizes, numbers, reports, pictures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "capi/tool/bandwidth_plot.h"
#include "capi/tool/bench_collectives.h"
#include "capi/tool/bench_options.h"
#include "capi/tool/bench_pattern.h"
#include "capi/tool/bench_report.h"
#include "capi/tool/bench_tuner.h"
#include "capi/tool/mapped_memory.h"
#include "capi/tool/rank_hosts.h"

namespace tutti::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BenchOptions, ReadsSizesAsPeopleWriteThem) {
  EXPECT_EQ(ParseByteSize("8"), 8);
  EXPECT_EQ(ParseByteSize("64K"), 64 << 10);
  EXPECT_EQ(ParseByteSize("64k"), 64 << 10);
  EXPECT_EQ(ParseByteSize("16M"), 16 << 20);
  EXPECT_EQ(ParseByteSize("16MiB"), 16 << 20);
  EXPECT_EQ(ParseByteSize("2GB"), int64_t{2} << 30);
  for (const char* wrong : {"", "K", "-8", "8 K", "8X", "1.5M", "99999999999G", "8KK"}) {
    EXPECT_EQ(ParseByteSize(wrong), std::nullopt) << wrong;
  }
}

TEST(BenchOptions, GoesFromTheSmallestSizeToTheLargest) {
  BenchOptions options;
  ASSERT_EQ(ReadBenchOptions({"--min", "8", "--max", "1K", "--factor", "4"}, &options),
            std::nullopt);
  EXPECT_THAT(options.Sizes(), ElementsAre(8, 32, 128, 512));
  ASSERT_EQ(ReadBenchOptions({"barrier"}, &options), std::nullopt);
  EXPECT_THAT(options.Sizes(), ElementsAre(0));
}

TEST(BenchCollectives, HaveTheFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(FindBenchCollective("all_reduce")->bus_factor(4), 1.5);
  EXPECT_DOUBLE_EQ(FindBenchCollective("all_gather")->bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(FindBenchCollective("broadcast")->bus_factor(4), 1);
  EXPECT_EQ(FindBenchCollective("all_reduc"), nullptr);
}

TEST(BenchPattern, KnowsItsOwnNumbersAndSeesOthers) {
  CRuntime runtime;
  ASSERT_EQ(tutti_runtime_create(nullptr, Out(&runtime)), nullptr);
  BenchPattern pattern;
  ASSERT_EQ(BenchPattern::Make(runtime.get(), TUTTI_DTYPE_INT32, TUTTI_REDUCE_SUM, 3, &pattern),
            nullptr);
  constexpr int64_t kCount = 3000;  // about three periods
  std::vector<int32_t> mine(kCount), sum(kCount, 0);
  for (int64_t rank = 0; rank < 3; ++rank) {
    pattern.Fill(rank, 0, kCount, mine.data());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
    EXPECT_EQ(pattern.CountWrong(rank, 0, kCount, mine.data()), 0);
    EXPECT_GT(pattern.CountWrong((rank + 1) % 3, 0, kCount, mine.data()), 0);
    EXPECT_EQ(pattern.CountWrong(rank, 1500, 700, mine.data() + 1500), 0);
    EXPECT_GT(pattern.CountWrong(rank, 0, 700, mine.data() + 1500), 0);
  }
  EXPECT_EQ(pattern.CountWrong(BenchPattern::kFolded, 0, kCount, sum.data()), 0);
  sum[0] += 1;
  sum[2999] -= 1;
  EXPECT_EQ(pattern.CountWrong(BenchPattern::kFolded, 0, kCount, sum.data()), 2);
  EXPECT_EQ(tutti_runtime_shutdown(runtime.get(), nullptr), nullptr);
}

BenchReport SmallReport() {
  BenchReport report;
  report.system = "tutti";
  report.collective = "all_reduce";
  report.workers = 2;
  report.transport = "tcp";
  report.dtype = "float32";
  report.op = "sum";
  report.round_trip_before = 100;
  BenchRow row;
  row.bytes = 1024;
  row.count = 256;
  row.out_of_place = BenchTiming{2, 1.5, 9, 0.512, 0.512, 0};
  report.rows = {row};
  return report;
}

TEST(BenchReport, ReadsItsOwnJson) {
  BenchReport read;
  ASSERT_EQ(BenchReport::Parse(SmallReport().ToJson(), &read), "");
  EXPECT_EQ(read.collective, "all_reduce");
  ASSERT_EQ(read.rows.size(), 1u);
  EXPECT_EQ(read.rows[0].bytes, 1024);
  ASSERT_TRUE(read.rows[0].out_of_place.has_value());
  EXPECT_DOUBLE_EQ(read.rows[0].out_of_place->p99_us, 9);
  EXPECT_FALSE(read.rows[0].in_place.has_value());
}

TEST(BenchReport, SaysWhatIsWrongWithJson) {
  BenchReport read;
  EXPECT_THAT(BenchReport::Parse("{", &read), HasSubstr("not what tutti bench --json writes"));
  EXPECT_THAT(BenchReport::Parse("{}", &read), HasSubstr("not what tutti bench --json writes"));
  EXPECT_EQ(BenchReport::Parse(
                R"({"system":"x","collective":"barrier","workers":2,"rows":[]})", &read),
            "it has no rows");
}

TEST(BenchReport, CountsWrongElementsAndSeesMovedCores) {
  BenchReport report = SmallReport();
  EXPECT_EQ(report.wrong(), 0);
  report.rows[0].in_place = report.rows[0].out_of_place;
  report.rows[0].in_place->wrong = 3;
  report.round_trip_after = 500;
  EXPECT_EQ(report.wrong(), 3);
  EXPECT_THAT(report.TextFooter(), HasSubstr("the cores were moved"));
  EXPECT_THAT(report.TextFooter(), HasSubstr("wrong elements: 3"));
  EXPECT_THAT(report.TextHeader(), HasSubstr("100 ns, siblings of one core"));
}

TEST(BenchReport, SaysWhereTheTensorsLie) {
  BenchReport report = SmallReport();
  EXPECT_THAT(report.TextHeader(), testing::Not(HasSubstr("create_tensor")));
  EXPECT_THAT(report.ToJson(), HasSubstr("\"buffers\": \"private\""));
  report.mapped = true;
  EXPECT_THAT(report.TextHeader(), HasSubstr("create_tensor"));
  EXPECT_THAT(report.ToJson(), HasSubstr("\"buffers\": \"shared\""));
}

TEST(MappedMemory, HoldsWhatTheKernelListsAsShared) {
  const MappedMemory memory = MappedMemory::Of(
      "1000-3000 rw-p 00000000 00:00 0 [heap]\n"
      "4000-6000 rw-s 00000000 00:01 2061 /memfd:x (deleted)\n"
      "6000-7000 r--s 00002000 00:01 2061 /memfd:x (deleted)\n"
      "8000-9000 rw-s 00000000 00:01 2062 /memfd:y (deleted)\n"
      "nonsense\n"
      "a000-b000\n");
  const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
  EXPECT_TRUE(memory.Holds(at(0x4000), 0x3000));
  EXPECT_TRUE(memory.Holds(at(0x8fff), 1));
  EXPECT_FALSE(memory.Holds(at(0x4000), 0x3001));
  EXPECT_FALSE(memory.Holds(at(0x6000), 0x2000));
  for (const uintptr_t outside : {0x1000, 0x3fff, 0x7000, 0x9000, 0xa000}) {
    EXPECT_FALSE(memory.Holds(at(outside), 1)) << outside;
  }
}

TEST(MappedMemory, FindsASharedMappingOfThisProcess) {
  constexpr size_t kBytes = 1 << 16;
  void* const shared =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  const std::vector<char> own(kBytes);
  const MappedMemory memory = MappedMemory::OfThisProcess();
  EXPECT_TRUE(memory.Holds(shared, kBytes));
  EXPECT_FALSE(memory.Holds(own.data(), own.size()));
  munmap(shared, kBytes);
}

TEST(RankHosts, CountsHostsAndPlacesOnThem) {
  const std::vector<int64_t> numbers = {7, -3, 7, 9, 7, -3};
  for (const auto& [rank, place] : {std::pair(0, 0), {1, 0}, {2, 1}, {3, 0}, {4, 2}, {5, 1}}) {
    const RankHosts hosts = RankHosts::Of(numbers, rank);
    EXPECT_EQ(hosts.count, 3);
    EXPECT_EQ(hosts.most_ranks, 3);
    EXPECT_EQ(hosts.place, place) << rank;
    EXPECT_TRUE(hosts.MayBeJoined());
  }
  EXPECT_FALSE(RankHosts::Of(std::vector<int64_t>{5, 5}, 1).MayBeJoined());
  EXPECT_FALSE(RankHosts::Of(std::vector<int64_t>{5, 6}, 1).MayBeJoined());
}

TEST(BenchTuner, KnowsHowLargeACallIsThatATableCountsByItsPayload) {
  for (const char* locality : {"shared_memory", "shared_window", "hosts"}) {
    EXPECT_EQ(BytesOfPayload({"all_reduce", locality, 4}, 1000), 1000);
    EXPECT_EQ(BytesOfPayload({"reduce_scatter", locality, 4}, 1000), 1000);
    EXPECT_EQ(BytesOfPayload({"all_gather", locality, 4}, 1000), 4000);
  }
  EXPECT_EQ(BytesOfPayload({"reduce_scatter", "mixed", 4}, 1000), 4000);
}

TEST(BandwidthPlot, ShowsCurvesAxesAndLegend) {
  const std::string svg =
      DrawBandwidth("all_reduce between 2 ranks", "float32",
                    {{"Tutti <1>", {{8, 0.01}, {1024, 1}, {1 << 20, 8}}}, {"other", {{8, 0.02}}}});
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* text : {"Tutti &lt;1&gt;", ">other<", "bus bandwidth (GB/s, log scale)",
                           "size (bytes, log scale)", ">0.01<", ">10<", ">8 B<", "KiB<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, testing::Not(HasSubstr("nan")));
  EXPECT_THAT(svg, testing::Not(HasSubstr("inf")));
}

TEST(BandwidthPlot, DrawsEmptyAxesForNothing) {
  const std::string svg = DrawBandwidth("t", "s", {});
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace tutti::tool
