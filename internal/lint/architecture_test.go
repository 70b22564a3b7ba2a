package lint

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// architecture is the page that describes how the parts of this module work together.
const architecture = "doc/architecture.md"

// A chart is a text block of a page: a picture of layers, or a walk through the code.
type chart struct {
	line  int // of its first line
	lines []string
}

// charts returns the text blocks of a Markdown page.
func charts(text string) (all []chart) {
	inside := false
	for i, l := range strings.Split(text, "\n") {
		switch {
		case inside && strings.HasPrefix(l, "```"):
			inside = false
		case inside:
			c := &all[len(all)-1]
			c.lines = append(c.lines, l)
		case l == "```text":
			inside = true
			all = append(all, chart{line: i + 2})
		}
	}
	return all
}

// isWalk reports whether a chart is a walk, whose lines name files.
func (c chart) isWalk() bool {
	return slices.ContainsFunc(c.lines, func(l string) bool { return strings.Contains(l, ".go") })
}

// declared maps each name to the body of the function, or to nil if it is not a function.
type declared map[string]*ast.BlockStmt

// declarations returns what each file declares: functions, types, variables and constants by name,
// and members of types as Type.member.
func declarations(files []source) map[string]declared {
	all := map[string]declared{}
	for _, f := range files {
		names := declared{}
		all[f.path] = names
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d).Name + "." + name
				}
				names[name] = d.Body
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names.addType(s)
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names[n.Name] = nil
						}
					}
				}
			}
		}
	}
	return all
}

func (names declared) addType(s *ast.TypeSpec) {
	names[s.Name.Name] = nil
	var list *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names[s.Name.Name+"."+n.Name] = nil
		}
	}
}

// has reports whether a name is declared, by itself or as a member.
func (names declared) has(name string) bool {
	if _, ok := names[name]; ok {
		return true
	}
	for n := range names {
		if _, member, ok := strings.Cut(n, "."); ok && member == name {
			return true
		}
	}
	return false
}

// mentions reports whether a function mentions a name.
func mentions(body *ast.BlockStmt, name string) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

var (
	walkLine = regexp.MustCompile(`^( *)(\w+(?:\.\w+)?) +([\w./-]+\.go)(?:  +(\S.*))?$`)
	saidName = regexp.MustCompile(`\b(?:[A-Z]\w*\.[A-Z]\w*|Err[A-Z]\w*)`)
	namesIn  = regexp.MustCompile("((?:`[\\w.]+`(?:, | and |, and )?)+) in `([\\w./-]+)`")
)

// A call is a line of a walk.
type call struct {
	indent     int
	name, file string
}

// checkWalk returns what is wrong with a walk. Each line names a function and its file. The function
// must mention those indented below it: it calls them, or passes them to a function that it calls.
// Spans checks the names in the rest of a line.
func checkWalk(of map[string]declared, c chart, spans func(text string) []string) (wrong []string) {
	var above []call
	for i, l := range c.lines {
		report := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("line %d: %s", c.line+i, fmt.Sprintf(format, args...)))
		}
		m := walkLine.FindStringSubmatch(l)
		if m == nil {
			report("%q is not a function and its file", l)
			continue
		}
		here := call{len(m[1]), m[2], m[3]}
		for _, name := range saidName.FindAllString(m[4], -1) {
			for _, w := range spans(name) {
				report("%s", w)
			}
		}
		for len(above) > 0 && above[len(above)-1].indent >= here.indent {
			above = above[:len(above)-1]
		}
		names := of[here.file]
		switch _, ok := names[here.name]; {
		case names == nil:
			report("there is no %s", here.file)
		case !ok:
			report("%s does not declare %s", here.file, here.name)
		case len(above) > 0:
			by := above[len(above)-1]
			body := of[by.file][by.name]
			if last := here.name[strings.LastIndex(here.name, ".")+1:]; body == nil || !mentions(body, last) {
				report("%s does not mention %s", by.name, last)
			}
		case here.indent > 0:
			report("%s is below nothing", here.name)
		}
		above = append(above, here)
	}
	return wrong
}

// placesIn returns the matches of namesIn, including those that span lines.
func placesIn(text string) [][]string {
	return namesIn.FindAllStringSubmatch(strings.Join(strings.Fields(text), " "), -1)
}

// checkPlaces returns what is wrong with the statements in a text that a name or a file is in a file
// or folder. The end of a folder's path is enough. Counts reports whether a name is checked.
func checkPlaces(of map[string]declared, text string, counts func(name string) bool) (wrong []string) {
	for _, m := range placesIn(text) {
		for _, name := range spans.FindAllStringSubmatch(m[1], -1) {
			if !counts(name[1]) {
				continue
			}
			found := false
			for file, names := range of {
				in := path.Dir(file)
				found = found || (file == m[2] || in == m[2] || strings.HasSuffix(in, "/"+m[2])) && (names.has(name[1]) || path.Base(file) == name[1])
			}
			if !found {
				wrong = append(wrong, fmt.Sprintf("there is no %s in %s", name[1], m[2]))
			}
		}
	}
	return wrong
}

// TestPlaces checks that each test and Go file is in the folder that a document names.
func TestPlaces(t *testing.T) {
	of := declarations(sources(t))
	counts := func(name string) bool { return testLike.MatchString(name) || strings.HasSuffix(name, "_test.go") }
	places := 0
	for file, text := range documents(t) {
		if obsolete(text) {
			continue
		}
		places += len(placesIn(text))
		for _, w := range checkPlaces(of, text, counts) {
			t.Errorf("%s: %s", file, w)
		}
	}
	if places < 65 {
		t.Errorf("only %d places were found", places)
	}
}

// rowsOf returns the rows of a picture of layers, top to bottom. A row has a label and continues in
// lines without one. A line of dashes may separate rows.
func rowsOf(c chart) (rows [][]string) {
	for _, l := range c.lines {
		label, _, _ := strings.Cut(l, "  ")
		if strings.Contains(l, "─") {
			continue
		}
		if label != "" || len(rows) == 0 {
			rows = append(rows, nil)
		}
		last := &rows[len(rows)-1]
		*last = append(*last, strings.Fields(strings.TrimPrefix(l, label))...)
	}
	return rows
}

// A level is the position of a package in a picture: its row, and its place in the row.
type level struct{ row, at int }

// levelOf returns the position of a package in a picture. A name that ends in /... stands for the
// packages of a folder that no longer name matches.
func levelOf(rows [][]string, p string) (level, error) {
	var found []level
	longest := -1
	for i, row := range rows {
		for j, name := range row {
			below, all := strings.CutSuffix(name, "/...")
			if name != p && (!all || p != below && !strings.HasPrefix(p, below+"/")) {
				continue
			}
			n := len(below)
			if !all { // preferred to the folder of the same name
				n++
			}
			if n > longest {
				longest, found = n, nil
			}
			if n == longest {
				found = append(found, level{i, j})
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return level{}, fmt.Errorf("%s has no place in the picture", p)
	}
	return level{}, fmt.Errorf("%s has %d places in the picture", p, len(found))
}

// checkPicture returns what is wrong with a picture of layers: packages that are not in it exactly
// once, names that are not packages, and imports that go up, or to the left in a row.
func checkPicture(rows [][]string, packages []string, imports map[string][]string) (wrong []string) {
	for _, p := range packages {
		from, err := levelOf(rows, p)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		for _, q := range imports[p] {
			to, err := levelOf(rows, q)
			if err == nil && from != to && (to.row < from.row || to.row == from.row && to.at < from.at) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s, which is above it or to its left", p, q))
			}
		}
	}
	for _, row := range rows {
		for _, name := range row {
			below, ok := strings.CutSuffix(name, "/...")
			if !slices.ContainsFunc(packages, func(p string) bool { return p == below || ok && strings.HasPrefix(p, below+"/") }) {
				wrong = append(wrong, "there is no package "+name)
			}
		}
	}
	return wrong
}

// permitted returns the packages that each package may import, from the tables of TestImports and
// TestLayers.
func permitted() map[string][]string {
	all := maps.Clone(imports)
	for p, below := range layers {
		all[p] = slices.Concat(all[p], below)
	}
	return all
}

// folders returns the packages in folders outside the benchmarks.
func folders(files []source) []string {
	all := map[string]bool{}
	for _, f := range files {
		if f.dir != "." && home(f.path) == "" {
			all[f.dir] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// TestArchitecture checks doc/architecture.md: its walks follow the code, its names are in the files
// that it gives, and its picture contains each package, with no import that goes up. Without this
// check the page would soon be outdated.
func TestArchitecture(t *testing.T) {
	text := documents(t)[architecture]
	d := newChecker(t)
	of := declarations(d.files)
	said := func(name string) []string { return d.checkSpan(passage{architecture, 0, span, name}) }
	walks, calls, pictures := 0, 0, 0
	for _, c := range charts(text) {
		var wrong []string
		if c.isWalk() {
			walks++
			calls += len(c.lines)
			wrong = checkWalk(of, c, said)
		} else {
			pictures++
			wrong = checkPicture(rowsOf(c), folders(d.files), permitted())
		}
		for _, w := range wrong {
			t.Errorf("%s: %s", architecture, w)
		}
	}
	for _, w := range checkPlaces(of, text, func(string) bool { return true }) {
		t.Errorf("%s: %s", architecture, w)
	}
	if places := len(placesIn(text)); walks < 6 || calls < 70 || pictures != 1 || places < 25 {
		t.Errorf("%s has %d walks with %d calls, %d pictures and %d places of names", architecture, walks, calls, pictures, places)
	}
}

// TestLayersOfEngine checks that the picture in the comment of package engine agrees with the table
// of TestLayers.
func TestLayersOfEngine(t *testing.T) {
	for _, f := range sources(t) {
		if f.dir != "internal/engine" || f.Doc == nil {
			continue
		}
		_, text, _ := strings.Cut(f.Doc.Text(), "# Layers\n")
		var rows [][]string
		for line := range strings.Lines(text) {
			if names, _, _ := strings.Cut(strings.TrimSpace(line), "   "); strings.HasPrefix(line, "\t") {
				rows = append(rows, nil)
				for _, name := range strings.Fields(names) {
					rows[len(rows)-1] = append(rows[len(rows)-1], path.Join("internal/engine", strings.TrimPrefix(name, "engine")))
				}
			} else if len(rows) > 0 {
				break
			}
		}
		for _, w := range checkPicture(rows, slices.Sorted(maps.Keys(layers)), layers) {
			t.Errorf("%s: %s", f.path, w)
		}
		return
	}
	t.Error("package engine has no comment")
}
