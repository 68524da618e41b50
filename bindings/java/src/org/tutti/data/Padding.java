package org.tutti.data;

/**
 * How Dataset.paddedBatch pads: {@code new Padding().values(-1L)}.
 *
 * @param shapes of each component, as paddedBatch takes them; null: the largest of each batch
 * @param values to pad with, as paddedBatch takes them; null: zeros
 * @param dropRemainder whether a last batch that is smaller is dropped
 */
public record Padding(Object shapes, Object values, boolean dropRemainder) {
  /** To the largest of each batch with zeros. */
  public Padding() {
    this(null, null, false);
  }

  /** The same, to these shapes. */
  public Padding shapes(Object sizes) {
    return new Padding(sizes, values, dropRemainder);
  }

  /** The same, with these values. */
  public Padding values(Object fill) {
    return new Padding(shapes, fill, dropRemainder);
  }

  /** The same, with or without a last batch that is smaller. */
  public Padding dropRemainder(boolean drop) {
    return new Padding(shapes, values, drop);
  }
}
