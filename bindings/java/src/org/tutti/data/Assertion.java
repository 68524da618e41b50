package org.tutti.data;

import java.util.Objects;
import org.tutti.DType;
import org.tutti.Tensor;

/**
 * What {@link DatasetFunction#assertion} asserts of elements.
 *
 * <pre>{@code
 * dataset.map(DatasetFunction.assertion(
 *     Assertion.of(Assertion.Check.LESS).with(limit).at("x").message("after parsing")));
 * }</pre>
 *
 * <p>Its methods change it and give it back. Threads: one at a time.
 */
public final class Assertion {
  /** Every assertion of org.tutti.Debugging about one tensor, or about one and another. */
  public enum Check {
    /** x == y. */
    EQUAL(1),
    /** x != y. */
    NONE_EQUAL(2),
    /** x &lt; y. */
    LESS(3),
    /** x &lt;= y. */
    LESS_EQUAL(4),
    /** x &gt; y. */
    GREATER(5),
    /** x &gt;= y. */
    GREATER_EQUAL(6),
    /** |x - y| &lt; atol + rtol * |y|. */
    NEAR(7),
    /** Above 0. */
    POSITIVE(17),
    /** Below 0. */
    NEGATIVE(18),
    /** 0 or below. */
    NON_POSITIVE(19),
    /** 0 or above. */
    NON_NEGATIVE(20),
    /** Neither NaN nor infinite; integers and booleans are finite. */
    ALL_FINITE(21),
    /** The same, of floats and complex numbers only. */
    NUMERICS(22),
    /** The dtype is an integer's. */
    INTEGER(23),
    /** Without axes. */
    SCALAR(24),
    /** As many axes. */
    RANK(33),
    /** As many axes or more. */
    RANK_AT_LEAST(34),
    /** As many axes as one of the ranks. */
    RANK_IN(35),
    /** Of the dtype. */
    TYPE(48),
    /** True; of booleans. */
    TRUE(49),
    /** The shapes of leaves, which fit each other. */
    SHAPES(50),
    /** All leaves that are looked at are of one floating dtype. */
    SAME_FLOAT_DTYPE(51);

    final int number;

    Check(int number) {
      this.number = number;
    }
  }

  final Check check;
  Tensor other;
  Tensor rtol;
  Tensor atol;
  long[] ranks = {};
  int dtype;
  String path;
  String otherPath;
  String message;
  String shapes;
  int summarize;

  private Assertion(Check check) {
    this.check = Objects.requireNonNull(check, "a check is needed, not null");
  }

  /** Of every leaf of an element. */
  public static Assertion of(Check check) {
    return new Assertion(check);
  }

  /** Of a comparison: each row is compared with y, broadcast, of the rows' dtype. */
  public Assertion with(Tensor y) {
    other = y;
    return this;
  }

  /** Of a comparison: with the leaf at a path. */
  public Assertion withLeaf(String yPath) {
    otherPath = yPath;
    return this;
  }

  /** Of the leaves at a path and below: keys, fields and indexes joined by '/'. */
  public Assertion at(String leaves) {
    path = leaves;
    return this;
  }

  /** Of RANK, RANK_AT_LEAST (one) and RANK_IN. */
  public Assertion ranks(long... allowed) {
    ranks = allowed.clone();
    return this;
  }

  /** Of SHAPES: paths of leaves with the shape of a row, {@code "image=N,3;mask=N"}. */
  public Assertion shapes(String ofLeaves) {
    shapes = ofLeaves;
    return this;
  }

  /** Of TYPE, and of SAME_FLOAT_DTYPE, which takes any without it. */
  public Assertion dtype(DType wanted) {
    dtype = wanted.number();
    return this;
  }

  /** Of NEAR; null: as {@link org.tutti.Debugging#assertNear(Object, Object)}. */
  public Assertion tolerances(Tensor relative, Tensor absolute) {
    rtol = relative;
    atol = absolute;
    return this;
  }

  /** What the error says first. */
  public Assertion message(String first) {
    message = first;
    return this;
  }

  /** How many elements of each tensor the error shows; 0: three, negative: all. */
  public Assertion summarize(int elements) {
    summarize = elements;
    return this;
  }
}
