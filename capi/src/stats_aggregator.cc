// Statistics of datasets, and the options that they have.
#include "core/dataset/graph/stats_aggregator.h"

#include <tutti/stats_aggregator.h>

#include <optional>
#include <string>
#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/data_options.h"
#include "capi/src/guard.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"
#include "core/runtime/job_statistics.h"
#include "core/runtime/metrics_port.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_stats_aggregator_create(tutti_stats_aggregator **out_aggregator) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_aggregator);
    Ref<StatsAggregator> aggregator = MakeRef<StatsAggregator>();
    ShowInMetrics(aggregator);
    *out_aggregator = Give(std::move(aggregator));
    return OkStatus();
  });
}

tutti_status *tutti_stats_aggregator_read(const tutti_stats_aggregator *aggregator,
                                          tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, aggregator, out_value);
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> value, FromHandle(aggregator)->Read());
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_stats_aggregator_to_prometheus(const tutti_stats_aggregator *aggregator,
                                                   tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, aggregator, out_text);
    *out_text = GiveBytes(FromHandle(aggregator)->ToPrometheus());
    return OkStatus();
  });
}

tutti_status *tutti_stats_aggregator_gather(const tutti_stats_aggregator *aggregator,
                                            tutti_communicator *communicator,
                                            const tutti_call_options *call_options,
                                            tutti_value **out_value) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, aggregator, communicator, out_value);
    Communicator &ranks = *FromHandle(communicator);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions options,
                           ReadCollective(call, ranks.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> mine, FromHandle(aggregator)->Read());
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Value> sum,
        GatherStatistics(Runtime::Of(ranks.environment()), ranks, *mine, options));
    *out_value = Give(std::move(sum));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_gather_report(const void *data, size_t size, const char *format,
                                          tutti_communicator *communicator,
                                          const tutti_call_options *call_options,
                                          tutti_bytes **out_text) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, format, communicator, out_text);
    TUTTI_REQUIRE_ARRAY(call, size, data);
    Communicator &ranks = *FromHandle(communicator);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions options,
                           ReadCollective(call, ranks.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(
        const RunReport mine,
        RunReport::FromJson(std::string_view(static_cast<const char *>(data), size)));
    TUTTI_RETURN_IF_ERROR(mine.As(format).status());
    TUTTI_ASSIGN_OR_RETURN(
        const RunReport all,
        GatherReports(Runtime::Of(ranks.environment()), ranks, mine, options));
    TUTTI_ASSIGN_OR_RETURN(std::string text, all.As(format));
    *out_text = GiveBytes(std::move(text));
    return OkStatus();
  });
}

void tutti_stats_aggregator_retain(const tutti_stats_aggregator *aggregator) {
  RetainHandle(aggregator);
}
void tutti_stats_aggregator_release(const tutti_stats_aggregator *aggregator) {
  ReleaseHandle(aggregator);
}

tutti_status *tutti_data_options_set_stats_aggregator(tutti_data_options *options,
                                                      const tutti_stats_aggregator *aggregator) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, aggregator);
    FromHandle(options)->options.SetAggregator(
        Ref<StatsAggregator>::Retain(const_cast<StatsAggregator *>(FromHandle(aggregator))));
    return OkStatus();
  });
}

tutti_status *tutti_data_options_get_stats_aggregator(const tutti_data_options *options,
                                                      tutti_stats_aggregator **out_aggregator) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, out_aggregator);
    *out_aggregator = Give(FromHandle(options)->options.aggregator());
    return OkStatus();
  });
}

tutti_status *tutti_data_options_set_string(tutti_data_options *options, const char *key,
                                            const char *value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, key, value);
    return FromHandle(options)->options.SetText(key, value);
  });
}

tutti_status *tutti_data_options_read_string(const tutti_data_options *options, const char *key,
                                             tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, key, out_text);
    TUTTI_ASSIGN_OR_RETURN(std::optional<std::string> text,
                           FromHandle(options)->options.ReadText(key));
    *out_text = text ? GiveBytes(*std::move(text)) : nullptr;
    return OkStatus();
  });
}
