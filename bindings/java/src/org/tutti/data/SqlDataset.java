package org.tutti.data;

import java.util.List;
import org.tutti.DType;
import org.tutti.internal.Box;
import org.tutti.internal.Native;

/**
 * The rows that a query gives on a SQLite database, as tuples of scalars, in its order. SQLite's
 * library is loaded when the first query runs. NULL is 0, false or empty. At iteration: a row with
 * a value that its dtype cannot hold is INVALID_ARGUMENT, and the next one follows; a query that
 * cannot be run is, with SQLite's text, and ends the dataset; NOT_FOUND without the file. Iterators
 * resume by asking again, so that a query should say "order by".
 */
public final class SqlDataset extends Dataset {
  private SqlDataset(Box box) {
    super(box);
  }

  /**
   * A query on the file {@code dataSourceName}, which is opened to be read; driverName: "sqlite"; a
   * dtype for each column.
   */
  public static SqlDataset of(
      String driverName, String dataSourceName, String query, DType... outputTypes) {
    return of(driverName, dataSourceName, query, List.of(outputTypes), null);
  }

  /** As above, with a name for messages. */
  public static SqlDataset of(String driverName, String dataSourceName, String query,
      List<DType> outputTypes, String name) {
    final long[] dtypes = outputTypes.stream().mapToLong(DType::number).toArray();
    return new SqlDataset(
        Box.at(Native.dataset_sql(driverName, dataSourceName, query, dtypes, name)));
  }
}
