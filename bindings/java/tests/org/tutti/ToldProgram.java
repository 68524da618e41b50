package org.tutti;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.KubernetesOptions;
import org.tutti.distribute.SlurmOptions;

/**
 * What a process does with what its environment says, line by line: for a test that starts it with
 * variables of its own, as Java cannot change those of a process that is there.
 */
public final class ToldProgram {
  private ToldProgram() {}

  private static String failureOf(Runnable call) {
    try {
      call.run();
      return "no failure";
    } catch (TuttiException failed) {
      return failed.code() + ": " + failed.getMessage();
    }
  }

  private static void sayWhatResolversFind(String account) {
    final SlurmOptions cpus = new SlurmOptions().gpus(0, null);
    try (ClusterResolver every = ClusterResolver.slurm(cpus);
        ClusterResolver jobs = ClusterResolver.slurm(
             cpus.job("ps", 1).job("worker", 3).portBase(9000))) {
      System.out.println(every.clusterSpec() + " " + every.taskType() + " " + every.taskId() + " "
          + every.master());
      System.out.println(jobs.clusterSpec() + " " + jobs.taskType() + " " + jobs.taskId());
    }
    try (ClusterResolver many = ClusterResolver.slurm(cpus.job("worker", 5))) {
      System.out.println(failureOf(many::clusterSpec));
    }
    final KubernetesOptions pods =
        new KubernetesOptions(Map.of("worker", List.of("job-name=a")));
    for (final String folder : List.of("/nonexistent", account)) {
      try (ClusterResolver resolver =
               ClusterResolver.kubernetes(pods.account(folder, "training"))) {
        System.out.println(failureOf(() -> resolver.clusterSpec(Duration.ofSeconds(20))));
      }
    }
  }

  /**
   * The program. With "slurm" it asks that resolver alone, with the folder of a service account
   * the others, too; without either it joins the job of TF_CONFIG within the milliseconds of the
   * variable JOIN_MS.
   */
  public static void main(String[] arguments) {
    if (arguments.length == 1 && arguments[0].equals("slurm")) {
      System.out.println(failureOf(() -> {
        try (ClusterResolver slurm = ClusterResolver.slurm(new SlurmOptions().gpus(0, null))) {
          System.out.println(slurm.clusterSpec() + " " + slurm.taskId());
        }
      }));
    } else if (arguments.length == 1) {
      sayWhatResolversFind(arguments[0]);
    } else {
      final Duration limit = Duration.ofMillis(Long.parseLong(System.getenv("JOIN_MS")));
      System.out.println(failureOf(() -> Cluster.join(null, 1, limit).close()));
    }
  }
}
