package org.tutti.data;

import org.tutti.Value;

/** The next state of Dataset.reduce. */
@FunctionalInterface
public interface ReduceFunction {
  /**
   * Computes the next state, of the structure and the dtypes of this one. Inside only definitions
   * may be made, nothing iterated.
   *
   * @param state closed when the function returns
   * @param element closed when the function returns
   * @return what Value.ofData takes
   * @throws Exception comes out of reduce as the cause of a TuttiException
   */
  Object apply(Value state, Value element) throws Exception;
}
