package org.tutti.distribute;

import org.tutti.Value;
import org.tutti.Variable;

/** What runs for each device of a variable. */
@FunctionalInterface
public interface UpdateFunction {
  /**
   * Updates the copy on one device.
   *
   * @param context which one, until the function returns
   * @param variable what is updated; null for updateNonSlot
   * @param argument this device's part of the argument, none where there is none; closed when the
   *     function returns
   * @return what Value.of takes, null for none
   * @throws Exception ends the update
   */
  Object update(UpdateContext context, Variable variable, Value argument) throws Exception;
}
