package org.tutti.data;

import org.tutti.Value;

/** What Dataset.groupByWindow makes of a window. */
@FunctionalInterface
public interface WindowFunction {
  /**
   * Gives the dataset whose elements come out. Inside only definitions may be made, nothing
   * iterated.
   *
   * @param key of all elements of the window; closed when the function returns
   * @param window the elements, in memory
   * @throws Exception comes out of the iterator as the cause of a TuttiException
   */
  Dataset apply(Value key, Dataset window) throws Exception;
}
