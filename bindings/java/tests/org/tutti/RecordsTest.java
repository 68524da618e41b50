package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.tutti.DatasetTest.numbers;
import static org.tutti.DatasetTest.texts;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.tutti.data.Compression;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.DatasetIterator;
import org.tutti.data.FixedLengthRecordDataset;
import org.tutti.data.SqlDataset;
import org.tutti.data.TFRecordDataset;
import org.tutti.data.TFRecordWriter;
import org.tutti.data.TextLineDataset;

/** Datasets of files, and writing them. */
class RecordsTest {
  @Test
  void linesOfCommaSeparatedValuesAreDecoded() {
    try (Tensor none = Tensor.of(new String[] {"?"}).reshape();
         DatasetFunction decode = DatasetFunction.decodeCsv(
             List.of(new DatasetFunction.CsvColumn("n", DType.INT64, null),
                 new DatasetFunction.CsvColumn(DType.BYTES, none)));
         DatasetFunction some = DatasetFunction.decodeCsv(
             List.of(new DatasetFunction.CsvColumn(DType.INT64)),
             new DatasetFunction.CsvFormat("|", false, "NA", 1))) {
      final List<String> rows = new ArrayList<>();
      for (final Value row :
          Dataset.fromTensorSlices(new String[] {"1,\"a, b\"", "2,"}).map(decode)) {
        rows.add(row.get(0).longValue() + textOf(row.get(1).asTensor()));
      }
      assertEquals(List.of("1a, b", "2?"), rows);
      for (final Value row : Dataset.fromTensorSlices(new String[] {"a|5|\"b"}).map(some)) {
        assertEquals(5, row.get(0).longValue());
      }
      try (DatasetIterator wrong =
               Dataset.fromTensorSlices(new String[] {"x,"}).map(decode).iterator()) {
        final TuttiException failed =
            assertThrows(TuttiException.InvalidArgument.class, wrong::next);
        assertTrue(failed.getMessage().contains("decode_csv: field 0 (\"n\") is 'x'"),
            failed.getMessage());
      }
    }
    assertThrows(TuttiException.InvalidArgument.class, () -> DatasetFunction.decodeCsv(List.of()));
  }

  @Test
  void sequenceExamplesHaveContextAndLists() {
    // {"x": [1, 2, nothing]} as a feature list.
    final byte[] record = {18, 23, 10, 21, 10, 1, 'x', 18, 16, 10, 5, 26, 3, 10, 1, 1, 10, 5, 26, 3,
        10, 1, 2, 10, 0};
    try (DatasetFunction parse = DatasetFunction.parseSequenceExample(
             Map.of("id", new DatasetFunction.Feature(DType.INT64, new long[0], Tensor.scalar(4L))),
             Map.of("x",
                 new DatasetFunction.Feature(DType.INT64, new long[0], Tensor.scalar(9L))));
         Tensor bytes = Tensor.of(new byte[][] {record}, 1);
         DatasetIterator iterator = Dataset.fromTensorSlices(bytes).map(parse).iterator()) {
      final Value row = iterator.next();
      assertEquals(4, row.get(0).get("id").longValue());
      assertArrayEquals(new long[] {1, 2, 9}, row.get(1).get("x").asTensor().toLongArray());
    }
    final Map<String, DatasetFunction.Feature> sparse =
        Map.of("x", DatasetFunction.Feature.varLen(DType.INT64));
    final Map<String, DatasetFunction.Feature> ragged =
        Map.of("x", DatasetFunction.Feature.ragged(DType.INT64));
    try (DatasetFunction ofSparse = DatasetFunction.parseSequenceExample(sparse, sparse);
         DatasetFunction ofRagged = DatasetFunction.parseSequenceExample(ragged, ragged);
         Tensor bytes = Tensor.of(new byte[][] {record}, 1);
         DatasetIterator rows = Dataset.fromTensorSlices(bytes).map(ofSparse).iterator();
         DatasetIterator others = Dataset.fromTensorSlices(bytes).map(ofRagged).iterator()) {
      assertEquals("({'x': tutti.SparseTensor(indices=[], values=[], dense_shape=[0])}, "
              + "{'x': tutti.SparseTensor(indices=[[0 0] [1 0]], values=[1 2], "
              + "dense_shape=[3 1])})",
          rows.next().toString());
      assertEquals("({'x': []}, {'x': tutti.RaggedTensor(values=[1 2], row_splits=[0 1 2 2])})",
          others.next().toString());
    }
    assertEquals(Code.INVALID_ARGUMENT, assertThrows(TuttiException.class,
        () -> DatasetFunction.parseSequenceExample(Map.of(),
            Map.of("x", DatasetFunction.Feature.sequence(DType.INT64, null)))).code());
  }

  // The example of the reference's page.
  @Test
  void recordsAreShardedByGroupByWindow(@TempDir Path folder) throws IOException {
    final String[] words = {"word 0", "word 1", "word 2", "word 3", "word 4", "word 5", "word 6"};
    final Dataset dataset = Dataset.fromTensorSlices(words).enumerate(0).groupByWindow(
        x -> x.get(0).longValue() % 3,
        (key, window) -> {
          try (Tensor prefix = Tensor.of(new String[] {folder + "/part-"});
               Tensor number = key.asTensor().asStrings();
               Tensor filename = Tensor.joinStrings("", prefix, number)) {
            try (TFRecordWriter writer = new TFRecordWriter(textOf(filename))) {
              writer.write(window.map(x -> x.get(1)));
            }
            return Dataset.fromTensors(filename);
          }
        }, Long.MAX_VALUE);
    assertEquals(Spec.tensor(DType.BYTES, 1), dataset.elementSpec());
    try (var files = Files.list(folder)) {
      assertEquals(0, files.count());
    }
    long shard = 0;
    for (final Value filename : dataset) {
      final String path = textOf(filename.asTensor());
      assertEquals(folder + "/part-" + shard, path);
      final List<String> expected = new ArrayList<>();
      for (int i = (int) shard; i < words.length; i += 3) {
        expected.add(words[i]);
      }
      assertEquals(expected, texts(TFRecordDataset.of(path)));
      ++shard;
    }
    assertEquals(3, shard);
    final Dataset nowhere = Dataset.range(1).flatMap(x -> {
      try (TFRecordWriter writer = new TFRecordWriter(folder + "/none/file")) {
        writer.write(Dataset.fromTensorSlices(words));
      }
      return Dataset.range(2);
    });
    try (DatasetIterator iterator = nowhere.iterator()) {
      final TuttiException failed =
          assertThrows(TuttiException.NotFound.class, iterator::next);
      assertTrue(failed.getMessage().contains("before the first element"), failed.getMessage());
      assertEquals(1, iterator.next().longValue());
      assertFalse(iterator.hasNext());
    }
    assertThrows(TuttiException.FailedPrecondition.class, () -> numbers(Dataset.range(1).map(x -> {
      try (TFRecordWriter writer = new TFRecordWriter(folder + "/x")) {
        writer.write(Dataset.fromTensorSlices(words));
      }
      return x;
    })));
  }

  private static String textOf(Tensor texts) {
    try (Value value = Value.of(texts.reshape())) {
      return value.stringValue();
    }
  }

  @Test
  void textsAreMadeOfNumbersAndTensorsOfBytes() {
    try (Tensor floats = Tensor.of(new float[] {1.5f});
         Tensor plain = floats.asStrings();
         Tensor formed = floats.asStrings(
             new Tensor.TextFormat().precision(1).scientific().width(9, "0"));
         Tensor shortest = floats.asStrings(new Tensor.TextFormat().shortest());
         Tensor joined = Tensor.joinStrings(" ", plain, formed, shortest);
         Tensor bytes = floats.serialize();
         Tensor again = Tensor.parse(bytes, DType.FLOAT32)) {
      assertEquals("1.500000 001.5e+00 1.5", textOf(joined));
      assertArrayEquals(new float[] {1.5f}, again.toFloatArray());
      final TuttiException other = assertThrows(
          TuttiException.InvalidArgument.class, () -> Tensor.parse(bytes, DType.INT64));
      assertTrue(other.getMessage().contains("out_type is int64"), other.getMessage());
      assertThrows(TuttiException.InvalidArgument.class, () -> Tensor.joinStrings(""));
      assertThrows(TuttiException.InvalidArgument.class,
          () -> floats.asStrings(new Tensor.TextFormat().width(4, "x")));
    }
  }

  @Test
  void readersTakeANumberOfParallelReads() {
    try (Dataset none = Dataset.fromTensorSlices(new String[0])) {
      assertEquals(List.of(), texts(TFRecordDataset.of(none, Compression.NONE, 0, 2, null)));
      assertEquals(List.of(), texts(FixedLengthRecordDataset.of(
          none, 2, 0, 0, Compression.NONE, 0, Dataset.AUTOTUNE, null)));
      assertThrows(TuttiException.InvalidArgument.class,
          () -> TFRecordDataset.of(none, Compression.NONE, 0, -2, null));
      assertThrows(TuttiException.InvalidArgument.class,
          () -> FixedLengthRecordDataset.of(none, 2, 0, 0, Compression.NONE, 0, -2, null));
    }
    assertEquals(List.of(), texts(TFRecordDataset.of()));
  }

  @Test
  void rowsOfADatabaseAreTuples(@TempDir Path folder) throws IOException {
    final String path = Files.createFile(folder.resolve("rows.db")).toString(); // has no tables
    final Dataset rows = SqlDataset.of("sqlite", path,
        "values (7, 'ada'), (70000, ''), (8, null)", DType.INT16, DType.BYTES);
    assertEquals("(int16[], bytes[])", rows.elementSpec().toString());
    assertEquals(Dataset.UNKNOWN, rows.cardinality());
    try (DatasetIterator iterator = rows.iterator()) {
      assertEquals("(7, \"ada\")", iterator.next().toString());
      assertThrows(TuttiException.InvalidArgument.class, iterator::next);
      assertEquals("(8, \"\")", iterator.next().toString());
      assertFalse(iterator.hasNext());
    }
    final TuttiException refused = assertThrows(TuttiException.InvalidArgument.class,
        () -> SqlDataset.of("mysql", path, "select 1", List.of(DType.INT16), "people"));
    assertTrue(refused.getMessage().contains("sql 'people'"), refused.getMessage());
    assertThrows(TuttiException.NotFound.class,
        () -> SqlDataset.of("sqlite", path + ".none", "select 1", DType.INT16).iterator().next());
    final TuttiException wrong = assertThrows(TuttiException.InvalidArgument.class,
        () -> SqlDataset.of("sqlite", path, "selec 1", DType.INT16).iterator().next());
    assertTrue(wrong.getMessage().contains("syntax error"), wrong.getMessage());
  }

  @Test
  void recordsAreWrittenAndRead(@TempDir Path folder) {
    final String path = folder.resolve("grüße.tfrecord").toString();
    try (TFRecordWriter writer = new TFRecordWriter(path, Compression.GZIP, 9)) {
      writer.write("one".getBytes());
      writer.write(Dataset.fromTensorSlices(new String[] {"two", ""}));
    }
    try (Dataset names = Dataset.fromTensorSlices(new String[] {path})) {
      assertEquals(List.of("one", "two", ""),
          texts(TFRecordDataset.of(names, Compression.GZIP, 0)));
      assertThrows(TuttiException.DataLoss.class, () -> texts(TFRecordDataset.of(names)));
      assertEquals(1, FixedLengthRecordDataset.of(names, 4).take(1).iterator().next().asTensor()
                          .elementCount());
    }
    final TuttiException missing = assertThrows(
        TuttiException.NotFound.class, () -> texts(TFRecordDataset.of(folder + "/none")));
    assertTrue(missing.getMessage().contains("none"), missing.getMessage());
    assertEquals(List.of(path), texts(Dataset.listFiles(folder + "/*.tfrecord")));
  }

  @Test
  void linesAreRead(@TempDir Path folder) throws IOException {
    final String path = folder.resolve("grüße.txt").toString();
    Files.writeString(Path.of(path), "one\r\n\ngrüße\r\r\nlast");
    final List<String> lines = List.of("one", "", "grüße\r", "last");
    assertEquals(lines, texts(TextLineDataset.of(path)));
    try (Dataset names = Dataset.fromTensorSlices(new String[] {path, folder + "/none", path})) {
      final Dataset dataset = TextLineDataset.of(names, Compression.NONE, 2, 0, "lines");
      final DatasetIterator iterator = dataset.iterator();
      for (final String line : lines) {
        assertEquals(line, iterator.next().stringValue());
      }
      final TuttiException missing =
          assertThrows(TuttiException.NotFound.class, iterator::next);
      assertTrue(missing.getMessage().contains("text_line"), missing.getMessage());
      final DatasetIterator again = dataset.iterator();
      again.restore(iterator.save());
      for (final String line : lines) {
        assertEquals(line, iterator.next().stringValue());
        assertEquals(line, again.next().stringValue());
      }
      assertFalse(again.hasNext());
      assertThrows(TuttiException.DataLoss.class,
          () -> texts(TextLineDataset.of(names, Compression.GZIP, 0)));
    }
    assertEquals(List.of(), texts(TextLineDataset.of()));
  }

  @Test
  void recordsOfFilesThatAreReadAtATimeComeInTurn(@TempDir Path folder) throws IOException {
    final String[] paths = new String[3];
    for (int i = 0; i < 3; ++i) {
      paths[i] = folder.resolve("part-" + i).toString();
      Files.writeString(Path.of(paths[i]), i + "a" + i + "b");
    }
    final List<String> inTurn = List.of("0a", "1a", "0b", "1b", "2a", "2b");
    try (Dataset names = Dataset.fromTensorSlices(paths)) {
      final Dataset fixed =
          FixedLengthRecordDataset.of(names, 2, 0, 0, Compression.NONE, 0, 2, null);
      assertEquals(inTurn, texts(fixed));
      try (DatasetIterator iterator = fixed.iterator(); DatasetIterator again = fixed.iterator()) {
        iterator.next();
        again.restore(iterator.save());
        for (final String text : inTurn.subList(1, 6)) {
          assertEquals(text, again.next().stringValue());
        }
      }
      for (final String path : paths) {
        Files.writeString(Path.of(path), Files.readString(Path.of(path)).replace("a", "a\n"));
      }
      assertEquals(List.of("0a", "1a", "0b", "1b", "2a", "2b"),
          texts(TextLineDataset.of(names, Compression.NONE, 0, 2, null)));
    }
  }

  @Test
  void anAbandonedFileLeavesWhatWasThere(@TempDir Path folder) {
    final String path = folder.resolve("a.tfrecord").toString();
    try (TFRecordWriter writer = new TFRecordWriter(path)) {
      writer.write("old".getBytes());
    }
    try (TFRecordWriter writer = new TFRecordWriter(path)) {
      writer.write("new".getBytes());
      writer.abandon();
    }
    assertEquals(List.of("old"), texts(TFRecordDataset.of(path)));
    assertArrayEquals(new String[] {"a.tfrecord"}, folder.toFile().list());
  }
}
