package tutti

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
)

// TestEveryExportedNameHasADocComment wants comments that begin with the name, as gofmt's readers
// expect; of a group of constants one comment for all.
func TestEveryExportedNameHasADocComment(t *testing.T) {
	set := token.NewFileSet()
	packages, err := parser.ParseDir(set, ".", func(file fs.FileInfo) bool {
		return !strings.HasSuffix(file.Name(), "_test.go")
	}, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	documented := doc.New(packages["tutti"], "tutti.dev/tutti", 0)
	count := 0
	begins := func(name, comment string, at token.Pos) {
		count++
		if !strings.HasPrefix(comment, name+" ") {
			t.Errorf("%v: the comment of %s is %q", set.Position(at), name, comment)
		}
	}
	functions := func(functions []*doc.Func) {
		for _, function := range functions {
			begins(function.Name, function.Doc, function.Decl.Pos())
		}
	}
	values := func(values []*doc.Value) {
		for _, value := range values {
			for _, spec := range value.Decl.Specs {
				spec := spec.(*ast.ValueSpec)
				if ast.IsExported(spec.Names[0].Name) && value.Doc == "" && spec.Doc.Text() == "" {
					t.Errorf("%v: %s has no comment", set.Position(spec.Pos()), spec.Names[0])
				}
			}
		}
	}
	if documented.Doc == "" {
		t.Error("the package has no comment")
	}
	values(documented.Consts)
	values(documented.Vars)
	functions(documented.Funcs)
	for _, kind := range documented.Types {
		begins(kind.Name, kind.Doc, kind.Decl.Pos())
		values(kind.Consts)
		values(kind.Vars)
		functions(kind.Funcs)
		functions(kind.Methods)
	}
	if count < 200 {
		t.Errorf("only %d exported names were seen", count)
	}
}
