package conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.tutti.TuttiRuntime;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.ClusterSpec;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.MultiWorkerMirroredStrategy;
import org.tutti.distribute.Strategy;

/** Strategies of several replicas and workers. */
final class Workers {
  /** What each worker does. */
  interface Body {
    void run(Strategy strategy, int worker);
  }

  private Workers() {}

  static Strategy mirrored(int replicas) {
    return MirroredStrategy.of(devices(replicas));
  }

  /** Of the type that CONFORMANCE_DEVICE says, else CPUs. */
  private static String[] devices(int count) {
    final String type = System.getenv().getOrDefault("CONFORMANCE_DEVICE", "CPU");
    return IntStream.range(0, count).mapToObj(i -> type + ":" + i).toArray(String[]::new);
  }

  /** Several workers are runtimes of their own, each on a thread of its own. */
  static void run(int workers, int replicas, Body body) {
    if (workers == 1) {
      try (Strategy strategy = mirrored(replicas)) {
        body.run(strategy, 0);
      }
      return;
    }
    final List<Socket> reserved = new ArrayList<>();
    try {
      final ClusterSpec cluster = ClusterSpec.parse(IntStream.range(0, workers)
          .mapToObj(worker -> '"' + reserve(reserved) + '"')
          .collect(Collectors.joining(", ", "{\"worker\": [", "]}")));
      final List<CompletableFuture<Void>> running = new ArrayList<>();
      for (int i = 0; i < workers; ++i) {
        final int worker = i;
        running.add(CompletableFuture.runAsync(() -> work(cluster, worker, replicas, body),
            task -> new Thread(task, "worker " + worker).start()));
      }
      CompletableFuture.allOf(running.toArray(new CompletableFuture<?>[0])).join();
    } catch (CompletionException failed) {
      throw failed.getCause() instanceof RuntimeException cause ? cause : failed;
    } finally {
      for (final Socket socket : reserved) {
        close(socket);
      }
    }
  }

  private static void work(ClusterSpec cluster, int worker, int replicas, Body body) {
    try (TuttiRuntime runtime = TuttiRuntime.create(Map.of());
         TuttiRuntime.Scope inside = runtime.asDefault()) {
      final ClusterResolver resolver =
          ClusterResolver.simple(cluster, "worker", (long) worker);
      body.run(MultiWorkerMirroredStrategy.create(resolver, null, devices(replicas)), worker);
    }
  }

  // An address of the loopback interface that nobody else gets: the port stays bound in a way that
  // lets a worker listen there all the same (Linux: both sockets have SO_REUSEADDR, and this one
  // does not listen).
  private static String reserve(List<Socket> reserved) {
    final Socket socket = new Socket();
    reserved.add(socket);
    try {
      socket.setReuseAddress(true);
      socket.bind(new InetSocketAddress(InetAddress.getByAddress(new byte[] {127, 0, 0, 1}), 0));
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
    return "127.0.0.1:" + socket.getLocalPort();
  }

  private static void close(Socket socket) {
    try {
      socket.close();
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }
}
