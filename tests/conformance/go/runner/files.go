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
	path      string
	databases int
}

// withPaths is a tree of ops with the paths of its files. `files` are contents, and stay as they
// are; a `database` is written, and becomes the path of that file.
func (c *caseFolder) withPaths(tree any) (made any, err error) {
	switch tree := tree.(type) {
	case fields:
		parts := fields{}
		for name, part := range tree {
			switch name {
			case "files":
				parts[name] = part
			case "database":
				parts[name], err = c.writeDatabase(part.(fields))
			default:
				parts[name], err = c.withPaths(part)
			}
			if err != nil {
				return nil, err
			}
		}
		return parts, nil
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

func (c *caseFolder) pathOf(name string) (string, error) {
	var err error
	if c.path == "" {
		c.path, err = os.MkdirTemp("", "tutti-conformance-case-")
	}
	return filepath.Join(c.path, name), err
}

func (c *caseFolder) writeDatabase(contents fields) (string, error) {
	bytes, err := hex.DecodeString(fmt.Sprint(contents["hex"]))
	if err != nil {
		return "", err
	}
	path, err := c.pathOf(fmt.Sprintf("database-%d", c.databases))
	if err != nil {
		return "", err
	}
	c.databases++
	return path, os.WriteFile(path, bytes, 0o600)
}

func (c *caseFolder) remove() {
	if c.path != "" {
		os.RemoveAll(c.path)
	}
}
