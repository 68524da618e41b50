package org.tutti.data;

import org.tutti.Value;

/** What map makes of an element, or filter thinks of it. */
@FunctionalInterface
public interface ElementFunction {
  /**
   * Computes the result. Inside only definitions may be made, nothing iterated.
   *
   * @param element closed when the function returns
   * @return what Value.ofData takes
   * @throws Exception comes out of the iterator as the cause of a TuttiException
   */
  Object apply(Value element) throws Exception;
}
