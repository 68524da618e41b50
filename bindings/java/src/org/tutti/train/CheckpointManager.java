package org.tutti.train;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.tutti.Code;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * The checkpoints of one directory, of which the last few stay. One program at a time saves there.
 */
public final class CheckpointManager extends NativeObject implements AutoCloseable {
  private final Checkpoint checkpoint;
  private final String directory;
  private final String prefix;

  /** The last five, named ckpt-1, ckpt-2, ... */
  public CheckpointManager(Checkpoint checkpoint, String directory) {
    this(checkpoint, directory, 5, "ckpt");
  }

  /** The last maxToKeep, -1: all; name-1, name-2, ... */
  public CheckpointManager(Checkpoint checkpoint, String directory, long maxToKeep, String name) {
    super(Box.at(Native.checkpoint_manager_create(
        checkpoint, directory, checked(maxToKeep), name)));
    this.checkpoint = checkpoint;
    this.directory = directory;
    this.prefix = directory + "/" + name + "-";
  }

  private static long checked(long maxToKeep) {
    if (maxToKeep < 1 && maxToKeep != -1) {
      throw TuttiException.of(
          Code.INVALID_ARGUMENT, "maxToKeep must be 1 or more, or -1 for all, got " + maxToKeep);
    }
    return maxToKeep;
  }

  /** The path of the checkpoint that was saved last in a directory under a name ("ckpt"). */
  public static Optional<String> latest(String directory, String name) {
    try (Checkpoint nothing = new Checkpoint(Map.of());
         CheckpointManager manager = new CheckpointManager(nothing, directory, -1, name)) {
      return manager.latest();
    }
  }

  /** What is saved. */
  public Checkpoint checkpoint() {
    return checkpoint;
  }

  /** Where it is saved. */
  public String directory() {
    return directory;
  }

  /** The path of the checkpoint that was saved last. */
  public Optional<String> latest() {
    final String path = Bridge.text(Native.checkpoint_manager_latest(this));
    return path == null || path.isEmpty() ? Optional.empty() : Optional.of(path);
  }

  /** The paths of all that are there, the one saved last at the end. */
  public List<String> checkpoints() {
    final List<String> paths = new ArrayList<>();
    try (Value all = Makers.value(Box.at(Native.checkpoint_manager_list(this)))) {
      for (final Value path : all.asList()) {
        paths.add(path.stringValue());
      }
    }
    return paths;
  }

  /** Saves under the next number and removes the oldest beyond maxToKeep; returns the path. */
  public String save() {
    return save(checkpoint.saveCounter + 1);
  }

  /** As save, under a number of the caller's. */
  public String save(long number) {
    return save(number, null);
  }

  /** As above, for at most {@code timeout}. */
  public String save(long number, Duration timeout) {
    final String path =
        Bridge.text(Native.checkpoint_manager_save(this, number, Bridge.nanos(timeout)));
    checkpoint.saveCounter = number;
    return path;
  }

  /**
   * Restores the checkpoint that was saved last; empty when there is none. An older one is never
   * taken instead of one that is damaged (DATA_LOSS).
   */
  public Optional<String> restoreLatest() {
    return restoreLatest(null);
  }

  /** As restoreLatest, for at most {@code timeout}. */
  public Optional<String> restoreLatest(Duration timeout) {
    final Long number =
        Bridge.optional(Native.checkpoint_manager_restore_latest(this, Bridge.nanos(timeout)));
    if (number == null) {
      return Optional.empty();
    }
    checkpoint.saveCounter = number;
    return Optional.of(prefix + number);
  }

  @Override
  public void close() {
    release();
  }
}
