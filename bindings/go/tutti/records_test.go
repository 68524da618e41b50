package tutti

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The example of the reference's page.
func TestRecordsAreShardedByGroupByWindow(t *testing.T) {
	folder := t.TempDir()
	words := []string{"word 0", "word 1", "word 2", "word 3", "word 4", "word 5", "word 6"}
	texts := must[*Tensor](t)(StringTensor(words))
	defer texts.Close()
	slices := must[Value](t)(OfTensor(texts))
	defer slices.Close()
	third := func(element Value) (int64, error) {
		index, err := element.At(0)
		if err != nil {
			return 0, err
		}
		number, err := index.Int64()
		return number % 3, err
	}
	write := func(key int64, window *Dataset) (*Dataset, error) {
		prefix := must[*Tensor](t)(StringTensor([]string{folder + "/part-"}))
		defer prefix.Close()
		number := must[*Tensor](t)(TensorOf([]int64{key}))
		defer number.Close()
		text := must[*Tensor](t)(number.AsStrings(TextFormat{}))
		defer text.Close()
		filename := must[*Tensor](t)(JoinStrings("", prefix, text))
		defer filename.Close()
		writer, err := NewRecordWriter(must[[]string](t)(filename.Strings())[0])
		if err != nil {
			return nil, err
		}
		defer writer.Close()
		second := func(element Value) (Value, error) { return element.At(1) }
		if err := writer.WriteDataset(nil, window.Map(second)); err != nil {
			return nil, err
		}
		name := must[Value](t)(OfTensor(filename))
		defer name.Close()
		return FromTensors(name), nil
	}
	dataset := FromTensorSlices(slices).Enumerate(0).GroupByWindow(third, write, math.MaxInt64)
	must[*Spec](t)(dataset.ElementSpec(nil))
	if files := must[[]os.DirEntry](t)(os.ReadDir(folder)); len(files) != 0 {
		t.Fatal(files)
	}
	iterator := must[*Iterator](t)(dataset.Iterator(nil))
	defer iterator.Close()
	for shard := 0; shard < 3; shard++ {
		if !iterator.Next() {
			t.Fatal(iterator.Err())
		}
		path := fmt.Sprintf("%s/part-%d", folder, shard)
		names := must[[]string](t)(must[*Tensor](t)(iterator.Value().Tensor()).Strings())
		if names[0] != path {
			t.Error(names)
		}
		records := must[*Iterator](t)(TFRecords(path).Iterator(nil))
		var found []string
		for records.Next() {
			found = append(found, must[string](t)(records.Value().Text()))
		}
		records.Close()
		var expected []string
		for i := shard; i < len(words); i += 3 {
			expected = append(expected, words[i])
		}
		if !reflect.DeepEqual(found, expected) {
			t.Error(found, records.Err())
		}
	}
	if iterator.Next() || iterator.Err() != nil {
		t.Error(iterator.Err())
	}
	nowhere := Range(0, 1, 1).FlatMap(func(Value) (*Dataset, error) {
		writer, err := NewRecordWriter(folder + "/none/file")
		if err != nil {
			return nil, err
		}
		defer writer.Close()
		return Range(0, 2, 1), writer.WriteDataset(nil, FromTensorSlices(slices))
	})
	failing := must[*Iterator](t)(nowhere.Iterator(nil))
	defer failing.Close()
	if failing.Next() {
		t.Error(failing.Value())
	}
	wants(t, failing.Err(), ErrNotFound)
	if !failing.Next() || must[int64](t)(failing.Value().Int64()) != 1 || failing.Next() {
		t.Error(failing.Err())
	}
	mapped := must[*Iterator](t)(Range(0, 1, 1).Map(func(element Value) (Value, error) {
		_, err := NewRecordWriter(folder + "/x")
		return element, err
	}).Iterator(nil))
	defer mapped.Close()
	if mapped.Next() {
		t.Error(mapped.Value())
	}
	wants(t, mapped.Err(), ErrFailedPrecondition)
}

func TestTextsAreMadeOfNumbersAndTensorsOfBytes(t *testing.T) {
	floats := must[*Tensor](t)(TensorOf([]float32{1.5, -2}))
	defer floats.Close()
	one := 1
	formed := must[*Tensor](t)(floats.AsStrings(TextFormat{Precision: &one, Width: 5, Fill: "0"}))
	defer formed.Close()
	shortest := must[*Tensor](t)(floats.AsStrings(TextFormat{Shortest: true}))
	defer shortest.Close()
	joined := must[*Tensor](t)(JoinStrings(" ", formed, shortest))
	defer joined.Close()
	if got := must[[]string](t)(joined.Strings()); !reflect.DeepEqual(
		got, []string{"001.5 1.5", "-02.0 -2"}) {
		t.Error(got)
	}
	bytes := must[*Tensor](t)(floats.Serialize())
	defer bytes.Close()
	again := must[*Tensor](t)(ParseTensor(bytes, Float32))
	defer again.Close()
	if !again.Equal(floats) {
		t.Error(again)
	}
	_, err := ParseTensor(bytes, Int64)
	wants(t, err, ErrInvalidArgument)
	_, err = JoinStrings("")
	wants(t, err, ErrInvalidArgument)
	_, err = JoinStrings("", floats)
	wants(t, err, ErrInvalidArgument)
	_, err = JoinStrings("", nil)
	wants(t, err, ErrInvalidArgument)
	_, err = floats.AsStrings(TextFormat{Scientific: true, Shortest: true})
	wants(t, err, ErrInvalidArgument)
}

func TestReadersTakeANumberOfParallelReads(t *testing.T) {
	none := defaultRuntime.names(nil)
	for _, dataset := range []*Dataset{TFRecords(), TFRecordsOf(none, WithParallelReads(2)),
		FixedLengthRecords(none, 2, WithParallelReads(Autotune))} {
		iterator := must[*Iterator](t)(dataset.Iterator(nil))
		if iterator.Next() || iterator.Err() != nil {
			t.Fatal(iterator.Err())
		}
		iterator.Close()
	}
	wants(t, TFRecordsOf(none, WithParallelReads(-2)).Err(), ErrInvalidArgument)
	wants(t, FixedLengthRecords(none, 2, WithParallelReads(-2)).Err(), ErrInvalidArgument)
	wants(t, TextLinesOf(none, WithParallelReads(-2)).Err(), ErrInvalidArgument)
}

func TestRecordsOfFilesThatAreReadAtATimeComeInTurn(t *testing.T) {
	var paths []string
	for i, content := range []string{"0a\n0b", "1a\n1b", "2a\n2b"} {
		paths = append(paths, filepath.Join(t.TempDir(), "part"))
		if err := os.WriteFile(paths[i], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := TextLinesOf(defaultRuntime.names(paths), WithParallelReads(2))
	iterator := must[*Iterator](t)(lines.Iterator(nil))
	defer iterator.Close()
	again := must[*Iterator](t)(lines.Iterator(nil))
	defer again.Close()
	for i, want := range []string{"0a", "1a", "0b", "1b", "2a", "2b"} {
		if i > 0 { // from the position of the other one
			if err := again.Restore(nil, must[[]byte](t)(iterator.Save(nil))); err != nil {
				t.Fatal(err)
			}
			if !again.Next() || must[string](t)(again.Value().Text()) != want {
				t.Fatal(i, again.Err())
			}
		}
		if !iterator.Next() || must[string](t)(iterator.Value().Text()) != want {
			t.Fatal(i, iterator.Err())
		}
	}
	if iterator.Next() || iterator.Err() != nil {
		t.Error(iterator.Err())
	}
}

func TestRecordsOfCommaSeparatedValuesAreDecoded(t *testing.T) {
	none := must[*Tensor](t)(must[*Tensor](t)(StringTensor([]string{"?"})).Reshape())
	defer none.Close()
	decode := DecodeCSV([]CSVColumn{{DType: Int64, Name: "n"}, {DType: Bytes, Default: none}},
		CSVOptions{})
	defer decode.Close()
	some := DecodeCSV([]CSVColumn{{DType: Int64}},
		CSVOptions{FieldDelim: "|", NoQuotes: true, NAValue: "NA", SelectCols: []int64{1}})
	defer some.Close()
	read := func(function *Function, lines ...string) (string, error) {
		tensor := must[*Tensor](t)(StringTensor(lines))
		defer tensor.Close()
		dataset := FromTensorSlices(must[Value](t)(OfTensor(tensor))).MapWith(function)
		defer dataset.Close()
		iterator := must[*Iterator](t)(dataset.Iterator(nil))
		defer iterator.Close()
		var got []string
		for iterator.Next() {
			got = append(got, iterator.Value().String())
		}
		return strings.Join(got, " "), iterator.Err()
	}
	got, err := read(decode, "1,\"a, b\"", "2,")
	if err != nil || !strings.Contains(got, "a, b") || !strings.Contains(got, "?") {
		t.Fatal(got, err)
	}
	if got, err = read(some, "a|5|\"b"); err != nil || !strings.Contains(got, "5") {
		t.Fatal(got, err)
	}
	_, err = read(decode, "x,")
	says(t, err, `map: element 0: decode_csv: field 0 ("n") is 'x', which is no int64`)
	wrong := DecodeCSV(nil, CSVOptions{})
	defer wrong.Close()
	_, err = wrong.use()
	says(t, err, "no columns")
}

func TestSequenceExamplesHaveContextAndLists(t *testing.T) {
	// {"x": [1, 2, nothing]} as a feature list.
	record := string([]byte{18, 23, 10, 21, 10, 1, 'x', 18, 16, 10, 5, 26, 3, 10, 1, 1, 10, 5, 26, 3,
		10, 1, 2, 10, 0})
	nine := must[*Tensor](t)(TensorOf([]int64{9}))
	defer nine.Close()
	scalar := must[*Tensor](t)(nine.Reshape())
	defer scalar.Close()
	parse := ParseSequenceExample(map[string]Feature{"id": {DType: Int64, Default: scalar}},
		map[string]Feature{"x": {DType: Int64, Default: scalar}})
	defer parse.Close()
	records := must[*Tensor](t)(StringTensor([]string{record}))
	defer records.Close()
	dataset := FromTensorSlices(must[Value](t)(OfTensor(records))).MapWith(parse)
	defer dataset.Close()
	iterator := must[*Iterator](t)(dataset.Iterator(nil))
	defer iterator.Close()
	if !iterator.Next() {
		t.Fatal(iterator.Err())
	}
	x := must[[]int64](t)(Slice[int64](must[*Tensor](t)(iterator.Value().TensorAt("1/x"))))
	if !reflect.DeepEqual(x, []int64{1, 2, 9}) {
		t.Fatal(x)
	}
	source := slicesDataset(t, record)
	for kind, want := range map[FeatureKind]string{
		VarLenFeature: "({'x': tutti.SparseTensor(indices=[], values=[], dense_shape=[0])}, " +
			"{'x': tutti.SparseTensor(indices=[[0 0] [1 0]], values=[1 2], dense_shape=[3 1])})",
		RaggedFeature: "({'x': []}, {'x': tutti.RaggedTensor(values=[1 2], row_splits=[0 1 2 2])})",
	} {
		features := map[string]Feature{"x": {DType: Int64, Kind: kind}}
		longer := ParseSequenceExample(features, features)
		got := printedOf(t, source.MapWith(longer))
		longer.Close()
		if !reflect.DeepEqual(got, []string{want}) {
			t.Error(kind, got)
		}
	}
	wrong := ParseSequenceExample(nil,
		map[string]Feature{"x": {DType: Int64, Kind: SequenceFeature}})
	defer wrong.Close()
	_, err := wrong.use()
	says(t, err, "a sequence of sequences")
}

func TestLinesOfTextFiles(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "lines.txt")
	if err := os.WriteFile(path, []byte("one\r\n\nthree\r\r\nlast"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := []string{"one", "", "three\r", "last"}
	read := func(iterator *Iterator) []string {
		var got []string
		for iterator.Next() {
			got = append(got, must[string](t)(iterator.Value().Text()))
		}
		return got
	}
	iterator := must[*Iterator](t)(TextLines(path).Iterator(nil))
	if got := read(iterator); !reflect.DeepEqual(got, lines) || iterator.Err() != nil {
		t.Fatal(got, iterator.Err())
	}
	iterator.Close()
	names := defaultRuntime.names([]string{path, filepath.Join(folder, "none"), path})
	dataset := TextLinesOf(names, WithBufferSize(2), WithName("lines"))
	iterator = must[*Iterator](t)(dataset.Iterator(nil))
	defer iterator.Close()
	if got := read(iterator); !reflect.DeepEqual(got, lines) {
		t.Fatal(got)
	}
	wants(t, iterator.Err(), ErrNotFound)
	again := must[*Iterator](t)(dataset.Iterator(nil))
	defer again.Close()
	if err := again.Restore(nil, must[[]byte](t)(iterator.Save(nil))); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*Iterator{iterator, again} {
		if got := read(one); !reflect.DeepEqual(got, lines) || one.Err() != nil {
			t.Fatal(got, one.Err())
		}
	}
	packed := must[*Iterator](t)(TextLinesOf(names, WithCompression(Gzip)).Iterator(nil))
	defer packed.Close()
	if packed.Next() {
		t.Error("a text is no gzip")
	}
	wants(t, packed.Err(), ErrDataLoss)
}

func TestRowsOfADatabaseAreTuples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // a database without tables
		t.Fatal(err)
	}
	rows := SQLRows("sqlite", path, "values (7, 'ada'), (70000, ''), (8, null)",
		[]DType{Int16, Bytes})
	spec := must[*Spec](t)(rows.ElementSpec(nil))
	if spec.String() != "(int16[], bytes[])" || rows.Cardinality() != UnknownCardinality {
		t.Fatal(spec)
	}
	iterator := must[*Iterator](t)(rows.Iterator(nil))
	defer iterator.Close()
	for _, want := range []string{"(7, \"ada\")", "", "(8, \"\")"} {
		if want == "" {
			if iterator.Next() {
				t.Fatal("70000 fits no int16")
			}
			wants(t, iterator.Err(), ErrInvalidArgument)
			continue
		}
		if !iterator.Next() || iterator.Value().String() != want {
			t.Fatal(iterator.Err())
		}
	}
	wants(t, SQLRows("mysql", path, "select 1", []DType{Int16}).Err(), ErrInvalidArgument)
	wants(t, SQLRows("sqlite", path, "select 1", nil).Err(), ErrInvalidArgument)
	for err, dataset := range map[Code]*Dataset{
		ErrNotFound:        SQLRows("sqlite", path+".none", "select 1", []DType{Int16}),
		ErrInvalidArgument: SQLRows("sqlite", path, "selec 1", []DType{Int16})} {
		broken := must[*Iterator](t)(dataset.Iterator(nil))
		if broken.Next() {
			t.Fatal("there is a row")
		}
		wants(t, broken.Err(), err)
		broken.Close()
	}
}

func TestAnAbandonedFileLeavesWhatWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	write := func(text string) *RecordWriter {
		writer := must[*RecordWriter](t)(NewRecordWriter(path))
		if _, err := writer.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return writer
	}
	if err := write("old").Close(); err != nil {
		t.Fatal(err)
	}
	writer := write("new")
	if err := writer.Abandon(); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	iterator := must[*Iterator](t)(TFRecords(path).Iterator(nil))
	defer iterator.Close()
	if !iterator.Next() || must[string](t)(iterator.Value().Text()) != "old" {
		t.Fatal(iterator.Err())
	}
}

func TestRecordsAreWrittenAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	writer := must[*RecordWriter](t)(NewRecordWriter(path, WithCompression(Gzip)))
	for _, record := range []string{"one", "", "three"} {
		if _, err := writer.Write([]byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := writer.Write(nil)
	wants(t, err, ErrFailedPrecondition)
	iterator := must[*Iterator](t)(TFRecordsOf(ListFiles([]string{path}),
		WithCompression(Gzip)).Iterator(nil))
	defer iterator.Close()
	var records []string
	for iterator.Next() {
		records = append(records, must[string](t)(iterator.Value().Text()))
	}
	if !reflect.DeepEqual(records, []string{"one", "", "three"}) || iterator.Err() != nil {
		t.Fatal(records, iterator.Err())
	}
	missing := must[*Iterator](t)(TFRecords(path + "-not").Iterator(nil))
	defer missing.Close()
	if missing.Next() {
		t.Fatal("a file that is not there")
	}
	wants(t, missing.Err(), ErrNotFound)
}
