package org.tutti.data;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.ToLongFunction;
import org.tutti.internal.Loader;
import org.tutti.internal.Native;

/** Native functions that are made of features. */
final class Parsers {
  private Parsers() {}

  /** The function that {@code make} makes of the features, as the runtime has them. */
  static DatasetFunction withFeatures(List<Map.Entry<String, DatasetFunction.Feature>> features,
      ToLongFunction<long[]> make) {
    Loader.load();
    final long[] made = new long[features.size()];
    int count = 0;
    try {
      for (final Map.Entry<String, DatasetFunction.Feature> entry : features) {
        final DatasetFunction.Feature feature = entry.getValue();
        made[count++] = Native.feature_create(
            Objects.requireNonNull(entry.getKey(), "a feature needs a name, not null"),
            feature.dtype().number(), feature.shape(), feature.defaultValue(),
            feature.kind().ordinal());
      }
      return DatasetFunction.at(make.applyAsLong(made));
    } finally {
      for (final long feature : made) {
        if (feature != 0) {
          Native.feature_delete(feature);
        }
      }
    }
  }
}
