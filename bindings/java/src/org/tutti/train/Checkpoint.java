package org.tutti.train;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.tutti.Cluster;
import org.tutti.Code;
import org.tutti.Communicator;
import org.tutti.Tensor;
import org.tutti.TuttiException;
import org.tutti.Variable;
import org.tutti.data.DatasetIterator;
import org.tutti.distribute.DistributedIterator;
import org.tutti.distribute.Strategy;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * Variables, iterators and tensors under names, which are saved and restored together, as
 * safetensors files with a manifest beside them. Under several workers each makes the same calls. A
 * restore that throws has changed nothing. Threads: one at a time, in cross-replica context.
 */
public final class Checkpoint extends NativeObject implements AutoCloseable {
  private static final String SINGLE_FILE = ".safetensors";

  long saveCounter;

  private final Map<String, ?> objects;

  /**
   * Objects: Variable, DistributedIterator, DatasetIterator, Tensor (a restore writes into it),
   * other checkpoints, maps and lists of them. In which order does not matter: they are saved and
   * restored in that of their names as UTF-8 bytes, in every language. The strategy is that of a
   * variable among them, else the current one.
   */
  public Checkpoint(Map<String, ?> objects) {
    this(strategyOf(objects), objects);
  }

  /** As above, of a strategy. */
  public Checkpoint(Strategy strategy, Map<String, ?> objects) {
    super(Box.at(Native.checkpoint_create(strategy)));
    this.objects = objects;
    try {
      add("", objects);
    } catch (RuntimeException failed) {
      release();
      throw failed;
    }
  }

  /**
   * As above, without a strategy: the ranks of the communicator save and restore together, by calls
   * of it, of which nothing else may be under way. In a process that is one of several workers,
   * saving with neither is FAILED_PRECONDITION: the workers would overwrite each other's files.
   */
  public Checkpoint(Communicator communicator, Map<String, ?> objects) {
    super(Box.at(Native.checkpoint_create_for_communicator(communicator)));
    this.objects = objects;
    try {
      add("", objects);
    } catch (RuntimeException failed) {
      release();
      throw failed;
    }
  }

  /** As above with all workers, by a communicator that is made here: all make the checkpoint. */
  public Checkpoint(Cluster cluster, Map<String, ?> objects) {
    this(Communicator.create(cluster, "checkpoint"), objects);
  }

  private static Strategy strategyOf(Object object) {
    final Variable variable = firstVariable(object);
    return variable != null ? variable.strategy() : Strategy.current();
  }

  private static Variable firstVariable(Object object) {
    if (object instanceof Variable variable) {
      return variable;
    }
    if (object instanceof Checkpoint checkpoint) {
      return firstVariable(checkpoint.objects);
    }
    final Iterable<?> parts = object instanceof Map<?, ?> map ? map.values()
        : object instanceof List<?> list ? list : List.of();
    for (final Object part : parts) {
      final Variable found = firstVariable(part);
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  private void add(String name, Object object) {
    if (object instanceof Map<?, ?> map) {
      map.forEach((key, part) -> add(name.isEmpty() ? "" + key : name + "/" + key, part));
    } else if (object instanceof List<?> list) {
      for (int i = 0; i < list.size(); ++i) {
        add(name + "/" + i, list.get(i));
      }
    } else if (object instanceof Checkpoint checkpoint) {
      add(name, checkpoint.objects);
    } else if (object instanceof Variable variable) {
      Native.checkpoint_add_variable(this, name, variable);
    } else if (object instanceof DistributedIterator iterator) {
      Native.checkpoint_add_distributed_iterator(this, name, iterator);
    } else if (object instanceof DatasetIterator iterator) {
      Native.checkpoint_add_iterator(this, name, iterator);
    } else if (object instanceof Tensor tensor) {
      Native.checkpoint_add_tensor(this, name, tensor);
    } else {
      throw TuttiException.of(Code.INVALID_ARGUMENT, name + ": " + object
          + " cannot be saved; give variables, iterators, tensors, checkpoints, or maps and lists "
          + "of them");
    }
  }

  /** The number of the checkpoint that was saved or restored last. */
  public long saveCounter() {
    return saveCounter;
  }

  /** Saves as prefix-1, prefix-2, ... and returns that path. */
  public String save(String prefix) {
    return save(prefix, null);
  }

  /** As save, for at most {@code timeout}. */
  public String save(String prefix, Duration timeout) {
    final String path = prefix + "-" + (saveCounter + 1);
    final Path directory = Path.of(path).toAbsolutePath().getParent();
    try {
      Files.createDirectories(directory);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
    Native.checkpoint_save(this, path, saveCounter + 1, Bridge.nanos(timeout));
    ++saveCounter;
    return path;
  }

  /**
   * Gives every object what the checkpoint holds. NOT_FOUND when there is no such checkpoint or no
   * value for an object, INVALID_ARGUMENT for another dtype or shape, DATA_LOSS naming a file that
   * is damaged.
   */
  public void restore(String path) {
    restore(path, null);
  }

  /** As restore, for at most {@code timeout}. */
  public void restore(String path, Duration timeout) {
    saveCounter = Native.checkpoint_restore(this, path, Bridge.nanos(timeout));
  }

  /**
   * Saves as this very path. One that ends with ".safetensors" is a single file for other programs,
   * without a manifest.
   */
  public void write(String path) {
    write(path, null);
  }

  /** As write, for at most {@code timeout}. */
  public void write(String path, Duration timeout) {
    if (path.endsWith(SINGLE_FILE)) {
      Native.checkpoint_write(this, path, Bridge.nanos(timeout));
    } else {
      Native.checkpoint_save(this, path, saveCounter, Bridge.nanos(timeout));
    }
  }

  /**
   * As restore, of what write wrote as this path; also of a safetensors file of another program.
   */
  public void read(String path) {
    read(path, null);
  }

  /** As read, for at most {@code timeout}. */
  public void read(String path, Duration timeout) {
    if (path.endsWith(SINGLE_FILE)) {
      Native.checkpoint_read(this, path, Bridge.nanos(timeout));
    } else {
      restore(path, timeout);
    }
  }

  @Override
  public void close() {
    release();
  }
}
