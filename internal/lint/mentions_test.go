package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/conform"
)

// A checker knows what exists, and reports what a document mentions otherwise.
type checker struct {
	*index
	program program
	paths   map[string]bool // every file and folder
	bases   map[string]bool // the names of files
	flags   map[string]bool // of every program and test
	cases   map[string]bool // of conformance
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	d := &checker{index: newIndex(t), paths: map[string]bool{}, bases: map[string]bool{}, flags: map[string]bool{}, cases: map[string]bool{}}
	for _, c := range conform.Cases() {
		d.cases[c.ID] = true
	}
	d.program = programOf(d.files)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && e.Name() == ".git" {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, p)
		d.paths[filepath.ToSlash(rel)] = true
		d.bases[e.Name()] = d.bases[e.Name()] || !e.IsDir()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.packages {
		for f := range p.flags {
			d.flags[f] = true
		}
	}
	return d
}

// TestMentions checks that everything that a document names exists: Go names, commands, flags,
// files and tests, in Markdown and in comments. An outdated document would send its reader to
// look for what is gone.
func TestMentions(t *testing.T) {
	d := newChecker(t)
	checked := 0
	report := func(p passage, wrong []string) {
		checked++
		slices.Sort(wrong)
		for _, w := range slices.Compact(wrong) {
			t.Errorf("%s: %s: %s", p, strings.TrimSpace(p.text), w)
		}
	}
	for file, text := range documents(t) {
		if obsolete(text) {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			report(passage{file, i + 1, comment, line}, d.checkNumbers(line))
		}
		for _, p := range passagesOf(file, text) {
			switch p.kind {
			case link:
				report(p, d.checkLink(p))
			case command:
				report(p, append(d.checkLine(home(file), p.text), d.checkAddresses(p.text)...))
			case object:
				report(p, d.checkMembers(p.text))
			case code:
				report(p, d.checkQualified(p.text, d.publicly(p.file), nil))
			case prose:
				report(p, d.checkProse(p))
			case span:
				report(p, d.checkSpan(p))
			}
		}
	}
	imports := map[string]map[string]string{}
	for _, f := range d.files {
		imports[f.path] = importsOf(f)
	}
	for _, p := range comments(d.files) {
		if p.kind == command {
			report(p, d.checkLine(home(p.file), p.text))
		}
		report(p, d.checkComment(p, d.packages[filepath.ToSlash(filepath.Dir(p.file))], imports[p.file]))
	}
	for _, f := range d.files {
		if f.dir != "cmd/millrace" || f.test {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				at := f.fset.Position(lit.Pos())
				report(passage{f.path, at.Line, span, lit.Value}, d.checkUsage(lit.Value))
			}
			return true
		})
	}
	if checked < 10_000 {
		t.Errorf("only %d passages were found", checked)
	}
}

// obsolete reports whether the first lines of a decision say that it no longer holds.
func obsolete(text string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n**")
	return strings.Contains(first, "Superseded") || strings.Contains(first, "no longer holds")
}

// importsOf returns the packages that a file imports, by name. The value is a directory of this
// module, or "" for other modules.
func importsOf(f source) map[string]string {
	all := map[string]string{}
	for _, spec := range f.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		dir, ours := strings.CutPrefix(p, module)
		name := p[strings.LastIndex(p, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if !ours {
			dir = ""
		}
		all[name] = dir
	}
	return all
}

var (
	qualified = regexp.MustCompile(`(?:^|[^\w.$/\-"])\*?([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	member    = regexp.MustCompile(`(?:^|[^\w.])\*?([A-Z]\w*)\.([A-Z]\w*)`)
	bare      = regexp.MustCompile(`^\*?([A-Z][A-Za-z0-9]*)(\(.*\)|\[.*\])?$`)
	mixed     = regexp.MustCompile(`^([a-z]+[A-Z][A-Za-z0-9]*)(\(.*\))?$`)
	flagLike  = regexp.MustCompile(`^(--?)([a-z][\w.-]*)([ =].*)?$`)
	pathLike  = regexp.MustCompile(`(?:^|[\s("'])\.?/?((?:agentproto|bench|bounds|cmd|dataflow|doc|examples|internal|keyedsingleton|keyedstream|optional|singleton|slice|\.ci)/[\w./*-]*\w)`)
	snake     = regexp.MustCompile(`^[a-z]+(_[a-z]+)+$`)
	request   = regexp.MustCompile(`(?:^|localhost:\d+|127\.0\.0\.1:\d+|\b(?:GET|POST|PUT|DELETE) )/([a-z_][\w-]*)`)
	option    = regexp.MustCompile(`(?:^|\s)--([a-z][\w-]+)`)
	fileLike  = regexp.MustCompile(`^[\w-]+\.(go|md)$`)
	testLike  = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)\b`)
	variable  = regexp.MustCompile(`^[A-Z]+(_[A-Z0-9]+)+$`)
)

// publicly returns a function that reports whether a qualifier in a document is a package of this
// module. The benchmarks' packages count only in documents of the benchmarks.
func (d *checker) publicly(file string) func(q string) bool {
	return func(q string) bool {
		return slices.ContainsFunc(d.named[q], func(p *pkg) bool { return home(file) == "bench" || home(p.dir+"/") == "" })
	}
}

// home returns the root of the module that a file is in.
func home(file string) string {
	if strings.HasPrefix(file, "bench/") {
		return "bench"
	}
	return ""
}

// standard lists names of standard packages that share their name with a package of this module.
var standard = map[string][]string{
	"runtime": {"GC", "Goexit", "Gosched", "NumGoroutine", "NumCPU", "GOMAXPROCS", "Caller", "Callers", "KeepAlive", "SetFinalizer", "AddCleanup", "Error", "LockOSThread", "MemStats", "Stack"},
}

// checkQualified checks the qualified names of a text, for packages that count. Alias maps other
// names of packages.
func (d *checker) checkQualified(text string, counts func(string) bool, alias map[string]string) (wrong []string) {
	for _, m := range qualified.FindAllStringSubmatch(text, -1) {
		q := m[1]
		if a := alias[q]; a != "" {
			q = a
		}
		if !counts(q) || slices.Contains(standard[q], m[2]) || d.qualified(q, m[2], m[3]) {
			continue
		}
		wrong = append(wrong, strings.TrimRight("there is no "+m[1]+"."+m[2]+"."+m[3], "."))
	}
	return append(wrong, d.checkFields(text, counts, alias)...)
}

// checkSpan checks the text between backquotes.
func (d *checker) checkSpan(p passage) (wrong []string) {
	text := strings.TrimSpace(p.text)
	if first, _, _ := strings.Cut(text, " "); slices.Contains([]string{"millrace", "go", "cd", ".ci/run"}, first) {
		return d.checkLine(home(p.file), text)
	}
	if dir, ok := strings.CutPrefix(text, "./"); ok && !d.folder(filepath.ToSlash(filepath.Join(home(p.file), dir))) && !d.paths[dir] {
		wrong = append(wrong, "there is no "+text)
	}
	wrong = append(wrong, d.checkQualified(text, d.publicly(p.file), aliases[p.file])...)
	wrong = append(wrong, d.checkPaths(p.file, text)...)
	wrong = append(wrong, d.checkAddresses(text)...)
	wrong = append(wrong, d.checkTests(text)...)
	wrong = append(wrong, d.checkWords(p.file, text)...)
	for _, m := range member.FindAllStringSubmatch(text, -1) {
		if !d.anyMember(m[1], m[2]) && foreign[m[1]] == "" {
			wrong = append(wrong, fmt.Sprintf("there is no %s.%s", m[1], m[2]))
		}
	}
	if m := flagLike.FindStringSubmatch(text); m != nil && !d.anyFlag(m[2]) {
		wrong = append(wrong, "there is no flag "+m[1]+m[2])
	}
	if m := bare.FindStringSubmatch(text); m != nil && !d.known(p.file, m[1]) {
		wrong = append(wrong, "there is no "+m[1])
	}
	if variable.MatchString(text) && !d.literals[text] {
		wrong = append(wrong, "nothing is called "+text)
	}
	if snake.MatchString(text) && aliases[p.file] == nil && !d.literals[text] && !d.words[text] {
		wrong = append(wrong, "nothing is called "+text)
	}
	if m := mixed.FindStringSubmatch(text); m != nil && !d.words[m[1]] && !d.literals[m[1]] {
		wrong = append(wrong, "there is no "+m[1])
	}
	if fileLike.MatchString(text) && !d.bases[text] {
		wrong = append(wrong, "there is no file "+text)
	}
	return wrong
}

// known reports whether a document may mention a name without its package. In a document with
// aliases, it must be a name or member of the library or of dataflow/sim.
func (d *checker) known(file, name string) bool {
	if foreign[name] != "" || d.tests[name] || strings.ToUpper(name) == name {
		return true
	}
	if len(aliases[file]) == 0 {
		return d.exported[name]
	}
	for _, p := range d.packages {
		if (slices.Contains(library, p.dir) || p.dir == "dataflow/sim") && (p.names[name] || slices.ContainsFunc(slices.Collect(maps.Keys(p.members)), func(typ string) bool { return p.members[typ][name] })) {
			return true
		}
	}
	return false
}

// checkAddresses checks the paths of requests: the first part of each must occur in a string of
// the program.
func (d *checker) checkAddresses(text string) (wrong []string) {
	for _, m := range request.FindAllStringSubmatch(text, -1) {
		for part := range strings.SplitSeq(m[1], "/") {
			if !d.literals[part] {
				wrong = append(wrong, "no request is for "+m[1])
			}
			break // the rest may be an id
		}
	}
	return wrong
}

// anyFlag reports whether a program or test of this module, or go test, has a flag.
func (d *checker) anyFlag(name string) bool { return d.flags[name] || slices.Contains(goFlags, name) }

// anyMember reports whether some package has a type with a member.
func (d *checker) anyMember(typ, name string) bool {
	for _, p := range d.packages {
		if d.has(p, typ, name) {
			return true
		}
	}
	return false
}

// checkPaths checks the files and folders of the repository that a text names.
func (d *checker) checkPaths(file, text string) (wrong []string) {
	for _, m := range pathLike.FindAllStringSubmatch(text, -1) {
		at := strings.TrimSuffix(strings.TrimSuffix(m[1], "/..."), "...")
		if strings.ContainsAny(at, "*") || d.paths[at] || d.paths[home(file)+"/"+at] || slices.ContainsFunc(generated, func(g string) bool { return strings.HasPrefix(at, g) }) {
			continue
		}
		wrong = append(wrong, "there is no "+at)
	}
	return wrong
}

// checkTests checks the names of tests in a text.
func (d *checker) checkTests(text string) (wrong []string) {
	for _, m := range testLike.FindAllStringSubmatch(text, -1) {
		if d.tests[m[1]] || d.exported[m[1]] || strings.HasPrefix(m[1], "TestName") || strings.Contains(text, "func "+m[1]) {
			continue
		}
		wrong = append(wrong, "there is no "+m[1])
	}
	return wrong
}

// checkMembers checks the names of members in a line of JSON. Values may be anything.
func (d *checker) checkMembers(line string) (wrong []string) {
	for _, m := range regexp.MustCompile(`"(\w+)"\s*:`).FindAllStringSubmatch(line, -1) {
		if !d.literals[m[1]] {
			wrong = append(wrong, "nothing is called "+m[1])
		}
	}
	return wrong
}

// checkLink checks the target of a link.
func (d *checker) checkLink(p passage) []string {
	target, _, _ := strings.Cut(p.text, "#")
	if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return nil
	}
	if at := filepath.ToSlash(filepath.Join(filepath.Dir(p.file), target)); !d.paths[at] {
		return []string{"there is no " + at}
	}
	return nil
}

// generated lists prefixes of paths that a program creates.
var generated = []string{"bench/results/"}

// foreign lists names of other systems that documents mention, and where they come from.
var foreign = map[string]string{
	"Monotonic": "Hydro", "InitNone": "Hydro", "UnderlyingBound": "Hydro",
	"Origin": "HTTP", "Host": "HTTP",
	"call.thread": "a group of the attributes of logs", "model.json": "a file of the reader", "ext-tasks": "MCP",
	"Commutative":       "the end of a name",
	"KeyedSingletonMap": "an operator that there could be",
}
