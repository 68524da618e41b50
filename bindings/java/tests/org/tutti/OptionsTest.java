package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.tutti.DatasetTest.numbers;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.data.OptimizationOptions;
import org.tutti.data.Options;
import org.tutti.data.StatsAggregator;
import org.tutti.data.ThreadingOptions;
import org.tutti.distribute.DistributedDataset;
import org.tutti.distribute.DistributedIterator;
import org.tutti.distribute.MirroredStrategy;

/** Options of datasets. */
class OptionsTest {
  @Test
  void aBudgetBoundsWhatBuffersHold() {
    final Dataset shuffled = Dataset.range(1000).shuffle(1000, 3L);
    final TuttiException more = assertThrows(TuttiException.class, () -> numbers(
        shuffled.withOptions(new Options().set("autotune.ram_budget", 4000))));
    assertTrue(more.getMessage().contains("shuffle holds most"), more.getMessage());
    assertEquals(1000, numbers(
        shuffled.withOptions(new Options().set("autotune.ram_budget", 8000))).size());
    assertEquals(List.of(0L, 1L, 2L), numbers(Dataset.range(3).prefetch(2)
        .withOptions(new Options().set("autotune.ram_budget", 1))));
  }

  @Test
  void optionsKnowWhetherTheyWereSet() {
    final Options options = new Options().deterministic(false)
                                .autoShardPolicy(Options.AutoShardPolicy.DATA);
    assertEquals(0L, options.get("deterministic"));
    assertEquals(2L, options.get("experimental_distribute.auto_shard_policy"));
    assertNull(options.get("autotune.ram_budget"));
    assertThrows(TuttiException.InvalidArgument.class, () -> options.set("no_such", 1));
    assertEquals(0L, Dataset.range(1).withOptions(options).options().get("deterministic"));
    assertEquals(1L, new Options().merge(new Options().deterministic(true)).get("deterministic"));
  }

  @Test
  void groupsOfOptionsAreEqualWhenTheSameOnesAreSet() {
    final Options options = new Options().threading(new ThreadingOptions(2L, null))
        .optimization(new OptimizationOptions().with("map_fusion", true)
            .with("autotune_cpu_budget", 3));
    assertEquals(new ThreadingOptions(2L, null), options.threading());
    assertNotEquals(new ThreadingOptions(), options.threading());
    assertEquals(1L, options.get("experimental_optimization.map_fusion"));
    assertEquals(new OptimizationOptions().with("autotune_cpu_budget", 3)
        .with("map_fusion", true), options.optimization());
    assertNotEquals(new OptimizationOptions().with("map_fusion", true), options.optimization());
    assertEquals(new Options(), options.threading(new ThreadingOptions())
        .optimization(new OptimizationOptions()));
    assertThrows(TuttiException.InvalidArgument.class,
        () -> new OptimizationOptions().with("no_such", true));
    final String text = Dataset.range(3).withOptions(new Options()
        .optimization(new OptimizationOptions().with("map_fusion", true))).explain();
    assertTrue(text.contains("map_fusion=true (without effect yet)"), text);
  }

  @Test
  void nativeFunctionsAreDemandedAndStateOutsideIsAnError() {
    final Dataset called = Dataset.range(3).map(x -> x);
    final Options demanded = new Options()
        .set("experimental_optimization.native_functions", true);
    final TuttiException thrown = assertThrows(TuttiException.class,
        () -> numbers(called.withOptions(demanded)));
    assertEquals(Code.FAILED_PRECONDITION, thrown.code(), thrown.getMessage());
    assertTrue(thrown.getMessage().contains("mapExpr and its like are native"),
        thrown.getMessage());
    assertEquals(List.of(1L, 2L, 3L),
        numbers(Dataset.range(3).mapExpr(x -> x.plus(1)).withOptions(demanded)));
    final Options fail = new Options().externalStatePolicy(Options.ExternalStatePolicy.FAIL);
    try (DatasetIterator iterator = called.withOptions(fail).iterator()) {
      assertTrue(assertThrows(TuttiException.class, () -> iterator.save()).getMessage()
          .contains("external_state_policy is FAIL"));
    }
    try (DatasetIterator iterator = called.withOptions(new Options()
        .externalStatePolicy(Options.ExternalStatePolicy.IGNORE)).iterator()) {
      assertTrue(iterator.save().length > 0);
    }
    assertTrue(Dataset.range(3).prefetch(2).withOptions(
        new Options().set("experimental_slack", true)).explain().contains("pauses after each 1"));
  }

  @Test
  void anAggregatorHasWhatADatasetMeasured() {
    try (StatsAggregator aggregator = new StatsAggregator()) {
      final Options options = new Options().statsAggregator(aggregator)
                                  .set("experimental_stats.prefix", "train");
      assertEquals("train", options.getText("experimental_stats.prefix"));
      assertNull(options.getText("experimental_stats.counter_prefix"));
      assertNull(new Options().statsAggregator());
      assertEquals(new Options().statsAggregator(options.statsAggregator())
          .set("experimental_stats.prefix", "train"), options);
      assertEquals(List.of(0L, 1L, 2L),
          numbers(Dataset.range(3).latencyStats("made").withOptions(options)));
      final Value read = aggregator.read();
      assertEquals(3, read.get("counters").get("train::made::elements").longValue());
      assertEquals(0, read.get("counters").get("train::made::failures").longValue());
      final Value latency = read.get("histograms").get("train::made");
      assertEquals(3, latency.get("count").longValue());
      assertTrue(latency.get("sum").doubleValue() > 0, latency.toString());
      assertEquals(32, latency.get("counts").asLongBuffer().remaining());
      assertTrue(aggregator.toPrometheus().contains(
          "tutti_dataset_latency_seconds_count{name=\"train::made\"} 3\n"));

      numbers(Dataset.range(3).batch(2).unbatch().withOptions(options.latencyAllEdges(true)));
      assertEquals(2, aggregator.read().get("counters")
          .get("train::record_latency::batch/2::elements").longValue());
      assertNull(options.clear("experimental_stats.aggregator").statsAggregator());
      assertThrows(TuttiException.InvalidArgument.class, () -> options.set("deterministic", "a"));
      assertThrows(NullPointerException.class, () -> options.statsAggregator(null));
    }
  }

  @Test
  void explainTellsOfARunAndGatherOfAJob() {
    try (StatsAggregator aggregator = new StatsAggregator()) {
      final Dataset dataset = Dataset.range(6).latencyStats("made").batch(2).progress("read")
                                  .withOptions(new Options().profile(true)
                                                   .statsAggregator(aggregator));
      final String text;
      final String report;
      try (DatasetIterator iterator = dataset.iterator()) {
        while (iterator.hasNext()) {
          iterator.next();
        }
        text = iterator.explain();
        report = iterator.explain("json");
      }
      assertTrue(text.contains("run: 3 rows in "), text);
      assertTrue(dataset.explain().contains("run: 3 rows in "), dataset.explain());
      assertEquals(report,
          Dataset.explainReport(report.getBytes(StandardCharsets.UTF_8), "json"));
      assertTrue(dataset.explain("svg").startsWith("<svg "));
      assertThrows(TuttiException.InvalidArgument.class, () -> dataset.explain("yaml"));
      assertThrows(TuttiException.InvalidArgument.class,
          () -> Dataset.explainReport(new byte[0], "text"));
      try (Communicator alone = Communicator.createLocal(1, null).get(0)) {
        final Value sum = aggregator.gather(alone);
        assertEquals(6, sum.get("counters").get("made::elements").longValue());
        assertEquals(1, sum.get("ranks").asList().size());
        final byte[] own = report.getBytes(StandardCharsets.UTF_8);
        assertTrue(Dataset.gatherReport(own, alone).contains("run: 3 rows in "));
        assertEquals(report, Dataset.gatherReport(own, alone, "json", null));
        assertThrows(TuttiException.InvalidArgument.class,
            () -> Dataset.gatherReport(new byte[0], alone));
      }
      try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1");
           DistributedDataset distributed = strategy.distribute(dataset);
           DistributedIterator iterator = distributed.iterator()) {
        while (iterator.hasNext()) {
          iterator.next();
        }
        assertTrue(iterator.explain().contains("run: 3 rows in "), iterator.explain());
        assertTrue(distributed.explain("json").contains("\"rows\": 3"));
      }
    }
  }

  @Test
  void optionsAreEqualWhenTheSameAreSet() {
    final Options one = new Options();
    assertEquals(new Options(), one);
    assertEquals("", one.toString());
    one.set("experimental_deterministic", false).privateThreadpoolSize(2)
        .maxIntraOpParallelism(3).externalStatePolicy(Options.ExternalStatePolicy.FAIL);
    assertEquals("deterministic=false, threading.private_threadpool_size=2, "
            + "threading.max_intra_op_parallelism=3, experimental_external_state_policy=2",
        one.toString());
    assertNotEquals(new Options(), one);
    assertEquals(2L, one.get("experimental_threading.private_threadpool_size"));
    final Options other = new Options().merge(one);
    assertEquals(one, other);
    assertEquals(one.hashCode(), other.hashCode());
    assertNull(one.clear("deterministic").get("experimental_deterministic"));
    assertNotEquals(one, other);
    final TuttiException refused = assertThrows(TuttiException.InvalidArgument.class,
        () -> one.clear("experimental_determinstic"));
    assertTrue(refused.getMessage().contains("did you mean 'experimental_deterministic'?"),
        refused.getMessage());
  }

  @Test
  void whatIsSetThroughADatasetsOptionsCounts() {
    final Dataset dataset = Dataset.range(3);
    final Options options = dataset.options();
    dataset.options().deterministic(false);
    assertEquals(0L, dataset.options().get("deterministic"));
    assertEquals(0L, options.get("deterministic"));
    options.privateThreadpoolSize(2).privateThreadpoolSize(3);
    assertEquals(3L, dataset.options().get("threading.private_threadpool_size"));
    assertEquals(3L, dataset.batch(2).options().get("threading.private_threadpool_size"));
    assertEquals(options, dataset.options());
    assertEquals(options, Dataset.range(1).withOptions(options).options());
    dataset.options().clear("deterministic");
    assertNull(options.get("deterministic"));
    assertEquals(3, dataset.cardinality());
    assertEquals(3L, new Options().merge(options).get("threading.private_threadpool_size"));
    dataset.close();
    assertThrows(TuttiException.FailedPrecondition.class, () -> options.deterministic(true));
    options.close();
    assertThrows(TuttiException.FailedPrecondition.class, () -> options.get("deterministic"));
  }

  @Test
  void optionsOfADatasetMayBeSetWhileItIsUsed() throws InterruptedException {
    final Dataset dataset = Dataset.range(3);
    final Thread user = new Thread(() -> {
      for (int i = 0; i < 2000; ++i) {
        dataset.batch(2).close();
      }
    });
    user.start();
    for (int i = 0; i < 500; ++i) {
      dataset.options().privateThreadpoolSize(i);
    }
    user.join();
    assertEquals(499L, dataset.options().get("threading.private_threadpool_size"));
  }
}
