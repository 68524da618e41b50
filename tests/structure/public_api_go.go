// Prints the public interface of a Go module's packages, a line for each name.
//
//	go run public_api_go.go FOLDER
//
// Packages under internal and testdata, tests and package main are left out. What a type that is
// not exported brings into a struct that embeds it reads as the struct's own.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

type reader struct {
	files   *token.FileSet
	info    types.Info
	name    string                     // of the package
	structs map[string]ast.Expr        // types by name
	methods map[string][]*ast.FuncDecl // by the name of the receiver's type
	lines   []string
}

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: public_api_go FOLDER"))
	}
	folders := map[string]bool{}
	err := filepath.WalkDir(os.Args[1], func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != os.Args[1] &&
			(name == "internal" || name == "testdata" || name == "vendor" ||
				strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(name, ".go") {
			folders[filepath.Dir(path)] = true
		}
		return nil
	})
	if err != nil {
		fail(err)
	}
	var lines []string
	for folder := range folders {
		found, err := read(folder)
		if err != nil {
			fail(err)
		}
		lines = append(lines, found...)
	}
	sort.Strings(lines)
	fmt.Println(strings.Join(lines, "\n"))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "public_api_go:", err)
	os.Exit(1)
}

func read(folder string) ([]string, error) {
	r := &reader{files: token.NewFileSet(), structs: map[string]ast.Expr{},
		methods: map[string][]*ast.FuncDecl{},
		info:    types.Info{Defs: map[*ast.Ident]types.Object{}}}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		file, err := parser.ParseFile(r.files, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if file.Name.Name != "main" {
			files = append(files, file)
			r.name = file.Name.Name
		}
	}
	// For the values of constants; what other packages define stays unknown.
	config := types.Config{Error: func(error) {}, Importer: nothing{}, FakeImportC: true}
	config.Check(r.name, r.files, files, &r.info)
	documented := false
	for _, file := range files {
		documented = documented || file.Doc != nil
		r.collect(file)
	}
	if len(files) > 0 {
		r.add("package", r.name, "package", documented)
	}
	for _, file := range files {
		for _, declaration := range file.Decls {
			r.declaration(declaration)
		}
	}
	return r.lines, nil
}

type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	return nil, errors.New("not needed here")
}

func (r *reader) collect(file *ast.File) {
	for _, declaration := range file.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			if declaration.Recv != nil {
				name := baseName(declaration.Recv.List[0].Type)
				r.methods[name] = append(r.methods[name], declaration)
			}
		case *ast.GenDecl:
			for _, spec := range declaration.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					r.structs[spec.Name.Name] = spec.Type
				}
			}
		}
	}
}

func (r *reader) add(kind, name, text string, documented bool) {
	word := "undocumented"
	if documented {
		word = "documented"
	}
	path := r.name
	if name != r.name || kind != "package" {
		path += "." + name
	}
	r.lines = append(r.lines, fmt.Sprintf("%s %s: %s [%s]", kind, path, text, word))
}

func (r *reader) declaration(declaration ast.Decl) {
	switch declaration := declaration.(type) {
	case *ast.FuncDecl:
		if declaration.Recv == nil && declaration.Name.IsExported() {
			r.add("func", declaration.Name.Name, r.text(declaration.Type), declaration.Doc != nil)
		}
	case *ast.GenDecl:
		for _, spec := range declaration.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					r.typeSpec(spec, spec.Doc != nil || declaration.Doc != nil)
				}
			case *ast.ValueSpec:
				r.values(declaration.Tok, spec,
					spec.Doc != nil || spec.Comment != nil || declaration.Doc != nil)
			}
		}
	}
}

func (r *reader) values(kind token.Token, spec *ast.ValueSpec, documented bool) {
	for index, name := range spec.Names {
		if !name.IsExported() {
			continue
		}
		text := ""
		if spec.Type != nil {
			text = r.text(spec.Type) + " "
		}
		value, known := r.info.Defs[name].(*types.Const)
		if known && value.Val() != nil && value.Val().Kind() != constant.Unknown {
			text = types.TypeString(value.Type(), types.RelativeTo(value.Pkg())) + " = " +
				value.Val().ExactString()
		} else if index < len(spec.Values) {
			text += "= " + r.text(spec.Values[index])
		}
		r.add(kind.String(), name.Name, strings.TrimSpace(text), documented)
	}
}

func (r *reader) typeSpec(spec *ast.TypeSpec, documented bool) {
	name := spec.Name.Name
	parameters := ""
	if spec.TypeParams != nil {
		var parts []string
		for _, field := range spec.TypeParams.List {
			parts = append(parts, r.field(field))
		}
		parameters = "[" + strings.Join(parts, ", ") + "] "
	}
	if spec.Assign.IsValid() {
		parameters += "= "
	}
	switch shape := spec.Type.(type) {
	case *ast.StructType:
		r.add("type", name, parameters+"struct", documented)
	case *ast.InterfaceType:
		r.add("type", name, parameters+"interface", documented)
		r.interfaceMembers(name, shape)
	default:
		r.add("type", name, parameters+r.text(shape), documented)
	}
	r.members(name, name, map[string]bool{}, map[string]bool{})
}

// members writes the fields and methods of the type `from` as those of `owner`, the outermost
// first.
func (r *reader) members(owner, from string, seen, inside map[string]bool) {
	if inside[from] {
		return
	}
	inside[from] = true
	for _, method := range r.methods[from] {
		if name := method.Name.Name; method.Name.IsExported() && !seen[name] {
			seen[name] = true
			pointer := ""
			if _, ok := method.Recv.List[0].Type.(*ast.StarExpr); ok {
				pointer = "*"
			}
			r.add("method", owner+"."+name,
				fmt.Sprintf("(%s%s) %s", pointer, owner, r.text(method.Type)), method.Doc != nil)
		}
	}
	shape, ok := r.structs[from].(*ast.StructType)
	if !ok {
		return
	}
	var embedded []string
	for _, field := range shape.Fields.List {
		documented := field.Doc != nil || field.Comment != nil
		if len(field.Names) == 0 {
			if name := baseName(field.Type); ast.IsExported(name) {
				r.add("field", owner+"."+name, "embedded "+r.text(field.Type), documented)
			} else {
				embedded = append(embedded, name)
			}
		}
		for _, name := range field.Names {
			if name.IsExported() && !seen[name.Name] {
				seen[name.Name] = true
				text := r.text(field.Type)
				if field.Tag != nil {
					text += " " + field.Tag.Value
				}
				r.add("field", owner+"."+name.Name, text, documented)
			}
		}
	}
	for _, name := range embedded {
		r.members(owner, name, seen, inside)
	}
}

func (r *reader) interfaceMembers(owner string, shape *ast.InterfaceType) {
	for _, field := range shape.Methods.List {
		documented := field.Doc != nil || field.Comment != nil
		if len(field.Names) == 0 {
			r.add("method", owner+".(embedded) "+r.text(field.Type), "embedded", documented)
		}
		for _, name := range field.Names {
			if name.IsExported() {
				r.add("method", owner+"."+name.Name, r.text(field.Type), documented)
			} else {
				r.add("method", owner+".(not exported) "+name.Name, "not exported", documented)
			}
		}
	}
}

func (r *reader) field(field *ast.Field) string {
	var names []string
	for _, name := range field.Names {
		names = append(names, name.Name)
	}
	return strings.TrimSpace(strings.Join(names, ", ") + " " + r.text(field.Type))
}

// text is Go's own spelling, in one line.
func (r *reader) text(node ast.Node) string {
	var text strings.Builder
	if err := printer.Fprint(&text, r.files, node); err != nil {
		fail(err)
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// baseName is the name of a type without its package, pointer and type arguments.
func baseName(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name
	case *ast.StarExpr:
		return baseName(expression.X)
	case *ast.SelectorExpr:
		return expression.Sel.Name
	case *ast.IndexExpr:
		return baseName(expression.X)
	case *ast.IndexListExpr:
		return baseName(expression.X)
	case *ast.ParenExpr:
		return baseName(expression.X)
	}
	return ""
}
