package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.Strategy;
import org.tutti.train.Checkpoint;
import org.tutti.train.CheckpointManager;

/** Checkpoints. */
class CheckpointTest {
  @Test
  void aCheckpointBringsEverythingBack(@TempDir Path folder) {
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1");
         Strategy.InScope scope = strategy.scope();
         Variable weights = Variable.of(new float[] {1, 2});
         Tensor counts = Tensor.of(new long[] {5});
         DatasetIterator elements = Dataset.range(9).iterator();
         Checkpoint checkpoint = new Checkpoint(
             Map.of("layers", List.of(weights), "counts", counts, "elements", elements));
         CheckpointManager manager =
             new CheckpointManager(checkpoint, folder.toString(), 1, "run")) {
      assertEquals(Optional.empty(), manager.restoreLatest());
      elements.next();
      manager.save();
      final String path = manager.save();
      assertEquals(List.of(path), manager.checkpoints());
      elements.next();
      weights.assign(new float[] {0, 0});
      counts.asLongBuffer().put(0, 7);
      assertEquals(Optional.of(path), manager.restoreLatest());
      assertArrayEquals(new float[] {1, 2}, weights.read().toFloatArray());
      assertEquals(5, counts.asLongBuffer().get(0));
      assertEquals(1, elements.next().longValue());
      assertEquals(2, checkpoint.saveCounter());
      assertThrows(TuttiException.NotFound.class, () -> checkpoint.restore(folder + "/none-1"));
      assertThrows(TuttiException.InvalidArgument.class,
          () -> new Checkpoint(strategy, Map.of("text", "no")));
    }
  }

  @Test
  void theOrderOfACheckpointsObjectsDoesNotMatter(@TempDir Path folder) throws IOException {
    final List<byte[]> files = new ArrayList<>();
    for (final List<String> names : List.of(List.of("\ud83d\ude00", "\uffee", "a"),
             List.of("a", "\uffee", "\ud83d\ude00"))) {
      final Map<String, Object> objects = new LinkedHashMap<>();
      for (final String name : names) {
        objects.put(name, Tensor.of(new long[] {name.length()}));
      }
      try (Checkpoint inner = new Checkpoint(objects);
           Checkpoint outer = new Checkpoint(Map.of("inner", inner))) {
        final Path file = folder.resolve(files.size() + ".safetensors");
        outer.write(file.toString());
        outer.read(file.toString());
        files.add(Files.readAllBytes(file));
      }
    }
    assertArrayEquals(files.get(0), files.get(1));
    assertTrue(new String(files.get(0), StandardCharsets.UTF_8).contains("inner/a"));
  }

  @Test
  void aCheckpointIsFoundByItsDirectory(@TempDir Path folder) {
    final Tensor counts = Tensor.of(new long[] {5});
    final String path = folder.resolve("exactly").toString();
    try (Checkpoint checkpoint = new Checkpoint(Map.of("counts", counts));
         CheckpointManager manager = new CheckpointManager(checkpoint, folder.toString())) {
      assertEquals(Optional.empty(), CheckpointManager.latest(folder.toString(), "ckpt"));
      final String saved = manager.save();
      assertEquals(Optional.of(saved), CheckpointManager.latest(folder.toString(), "ckpt"));
      assertEquals(folder.toString(), manager.directory());
      assertSame(checkpoint, manager.checkpoint());
      checkpoint.write(path);
      counts.asLongBuffer().put(0, 6);
      checkpoint.read(path);
      assertEquals(5, counts.longValue());
      checkpoint.write(path, Duration.ofSeconds(60));
      checkpoint.restore(saved, Duration.ofSeconds(60));
    }
  }
}
