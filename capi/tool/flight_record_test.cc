#include "capi/tool/flight_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "capi/tool/chrome_trace.h"
#include "capi/tool/flight_group.h"
#include "capi/tool/flight_testing.h"

namespace tutti::tool {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRecord = R"({"tutti_flight_record":2,"job":"5f","worker":1,"host":"h",
"boot":"b","pid":4711,"wall_ns":20,"monotonic_ns":10,
"subjects":[{"number":3,"kind":"communicator","name":"g","rank":1,"size":4,"epoch":2},
{"number":4,"kind":"queue","name":"q"}],
"events":[{"index":7,"time_ns":5,"thread":9,"name":"barrier","phase":"begin",
"arguments":{"subject":3,"sequence":41}}]})";

TEST(FlightRecord, HoldsWhatTheFileSays) {
  FlightRecord record;
  ASSERT_EQ(ParseFlightRecord(kRecord, &record), "");
  EXPECT_EQ(record.Who(), "worker 1");
  EXPECT_FALSE(record.is_complete);
  ASSERT_EQ(record.members.size(), 1u);
  EXPECT_EQ(record.members[0].name, "g");
  EXPECT_EQ(record.members[0].epoch, 2);
  ASSERT_EQ(record.events.size(), 1u);
  EXPECT_EQ(record.events[0].Argument("sequence"), 41);
  EXPECT_EQ(record.events[0].Argument("bytes"), -1);
}

TEST(FlightRecord, KnowsPartsOfCommunicators) {
  FlightRecord record;
  ASSERT_EQ(ParseFlightRecord(kRecord, &record), "");
  EXPECT_EQ(record.members[0].group, 0);
  EXPECT_EQ(record.members[0].color, -1);
  std::string text = kRecord;
  text.replace(text.find(R"("epoch":2)"), 9, R"("epoch":2,"group":77,"color":3)");
  FlightRecord part;
  ASSERT_EQ(ParseFlightRecord(text, &part), "");
  EXPECT_EQ(part.members[0].group, 77);
  EXPECT_EQ(part.members[0].color, 3);
}

TEST(FlightRecord, RefusesRanksThatNoCommunicatorHas) {
  const auto said = [](const std::string& rank, const std::string& size) {
    std::string text = kRecord;
    text.replace(text.find(R"("rank":1,"size":4)"), 17,
                 R"("rank":)" + rank + R"(,"size":)" + size);
    FlightRecord record;
    return ParseFlightRecord(text, &record);
  };
  EXPECT_EQ(said("0", "1"), "");
  EXPECT_EQ(said("1048575", "1048576"), "");
  EXPECT_EQ(said("4", "4"),
            "communicator \"g\": there is no rank 4 of 4; a communicator has 1 to 1048576");
  EXPECT_THAT(said("-1", "4"), HasSubstr("no rank -1 of 4"));
  EXPECT_THAT(said("0", "0"), HasSubstr("no rank 0 of 0"));
  EXPECT_THAT(said("0", "1048577"), HasSubstr("no rank 0 of 1048577"));
  EXPECT_THAT(said("0", "4e12"), HasSubstr("no rank 0 of 4000000000000"));
}

TEST(FlightRecord, SaysWhatIsWrongWithAFile) {
  FlightRecord record;
  EXPECT_THAT(ParseFlightRecord("", &record), HasSubstr("damaged"));
  EXPECT_EQ(ParseFlightRecord("[]", &record), "it is no flight record of Tutti");
  EXPECT_EQ(ParseFlightRecord("{}", &record), "it is no flight record of Tutti");
  EXPECT_THAT(ParseFlightRecord(R"({"tutti_flight_record":3})", &record),
              HasSubstr("of version 3; this command reads version 2"));
  EXPECT_THAT(ParseFlightRecord(R"({"tutti_flight_record":2,"job":1})", &record),
              HasSubstr("no whole flight record"));
  // Cut off anywhere.
  const std::string whole = kRecord;
  for (size_t size = 0; size < whole.size(); ++size) {
    FlightRecord half;
    EXPECT_NE(ParseFlightRecord(whole.substr(0, size), &half), "");
  }
}

TEST(ChromeTrace, PairsBeginsAndEndsAndNamesWorkers) {
  FlightRecord record =
      RecordWriter(1, 2).Call("barrier", 1000, 3000).Call("all_reduce", 5000, 6500);
  // The begin that belongs to it has been overwritten.
  record.events.erase(record.events.begin());
  const auto trace = nlohmann::json::parse(MakeChromeTrace({record}, {0}, {}));
  std::string phases;
  for (const auto& event : trace.at("traceEvents")) {
    phases += event.at("ph").get<std::string>();
    EXPECT_EQ(event.at("pid"), 1);
  }
  EXPECT_EQ(phases, "MMBE");
  const auto& begin = trace.at("traceEvents")[2];
  EXPECT_EQ(begin.at("name"), "all_reduce #2");
  EXPECT_EQ(begin.at("ts"), 2.0);  // since the first event, which was the barrier's end
  EXPECT_EQ(begin.at("args").at("dtype"), "float32");
  EXPECT_EQ(begin.at("args").at("communicator"), "c");
}

}  // namespace
}  // namespace tutti::tool
