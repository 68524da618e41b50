package org.tutti;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.ClusterSpec;
import org.tutti.distribute.CommunicationOptions;
import org.tutti.distribute.GceOptions;
import org.tutti.distribute.GceService;
import org.tutti.distribute.KubernetesOptions;
import org.tutti.distribute.MultiWorkerMirroredStrategy;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.SlurmOptions;
import org.tutti.distribute.Strategy;

class ClusterTest {
  private static final Duration LONG = Duration.ofSeconds(60);

  // A resolver such as a user writes for a scheduler of their own.
  private record Scheduler(ClusterSpec clusterSpec, String taskType, Long taskId)
      implements ClusterResolver {
    @Override
    public String rpcLayer() {
      return "grpc";
    }
  }

  private static String freeAddress() throws Exception {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return "127.0.0.1:" + socket.getLocalPort();
    }
  }

  @Test
  void specsAreMadeOfMaps() {
    final ClusterSpec spec = ClusterSpec.of(Map.of("worker", List.of("a:1", "b:2")));
    assertEquals(Map.of("worker", Map.of(0L, "a:1", 1L, "b:2")), spec.jobs());
    assertEquals(spec, ClusterSpec.parse("{\"worker\": [\"a:1\", \"b:2\"]}"));
    assertEquals("b:2", spec.taskAddress("worker", 1));
    assertTrue(assertThrows(TuttiException.NotFound.class, () -> spec.taskAddress("ps", 1))
                   .getMessage().contains("worker"));
    // Of a job that lacks an index, too.
    final ClusterSpec sparse = ClusterSpec.parse(
        "{\"worker\": [\"a:1\"], \"ps\": {\"4\": \"d:4\", \"1\": \"c:3\"}}");
    assertEquals("{ps={1=c:3, 4=d:4}, worker={0=a:1}}", sparse.jobs().toString());
    final Map<Long, String> odd = Map.of(0L, "\"a\"\n\\:1");
    assertEquals(odd, ClusterSpec.of(Map.of("worker", List.of(odd.get(0L)))).jobs().get("worker"));
  }

  @Test
  void oneOfYourOwnSaysWhoTheWorkersAre() throws Exception {
    final ClusterResolver own =
        new Scheduler(ClusterSpec.of(Map.of("worker", List.of(freeAddress()))), "worker", 0L);
    try (MultiWorkerMirroredStrategy strategy =
             MultiWorkerMirroredStrategy.create(own, LONG, "CPU:0")) {
      assertEquals(1, strategy.workerCount());
      assertEquals(3, strategy.run((replica, none) -> 3).longValue());
    }
  }

  @Test
  void whoGoesByAnErrorOfItsOwnSaysWhy() throws Exception {
    final ClusterResolver own =
        new Scheduler(ClusterSpec.of(Map.of("worker", List.of(freeAddress()))), "worker", 0L);
    try (Cluster cluster = Cluster.join(own, 1, LONG)) {
      cluster.fail(TuttiException.of(Code.UNAVAILABLE, "a peer is gone"));
      cluster.check(); // the others know of that
      cluster.fail(new IllegalStateException("no rows in shard 7"));
      assertTrue(assertThrows(TuttiException.Aborted.class, cluster::check)
                     .getMessage().contains("IllegalStateException: no rows in shard 7"));
    }
    try (Cluster cluster = Cluster.join(own, 1, LONG)) {
      TuttiRuntime.failDefault(new IllegalStateException("no rows in shard 8"));
      assertTrue(assertThrows(TuttiException.Aborted.class, cluster::check)
                     .getMessage().contains("no rows in shard 8"));
    }
  }

  @Test
  void aUnionHasTheJobsOfAll() {
    final ClusterResolver own = new Scheduler(
        ClusterSpec.of(Map.of("worker", List.of("a:1", "b:2"))), "worker", 1L);
    try (ClusterResolver other = ClusterResolver.simple(
             ClusterSpec.of(Map.of("ps", List.of("p:1"), "worker", List.of("c:3"))), "ps", 0L);
        ClusterResolver union = ClusterResolver.union(own, other)) {
      assertEquals(Map.of("ps", Map.of(0L, "p:1"), //
                       "worker", Map.of(0L, "a:1", 1L, "b:2", 2L, "c:3")),
          union.clusterSpec().jobs());
      assertEquals("worker", union.taskType());
      assertEquals(1L, union.taskId());
      assertEquals("grpc", union.rpcLayer());
      assertEquals("grpc://p:1", union.master("ps", 0L, null));
      assertEquals("", union.environment());
      assertEquals(own.numAccelerators(), union.numAccelerators());
      assertEquals("ps", ClusterResolver.union("ps", 0L, null, own).taskType());
    }
    assertThrows(NullPointerException.class, () -> ClusterResolver.union(null));
  }

  @Test
  void oneOfYourOwnIsAskedAnewOfEachTask() {
    final ClusterResolver own = new ClusterResolver() {
      private final List<String> addresses = new ArrayList<>(List.of("a:1"));

      @Override
      public ClusterSpec clusterSpec() {
        addresses.add("b:" + (addresses.size() + 1));
        return ClusterSpec.of(Map.of("worker", List.copyOf(addresses)));
      }

      @Override
      public Map<String, Long> accelerators(String taskType, Long taskId, Object config) {
        return taskId == null ? Map.of() : Map.of("GPU", taskId, "TPU", 8L);
      }
    };
    try (ClusterResolver changed = own.withTask("worker", 1L, "grpc")) {
      assertEquals("worker", changed.taskType());
      assertEquals(1L, changed.taskId());
      assertEquals("grpc://b:2", changed.master());
      assertEquals(3, changed.clusterSpec(LONG).jobs().get("worker").size());
      assertEquals(Map.of("GPU", 3L, "TPU", 8L), changed.accelerators("worker", 3L, null));
    }
    assertNull(own.taskType());
    final ClusterResolver failing = () -> {
      throw new IllegalStateException("the scheduler is gone");
    };
    assertEquals("the scheduler is gone",
        assertThrows(IllegalStateException.class, () -> failing.master("worker", 0L, null))
            .getMessage());
  }

  @Test
  void acceleratorsAreCountedByTheirTypes() {
    final ClusterSpec spec = ClusterSpec.of(Map.of("worker", List.of("a:1")));
    final Map<String, Long> counts = Map.of("GPU", 4L, "a \"b\"", 1L);
    try (ClusterResolver resolver =
             ClusterResolver.simple(spec, null, "worker", 0L, null, counts, null)) {
      assertEquals(counts, resolver.accelerators(null, null, null));
      assertEquals(counts, resolver.accelerators("worker", 7L, "any config"));
      assertEquals(4, resolver.numAccelerators());
      assertTrue(assertThrows(TuttiException.InvalidArgument.class,
                     () -> resolver.accelerators("worker", -1L, null))
                     .getMessage().contains("task_id is -1"));
    }
    assertTrue(assertThrows(TuttiException.InvalidArgument.class,
                   () -> ClusterResolver.simple(
                       spec, null, null, null, null, Map.of("GPU", -1L), null))
                   .getMessage().contains("accelerators is"));
  }

  @Test
  void aClientOfYourOwnIsAskedInsteadOfTheService() {
    final KubernetesOptions pods =
        new KubernetesOptions(Map.of("worker", List.of("job-name=a"))).task("worker", 1);
    final List<String> asked = new ArrayList<>();
    try (ClusterResolver resolver = ClusterResolver.kubernetes(pods, (label, page) -> {
           asked.add(label + "/" + page);
           return page.isEmpty()
               ? "{\"metadata\": {\"continue\": \"2\"}, \"items\": [{\"metadata\": {\"name\":"
                   + " \"a-10\"}, \"status\": {\"phase\": \"Running\", \"podIP\": \"10.0.0.2\"}}]}"
               : "{\"items\": [{\"metadata\": {\"name\": \"a-9\"}, \"status\":"
                   + " {\"phase\": \"Running\", \"podIP\": \"10.0.0.1\"}}]}";
         })) {
      assertEquals(Map.of("worker", Map.of(0L, "10.0.0.1:8470", 1L, "10.0.0.2:8470")),
          resolver.clusterSpec().jobs());
      assertEquals(List.of("job-name=a/", "job-name=a/2"), asked);
      assertEquals("grpc://10.0.0.2:8470", resolver.master());
    }
    try (ClusterResolver resolver = ClusterResolver.kubernetes(pods, (label, page) -> "3")) {
      assertTrue(assertThrows(TuttiException.DataLoss.class, resolver::clusterSpec)
                     .getMessage().contains("no list of pods"));
    }
    final GceService service = new GceService() {
      @Override
      public String listInstances(String project, String zone, String group, String page) {
        assertEquals("p z g ", project + " " + zone + " " + group + " " + page);
        return "{\"items\": [{\"instance\": \"https://x/instances/vm-1\"}]}";
      }

      @Override
      public String getInstance(String project, String zone, String name) {
        return "{\"networkInterfaces\": [{\"networkIP\": \"10.0.0.7\"}]}";
      }
    };
    try (ClusterResolver resolver =
             ClusterResolver.gce("g", new GceOptions(0).place("p", "z"), service, null)) {
      assertEquals("grpc://10.0.0.7:8470", resolver.master());
    }
    try (ClusterResolver resolver = ClusterResolver.gce(
             "g", new GceOptions(0).place("p", "z"), null, () -> "")) {
      assertTrue(assertThrows(TuttiException.Unauthenticated.class, resolver::clusterSpec)
                     .getMessage().contains("give no token"));
    }
  }

  @Test
  void whatAServiceRefusesHasItsException() throws Exception {
    final String token = "ya29.a-token-that-nobody-may-see";
    final int[] status = {0};
    final HttpServer server =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 4);
    server.createContext("/", exchange -> {
      exchange.getResponseHeaders().set("Retry-After", "3600");
      exchange.getResponseHeaders().set("Location", "http://127.0.0.1:1/");
      final byte[] said = exchange.getRequestHeaders().getFirst("Authorization").getBytes();
      exchange.sendResponseHeaders(status[0], said.length);
      exchange.getResponseBody().write(said);
      exchange.close();
    });
    server.start();
    try (ClusterResolver resolver = ClusterResolver.gce("g",
             new GceOptions(0).place("p", "z").service(
                 token, "http://127.0.0.1:" + server.getAddress().getPort(), null))) {
      final Map<Integer, Class<? extends TuttiException>> refusals = Map.of(
          401, TuttiException.Unauthenticated.class, 403, TuttiException.PermissionDenied.class,
          404, TuttiException.NotFound.class, 429, TuttiException.ResourceExhausted.class,
          500, TuttiException.Unavailable.class, 302, TuttiException.FailedPrecondition.class,
          200, TuttiException.DataLoss.class);
      for (final var refusal : refusals.entrySet()) {
        status[0] = refusal.getKey();
        final String said =
            assertThrows(refusal.getValue(), resolver::clusterSpec).getMessage();
        assertTrue(said.contains("GCEClusterResolver"), said);
        assertTrue(!said.contains(token), said);
      }
    } finally {
      server.stop(0);
    }
  }

  @Test
  void aWaitForAServiceIsOverAfterItsTimeout() throws Exception {
    try (ServerSocket silent = new ServerSocket(0, 4, InetAddress.getLoopbackAddress());
        ClusterResolver resolver = ClusterResolver.gce("g",
            new GceOptions(0).place("p", "z").service(
                "token", "http://127.0.0.1:" + silent.getLocalPort(), null))) {
      assertThrows(TuttiException.DeadlineExceeded.class,
          () -> resolver.clusterSpec(Duration.ofMillis(100)));
    }
  }

  @Test
  void slurmIsAskedOfWhatSrunStarted() {
    // Tests are not started by Slurm, and Java does not change its environment.
    try (ClusterResolver resolver = ClusterResolver.slurm(
             new SlurmOptions().job("ps", 1).job("worker", 3).portBase(9000).gpus(0, null))) {
      if (System.getenv("SLURM_STEP_NODELIST") == null) {
        assertTrue(assertThrows(TuttiException.FailedPrecondition.class, resolver::clusterSpec)
                       .getMessage().contains("SLURM_STEP_NODELIST"));
      }
    }
    assertTrue(assertThrows(TuttiException.InvalidArgument.class,
                   () -> ClusterResolver.slurm(new SlurmOptions().portBase(99999)))
                   .getMessage().contains("port_base is 99999"));
    ClusterResolver.slurm(new SlurmOptions().tasksPerNode("n1", 2).keepVisibleDevices()).close();
    ClusterResolver.slurm().close();
  }

  // A ToldProgram with these variables and none of Slurm's, or proxies, besides.
  private static Process told(Map<String, String> variables, String... arguments)
      throws IOException {
    final List<String> words = new ArrayList<>(List.of(
        ProcessHandle.current().info().command().orElseThrow(), "-Xshare:auto",
        "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
        "-Dorg.tutti.library.path=" + System.getProperty("org.tutti.library.path"), "-cp",
        System.getProperty("java.class.path"), ToldProgram.class.getName()));
    words.addAll(List.of(arguments));
    final ProcessBuilder program = new ProcessBuilder(words).redirectErrorStream(true);
    program.environment().keySet().removeIf(name -> name.startsWith("SLURM_")
        || name.toLowerCase(Locale.ROOT).endsWith("_proxy"));
    program.environment().putAll(variables);
    return program.start();
  }

  private static List<String> linesOf(Process process) throws Exception {
    try {
      // It prints less than a pipe holds.
      assertTrue(process.waitFor(60, TimeUnit.SECONDS), "it hangs");
      final String said = new String(process.getInputStream().readAllBytes(), UTF_8);
      assertEquals(0, process.exitValue(), said);
      return said.lines().toList();
    } finally {
      process.destroyForcibly();
    }
  }

  @Test
  void theEnvironmentSaysWhoTheWorkersAre(@TempDir Path account) throws Exception {
    Files.writeString(account.resolve("token"), "of-this-test");
    final String port = freeAddress().substring("127.0.0.1:".length());
    final List<String> lines = linesOf(told(
        Map.of("SLURM_JOB_ID", "7", "SLURM_STEP_NODELIST", "n[1-2]", "SLURM_STEP_TASKS_PER_NODE",
            "2(x2)", "SLURM_STEP_NUM_TASKS", "4", "SLURM_PROCID", "3", "KUBERNETES_SERVICE_HOST",
            "127.0.0.1", "KUBERNETES_SERVICE_PORT_HTTPS", port),
        account.toString()));
    assertEquals(5, lines.size(), lines.toString());
    assertEquals("{\"worker\": [\"n1:8888\", \"n1:8889\", \"n2:8888\", \"n2:8889\"]} worker 3 "
        + "grpc://n2:8889", lines.get(0));
    assertEquals("{\"ps\": [\"n1:9000\"], \"worker\": [\"n1:9001\", \"n2:9000\", \"n2:9001\"]} "
        + "worker 2", lines.get(1));
    assertTrue(lines.get(2).contains("5 tasks together, and Slurm has started 4"), lines.get(2));
    assertTrue(lines.get(3).startsWith("FAILED_PRECONDITION") // the variables are there
            && lines.get(3).contains("/nonexistent/token"), lines.get(3));
    assertTrue(lines.get(4).startsWith("UNAVAILABLE") && lines.get(4).contains("127.0.0.1:" + port)
            && !lines.get(4).contains("of-this-test"), lines.get(4));
  }

  @Test
  void environmentsOfSlurmThatCannotBeAreErrorsThatSayWhy() throws Exception {
    final Map<String, String> complete = Map.of("SLURM_JOB_ID", "7", "SLURM_STEP_NODELIST", "n1",
        "SLURM_STEP_TASKS_PER_NODE", "1", "SLURM_STEP_NUM_TASKS", "1", "SLURM_PROCID", "0");
    final Map<String, String> bomb = new HashMap<>(complete);
    bomb.put("SLURM_STEP_NODELIST", "n[0-999999999]");
    final List<String> refused = linesOf(told(bomb, "slurm"));
    assertTrue(refused.get(0).startsWith("INVALID_ARGUMENT")
            && refused.get(0).contains("more than 65536 hosts"), refused.toString());
    final Map<String, String> half = new HashMap<>(complete);
    half.remove("SLURM_STEP_TASKS_PER_NODE");
    final List<String> lacking = linesOf(told(half, "slurm"));
    assertTrue(lacking.get(0).startsWith("FAILED_PRECONDITION")
            && lacking.get(0).contains("SLURM_STEP_TASKS_PER_NODE"), lacking.toString());
  }

  private static Process worker(int index, long limitMs, String... addresses) throws IOException {
    return told(Map.of("TUTTI_JOB_SECRET", "5a".repeat(32), "JOIN_MS", "" + limitMs, "TF_CONFIG",
        "{\"cluster\": {\"worker\": [\"" + String.join("\", \"", addresses) + "\"]}, \"task\": "
            + "{\"type\": \"worker\", \"index\": " + index + "}}"));
  }

  @Test
  void workersThatAreToldOfDifferentClustersGetOneError() throws Exception {
    final String meeting = freeAddress();
    final String one = freeAddress();
    final String other = freeAddress();
    final Process first = worker(0, LONG.toMillis(), meeting, one);
    final Process second = worker(1, LONG.toMillis(), meeting, other);
    final List<String> said = linesOf(first);
    assertEquals(said, linesOf(second));
    assertEquals(1, said.size(), said.toString());
    assertTrue(said.get(0).startsWith("INVALID_ARGUMENT") && said.get(0).contains(
        "workers 0 and 1 were given different clusters: for worker 0 it is worker:1 at " + one
        + ", for worker 1 it is worker:1 at " + other
        + " (task 1 of the job); give all workers the same cluster specification"), said.get(0));
  }

  @Test
  void servicesAreAskedOnTheirMachinesAlone() {
    final KubernetesOptions pods =
        new KubernetesOptions(Map.of("worker", List.of("job-name=\"a\"")));
    try (ClusterResolver resolver =
             ClusterResolver.kubernetes(pods.account("/nonexistent", "training"))) {
      assertThrows(TuttiException.FailedPrecondition.class, resolver::clusterSpec);
    }
    try (ClusterResolver resolver = ClusterResolver.kubernetes(pods.task("worker", 2))) {
      assertEquals("worker", resolver.taskType());
      assertEquals(2L, resolver.taskId());
    }
    final GceOptions here =
        new GceOptions(1).place("a-project", "a-zone").service("token", "https://127.0.0.1:1", null);
    try (ClusterResolver resolver = ClusterResolver.gce("group", here)) {
      assertEquals(1L, resolver.taskId());
      assertThrows(TuttiException.class, resolver::clusterSpec);
    }
    assertThrows(TuttiException.InvalidArgument.class, () -> ClusterResolver.gce("", here));
    ClusterResolver.kubernetes(new KubernetesOptions()).close();
  }

  @Test
  void aLambdaIsAResolver() {
    final ClusterResolver own =
        () -> ClusterSpec.of(Map.of("worker", List.of("10.0.0.1:2222", "10.0.0.2:2222")));
    assertNull(own.taskType());
    assertNull(own.taskId());
    assertEquals("", own.environment());
    assertEquals("10.0.0.2:2222", own.master("worker", 1L, null));
    assertEquals("grpc://10.0.0.1:2222", own.master("worker", 0L, "grpc"));
    final TuttiException refused = assertThrows(
        TuttiException.class, () -> Cluster.join(own, 0, LONG)); // it does not know the task
    assertEquals(Code.INVALID_ARGUMENT, refused.code(), refused.getMessage());
    final ClusterResolver none = () -> null;
    assertTrue(assertThrows(NullPointerException.class, () -> Cluster.join(none, 0, LONG))
                   .getMessage().contains("clusterSpec()"));
    final IllegalStateException thrown = new IllegalStateException("no scheduler");
    assertSame(thrown, assertThrows(IllegalStateException.class,
        () -> MultiWorkerMirroredStrategy.create(() -> {
          throw thrown;
        }, LONG)));
  }

  // Of two replicas one does not come to the collective.
  private static void timesOut(Strategy strategy, Function<ReplicaContext, Value> collective) {
    assertThrows(TuttiException.DeadlineExceeded.class, () -> strategy.run((replica, nothing) -> {
      while (replica.replicaId() == 1 && !replica.isCancelled()) {
        Thread.onSpinWait();
      }
      return replica.replicaId() == 1 ? null : collective.apply(replica);
    }));
  }

  @Test
  void theTimeoutOfACollectiveComesFromTheCallOrTheStrategy() {
    final CommunicationOptions little = new CommunicationOptions(Duration.ofMillis(5));
    final CommunicationOptions none = new CommunicationOptions(Duration.ZERO);
    try (MultiWorkerMirroredStrategy strategy =
             MultiWorkerMirroredStrategy.create(null, little, null, LONG, "CPU:0", "CPU:1")) {
      timesOut(strategy, replica -> replica.allReduce(ReduceOp.SUM, 1.0));
      timesOut(strategy, replica -> replica.allGather(new float[1], 0));
      strategy.run((replica, nothing) -> {
        assertEquals(2, replica.allReduce(ReduceOp.SUM, 1.0, none).doubleValue());
        assertEquals(2, replica.allReduce(ReduceOp.SUM, 1.0, LONG).doubleValue());
        assertEquals(2, replica.allGather(new float[1], 0, none).asTensor().elementCount());
        return null;
      });
    }
    try (MultiWorkerMirroredStrategy strategy =
             MultiWorkerMirroredStrategy.of("CPU:0", "CPU:1")) {
      timesOut(strategy, replica -> replica.allReduce(ReduceOp.SUM, 1.0, little));
      timesOut(strategy, replica -> replica.allGather(new float[1], 0, little));
    }
    refusesNegativeNumbers();
  }

  @Test
  void theImplementationAndThePacksOfAStrategyReachTheLibrary() {
    final List<String> lines = Collections.synchronizedList(new ArrayList<>());
    TuttiRuntime.setLogSink((level, line) -> lines.add(level + " " + line));
    try {
      for (final CommunicationOptions.Implementation implementation :
          CommunicationOptions.Implementation.values()) {
        lines.clear();
        final CommunicationOptions packs = new CommunicationOptions(4, null, implementation);
        try (MultiWorkerMirroredStrategy strategy =
                 MultiWorkerMirroredStrategy.create(null, packs, null, LONG, "CPU:0", "CPU:1")) {
          strategy.run((replica, nothing) -> {
            final Value sum = replica.allReduce(ReduceOp.SUM, Map.of("a", 1, "b", new float[] {3}));
            assertEquals(2, sum.get("a").longValue());
            assertEquals(6, sum.get("b").asTensor().toFloatArray()[0]);
            return null;
          });
        }
        assertEquals(implementation == CommunicationOptions.Implementation.NCCL,
            lines.stream().anyMatch(line -> line.startsWith("warning") && line.contains("NCCL")),
            implementation + ": " + lines);
      }
    } finally {
      TuttiRuntime.setLogSink(null);
    }
  }

  private static void refusesNegativeNumbers() {
    assertThrows(TuttiException.InvalidArgument.class, () -> new CommunicationOptions(
        -1, null, CommunicationOptions.Implementation.RING));
    assertThrows(TuttiException.InvalidArgument.class,
        () -> new CommunicationOptions(Duration.ofSeconds(-1)));
  }
}
