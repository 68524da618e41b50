package org.tutti;

import java.lang.reflect.Array;
import java.util.ArrayList;
import java.util.List;

/** Tensors of lists: vectors, places as rows, and ragged ones of lists in lists. */
final class NestedLists {
  private NestedLists() {}

  /** A vector of the dtype that Java gives an expression of all items. */
  static Tensor vectorOf(List<?> list) {
    if (list.stream().allMatch(item -> item instanceof String)) {
      return Tensor.of(list.toArray(new String[0]));
    }
    if (!list.stream().allMatch(item -> item instanceof Number)) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "a list in a dataset is a vector, of numbers or of strings; a structure is a map, a "
              + "record or an array (Object[])");
    }
    if (holds(list, Double.class)) {
      return Tensor.of(list.stream().mapToDouble(item -> ((Number) item).doubleValue()).toArray());
    }
    if (holds(list, Float.class)) {
      final float[] elements = new float[list.size()];
      for (int i = 0; i < elements.length; ++i) {
        elements[i] = ((Number) list.get(i)).floatValue();
      }
      return Tensor.of(elements);
    }
    if (list.stream().allMatch(item -> item instanceof Integer || item instanceof Short
        || item instanceof Byte)) {
      return Tensor.of(list.stream().mapToInt(item -> ((Number) item).intValue()).toArray());
    }
    return Tensor.of(list.stream().mapToLong(item -> ((Number) item).longValue()).toArray());
  }

  private static boolean holds(List<?> list, Class<? extends Number> type) {
    return list.stream().anyMatch(type::isInstance);
  }

  /** Rows of the same length as a matrix. */
  static Tensor matrixOf(long[][] rows, int columns) {
    final long[] flat = new long[Math.multiplyExact(rows.length, columns)];
    for (int i = 0; i < rows.length; ++i) {
      if (rows[i].length != columns) {
        throw TuttiException.of(Code.INVALID_ARGUMENT, "sparse tensor: index " + i + " has "
            + rows[i].length + " axes, and the dense_shape " + columns);
      }
      System.arraycopy(rows[i], 0, flat, i * columns, columns);
    }
    return Tensor.of(flat, rows.length, columns);
  }

  /** As Value.raggedConstant; dtype null is what the items have. */
  static Value ragged(Object nested, DType dtype) {
    final List<long[]> splits = new ArrayList<>();
    List<Object> rows = List.of(nested);
    while (true) {
      final List<Object> items = new ArrayList<>();
      final long[] offsets = new long[rows.size() + 1];
      for (int i = 0; i < rows.size(); ++i) {
        addItems(rows.get(i), items);
        offsets[i + 1] = items.size();
      }
      splits.add(offsets);
      final long lists = items.stream().filter(NestedLists::isList).count();
      if (lists == 0) {
        break;
      }
      if (lists < items.size()) {
        throw TuttiException.of(Code.INVALID_ARGUMENT, "lists that are not all as deep: of "
            + items.size() + " items at depth " + splits.size() + " only " + lists + " are lists");
      }
      rows = items;
    }
    if (splits.size() == 1) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "a ragged tensor is made of lists in a list; what has one axis is a tensor (Tensor.of)");
    }
    Value made = null;
    try (Tensor flat = flatOf(rows, dtype)) {
      made = Value.of(flat);
      for (int i = splits.size() - 1; i > 0; --i) {
        try (Value values = made) {
          made = Value.ragged(values, splits.get(i));
        }
      }
    }
    return made;
  }

  private static boolean isList(Object item) {
    return item instanceof List<?>
        || (item != null && item.getClass().isArray() && !(item instanceof byte[]));
  }

  private static void addItems(Object row, List<Object> items) {
    if (row instanceof List<?> list) {
      items.addAll(list);
      return;
    }
    if (!isList(row)) {
      throw TuttiException.of(Code.INVALID_ARGUMENT, "a ragged tensor is made of lists in a list, "
          + "not of a " + row.getClass().getName());
    }
    for (int i = 0; i < Array.getLength(row); ++i) {
      items.add(Array.get(row, i));
    }
  }

  /** The items of all rows, none of which is a list. */
  private static Tensor flatOf(List<Object> rows, DType dtype) {
    final Tensor flat = joined(rows);
    if (dtype == null || flat.dtype() == dtype) {
      return flat;
    }
    try (flat) {
      return flat.convert(dtype);
    }
  }

  private static Tensor joined(List<Object> rows) {
    final Class<?> type = rows.isEmpty() ? Object.class : rows.get(0).getClass();
    if (type.isArray() && type != Object[].class
        && rows.stream().allMatch(row -> row.getClass() == type)) {
      final int total = rows.stream().mapToInt(Array::getLength).sum();
      final Object all = Array.newInstance(type.getComponentType(), total);
      int at = 0;
      for (final Object row : rows) {
        System.arraycopy(row, 0, all, at, Array.getLength(row));
        at += Array.getLength(row);
      }
      final Tensor made = Value.tensorOf(all);
      if (made != null) {
        return made;
      }
    }
    final List<Object> items = new ArrayList<>();
    rows.forEach(row -> addItems(row, items));
    return items.isEmpty() ? Tensor.of(new float[0]) : vectorOf(items);
  }
}
