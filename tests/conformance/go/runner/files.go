package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"tutti.dev/tutti"
)

var files struct {
	sync.Mutex // guards the map: workers share the files
	folder     string
	paths      map[string][]string
}

// recordFiles are TFRecord files of numbers; the same lists give the same files.
func recordFiles(lists []any) ([]string, error) {
	files.Lock()
	defer files.Unlock()
	key := fmt.Sprint(lists)
	if paths, ok := files.paths[key]; ok {
		return paths, nil
	}
	var paths []string
	for i, list := range lists {
		path := filepath.Join(files.folder, fmt.Sprintf("%d-%d", len(files.paths), i))
		writer, err := tutti.NewRecordWriter(path)
		if err != nil {
			return nil, err
		}
		for _, item := range list.([]any) {
			var record [8]byte
			binary.LittleEndian.PutUint64(record[:], uint64(integer(fields{"i": item}, "i", 0)))
			if _, err := writer.Write(record[:]); err != nil {
				return nil, err
			}
		}
		if err := writer.Close(); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	files.paths[key] = paths
	return paths, nil
}

// caseFolder is the folder of one case: "@/x" in a case is the file x in it. It is made when the
// first path in it is asked for, and removed with all that is in it.
type caseFolder struct {
	path  string
	count int // of files and folders that were made
}

// withPaths is a tree of ops with the paths of its files in the place of their contents, a
// `database` being a file, too. `records` says what numbers are in its files, which recordFiles
// writes.
func (c *caseFolder) withPaths(tree any) (made any, err error) {
	switch tree := tree.(type) {
	case fields:
		parts := fields{}
		for name, part := range tree {
			switch name {
			case "files":
				parts[name] = part
			case "database":
				parts[name], err = c.file(part)
			default:
				parts[name], err = c.withPaths(part)
			}
			if err != nil {
				return nil, err
			}
		}
		switch contents := tree["files"].(type) {
		case []any:
			if tree["op"] != "records" {
				parts["files"], err = c.files(contents)
			}
		case fields:
			delete(parts, "files")
			parts["file_pattern"], err = c.patterns(contents, tree["file_pattern"])
		}
		return parts, err
	case []any:
		items := make([]any, len(tree))
		for i, item := range tree {
			if items[i], err = c.withPaths(item); err != nil {
				return nil, err
			}
		}
		return items, nil
	case string:
		if !strings.HasPrefix(tree, "@/") {
			return tree, nil
		}
		return c.pathOf(tree[2:])
	}
	return tree, nil
}

func (c *caseFolder) pathOf(name string) (path string, err error) {
	if c.path == "" {
		if c.path, err = os.MkdirTemp("", "tutti-conformance-case-"); err != nil {
			return "", err
		}
	}
	return filepath.Join(c.path, name), nil
}

func (c *caseFolder) newPath() (string, error) {
	c.count++
	return c.pathOf(fmt.Sprintf("made-%d", c.count))
}

// files have these contents, one each.
func (c *caseFolder) files(contents []any) (paths []any, err error) {
	for _, content := range contents {
		path, err := c.file(content)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// file has these contents; "@/x" is a path.
func (c *caseFolder) file(contents any) (string, error) {
	if text, ok := contents.(string); ok && strings.HasPrefix(text, "@/") {
		return c.pathOf(text[2:])
	}
	path, err := c.newPath()
	if err != nil {
		return "", err
	}
	return path, writeContents(path, contents)
}

// patterns in a folder of files by name.
func (c *caseFolder) patterns(contents fields, patterns any) (made []any, err error) {
	folder, err := c.newPath()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	for name, content := range contents {
		if err := writeContents(filepath.Join(folder, name), content); err != nil {
			return nil, err
		}
	}
	all, ok := patterns.([]any)
	if !ok {
		all = []any{patterns}
	}
	for _, pattern := range all {
		made = append(made, filepath.Join(folder, pattern.(string)))
	}
	return made, nil
}

// writeContents writes a text, or {"hex": bytes}.
func writeContents(path string, contents any) error {
	bytes := []byte(nil)
	switch contents := contents.(type) {
	case string:
		bytes = []byte(contents)
	case fields:
		decoded, err := hex.DecodeString(contents["hex"].(string))
		if err != nil {
			return err
		}
		bytes = decoded
	}
	return os.WriteFile(path, bytes, 0o600)
}

// strings of a list.
func texts(list any) []string {
	var made []string
	for _, text := range list.([]any) {
		made = append(made, text.(string))
	}
	return made
}

// readFiles is a reader of files that exist.
func readFiles(r *tutti.Runtime, node fields) (*tutti.Dataset, error) {
	if err := known(node, "op", "files", "record_bytes", "header_bytes", "footer_bytes",
		"compression_type", "buffer_size", "num_parallel_reads"); err != nil {
		return nil, err
	}
	options := []tutti.Option{tutti.WithBufferSize(integer(node, "buffer_size", 0)),
		tutti.WithParallelReads(int(integer(node, "num_parallel_reads", 0)))}
	if name, ok := node["compression_type"].(string); ok {
		compression, known := map[string]tutti.Compression{
			"GZIP": tutti.Gzip, "ZLIB": tutti.Zlib}[name]
		if !known {
			compression = tutti.Zlib + 1 // one that there is not
		}
		options = append(options, tutti.WithCompression(compression))
	}
	paths, err := pathsIn(node)
	if err != nil {
		return nil, err
	}
	names, err := namesOf(r, paths)
	if err != nil {
		return nil, err
	}
	defer names.Close()
	switch node["op"] {
	case "text_lines":
		return r.TextLinesOf(names, options...), nil
	case "fixed_length_records":
		return r.FixedLengthRecords(names, integer(node, "record_bytes", 0),
			append(options, tutti.WithHeader(integer(node, "header_bytes", 0),
				integer(node, "footer_bytes", 0)))...), nil
	}
	return numbersOf(r.TFRecordsOf(names, options...))
}

// pathsIn are those of the node's files.
func pathsIn(node fields) ([]string, error) {
	if node["op"] == "records" {
		return recordFiles(node["files"].([]any))
	}
	return texts(node["files"]), nil
}

// namesOf is a dataset of paths.
func namesOf(r *tutti.Runtime, paths []string) (*tutti.Dataset, error) {
	value, err := valueOf(&array{dtype: tutti.Bytes, shape: []int64{int64(len(paths))},
		texts: paths})
	if err != nil {
		return nil, err
	}
	defer value.Close()
	return r.FromTensorSlices(value), nil
}

// numbersOf are the numbers that records hold.
func numbersOf(records *tutti.Dataset) (*tutti.Dataset, error) {
	scalar, err := tutti.TensorSpec(tutti.Int64)
	if err != nil {
		return nil, err
	}
	return records.Map(func(record tutti.Value) (tutti.Value, error) {
		text, err := record.Text()
		if err != nil {
			return tutti.Value{}, err
		}
		return tutti.OfInt64(int64(binary.LittleEndian.Uint64([]byte(text))))
	}, tutti.WithOutput(scalar)), nil
}

func (c *caseFolder) remove() {
	if c.path != "" {
		os.RemoveAll(c.path)
	}
}
