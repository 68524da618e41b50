/* Statistics of datasets: how long elements took, and how many there were.
 *
 * A dataset whose options name an aggregator writes into it while it is read: under the tags of
 * tutti_dataset_latency_stats, and with the option experimental_stats.latency_all_edges of every
 * operation, as record_latency::NAME, or record_latency::OPERATION/DEPTH where the operation has no
 * name (a source has the depth 1; operations of one kind and depth are added up). Datasets that
 * functions give are measured with the others. The texts experimental_stats.prefix, before all
 * names, and experimental_stats.counter_prefix, behind it in those of counters, keep the datasets
 * of one aggregator apart; "::" stands between the parts: PREFIX::TAG,
 * PREFIX::COUNTER_PREFIX::TAG::elements. What all iterators of all datasets have written is added
 * up, also of iterators that are gone. Aggregators belong to this process: they are in no saved
 * definition. */
#ifndef TUTTI_STATS_AGGREGATOR_H_
#define TUTTI_STATS_AGGREGATOR_H_

#include <tutti/communicator.h>
#include <tutti/dataset.h>

TUTTI_BEGIN_DECLS

/* One that has nothing yet.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *
tutti_stats_aggregator_create(tutti_stats_aggregator **out_aggregator);

/* What there is so far, while iterators go on: a dictionary of "counters", int64 scalars by name,
 * and "histograms", by name dictionaries of
 *   "count"         int64, samples: elements, each with its share of the time of its call; of calls
 *                   that take less than about a microsecond one of about eight is measured, and the
 *                   elements of the others are as those of the next one
 *   "sum"           float64, seconds in all
 *   "min", "max"    float64, seconds
 *   "limits"        float64[32], seconds: upper limits, 64 ns and twice as much each; the last is
 *                   infinite
 *   "counts"        int64[32], samples up to each limit that are above the one before
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_stats_aggregator_read(const tutti_stats_aggregator *aggregator,
                                                    tutti_value **out_value);

/* The same in the text format of Prometheus: a counter tutti_dataset_total and a histogram
 * tutti_dataset_latency_seconds, with the names as the label "name".
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *
tutti_stats_aggregator_to_prometheus(const tutti_stats_aggregator *aggregator,
                                     tutti_bytes **out_text);

/* What the aggregators of all ranks have, added up: a collective call, which every rank makes with
 * one of its own. *out_value is as of tutti_stats_aggregator_read, with the counters and histograms
 * that any rank has, and a third item "ranks", the list of what each rank brought.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_stats_aggregator_gather(const tutti_stats_aggregator *aggregator,
                                                      tutti_communicator *communicator,
                                                      const tutti_call_options *call,
                                                      tutti_value **out_value);

/* What explain tells on all ranks, as one report in `format`, "text", "json" or "svg": a collective
 * call, which every rank makes with what its own iterator's explain wrote as "json". What
 * operations did is added up, and each rank has a line; the run is as long as the longest one, and
 * the bottleneck is that of the rank whose consumer waited for most of its time. Where the plans of
 * ranks differ, the operations are that rank's alone. INVALID_ARGUMENT for bytes that are no report
 * and for another format; the other ranks wait for their deadline then.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_gather_report(const void *data, size_t size,
                                                    const char *format,
                                                    tutti_communicator *communicator,
                                                    const tutti_call_options *call,
                                                    tutti_bytes **out_text);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_stats_aggregator_retain(const tutti_stats_aggregator *aggregator);

/* Datasets and iterators that write into it keep it.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_stats_aggregator_release(const tutti_stats_aggregator *aggregator);

/* Sets the option experimental_stats.aggregator; tutti_data_options_clear takes it away.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_set_stats_aggregator(
    tutti_data_options *options, const tutti_stats_aggregator *aggregator);

/* *out_aggregator = NULL when it was not set.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_get_stats_aggregator(
    const tutti_data_options *options, tutti_stats_aggregator **out_aggregator);

/* Sets an option that is a text: experimental_stats.prefix, experimental_stats.counter_prefix.
 * INVALID_ARGUMENT as of tutti_data_options_set_int64.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_set_string(tutti_data_options *options, const char *key,
                                                      const char *value);

/* *out_text = NULL when it was not set.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_read_string(const tutti_data_options *options,
                                                       const char *key, tutti_bytes **out_text);

TUTTI_END_DECLS

#endif /* TUTTI_STATS_AGGREGATOR_H_ */
