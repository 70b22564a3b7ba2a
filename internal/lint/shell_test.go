package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A program holds the flags and words of the commands of cmd/millrace.
type program struct {
	flags map[string]map[string]bool // by command
	words map[string]map[string]bool // string literals, by command
}

// programOf reads the commands from the table in cmd/millrace/main.go, and the code that each
// reaches in its package and in packages of commands.
func programOf(files []source) program {
	bodies := map[string][]ast.Node{}   // of functions and methods, by name
	commands := map[string]string{}     // the function of each command
	packages := map[string][]ast.Node{} // files, by name
	for _, f := range files {
		if f.dir == "dataflow/durable/historycmd" && !f.test {
			packages[f.Name.Name] = append(packages[f.Name.Name], f.File)
		}
		if f.dir != "cmd/millrace" || f.test {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				bodies[d.Name.Name] = append(bodies[d.Name.Name], d)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for i, n := range v.Names {
							bodies[n.Name] = append(bodies[n.Name], d)
							if n.Name == "commands" && i < len(v.Values) {
								table(v.Values[i], commands)
							}
						}
					}
				}
			}
		}
	}
	out := program{map[string]map[string]bool{}, map[string]map[string]bool{}}
	for name, function := range commands {
		flags, words, seen := map[string]bool{"h": true, "help": true}, map[string]bool{}, map[string]bool{}
		read := func(n ast.Node) {
			switch n := n.(type) {
			case *ast.CallExpr:
				if name := flagOf(n); name != "" {
					flags[name] = true
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					words[s] = true
				}
			}
		}
		var visit func(string)
		visit = func(function string) {
			if seen[function] {
				return
			}
			seen[function] = true
			for _, file := range packages[function] {
				ast.Inspect(file, func(n ast.Node) bool { read(n); return true })
			}
			for _, body := range bodies[function] {
				ast.Inspect(body, func(n ast.Node) bool {
					if name, ok := n.(*ast.Ident); ok {
						visit(name.Name)
					}
					read(n)
					return true
				})
			}
		}
		visit(function)
		out.flags[name], out.words[name] = flags, words
	}
	return out
}

// table reads the composite literal that lists the commands.
func table(v ast.Expr, commands map[string]string) {
	list, ok := v.(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, e := range list.Elts {
		row, ok := e.(*ast.CompositeLit)
		if !ok || len(row.Elts) < 3 {
			continue
		}
		name, isString := row.Elts[0].(*ast.BasicLit)
		function, isName := row.Elts[2].(*ast.Ident)
		if isString && isName {
			commands[strings.Trim(name.Value, `"`)] = function.Name
		}
	}
}

// goFlags lists the flags of go test that documents use.
var goFlags = strings.Fields("v run fuzz bench race count cpu timeout short list benchtime benchmem fuzztime parallel skip vet json o c ldflags overlay args cpuprofile memprofile shuffle failfast artifacts")

// separators matches the tokens that separate commands outside quotes.
var separators = regexp.MustCompile(`^(\|\|?|&&?|;|\(|\))$`)

// tokens splits a line into words like a shell, for the syntax that documents use.
func tokens(line string) (words []string) {
	var w strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			words = append(words, w.String())
		}
		w.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			w.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			end()
		case strings.ContainsRune(";|&()", r):
			if r != '|' || !begun { // a|b is a choice in a usage line
				end()
				words = append(words, string(r))
				continue
			}
			w.WriteRune(r)
		case r == '#' && !begun:
			end()
			return words
		default:
			begun = true
			w.WriteRune(r)
		}
	}
	end()
	return words
}

// checkLine returns what is wrong with the commands of a line, entered in folder at.
func (d *checker) checkLine(at, line string) (wrong []string) {
	var words []string
	run := func() {
		for len(words) > 0 && (regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) || words[0] == "do" || words[0] == "$") {
			words = words[1:]
		}
		if len(words) > 0 {
			if words[0] == "cd" && len(words) == 2 {
				at = path.Join(at, words[1])
				if !strings.HasPrefix(words[1], "$") && !d.paths[at] {
					wrong = append(wrong, "there is no folder "+at)
				}
			} else {
				wrong = append(wrong, d.checkCommand(at, words)...)
			}
		}
		words = words[:0]
	}
	for _, w := range tokens(line) {
		if separators.MatchString(w) {
			run()
			continue
		}
		words = append(words, w)
	}
	run()
	return wrong
}

func (d *checker) checkCommand(at string, words []string) []string {
	rest := words[1:]
	switch words[0] {
	case "millrace", "./millrace":
		return d.checkMillrace(rest)
	case ".ci/run":
		if !d.paths[".ci/run"] {
			return []string{"there is no .ci/run"}
		}
	case "go":
		if len(rest) == 0 {
			return nil
		}
		switch rest[0] {
		case "test":
			return d.checkTest(at, rest[1:])
		case "run":
			for i, w := range rest[1:] {
				if strings.HasPrefix(w, "-") {
					continue
				}
				w = strings.TrimPrefix(strings.TrimPrefix(w, module), "./")
				w, _, _ = strings.Cut(w, "@")
				dir := path.Join(at, w)
				if p := d.packages[dir]; strings.Contains(strings.Split(w, "/")[0], ".") {
					return nil // a package of another module
				} else if p == nil || !p.main {
					return []string{"there is no program in " + dir}
				} else if dir == "cmd/millrace" {
					return d.checkMillrace(rest[i+2:])
				} else {
					return d.checkFlags(dir, rest[i+2:])
				}
			}
		case "doc", "vet", "build", "list":
			for _, w := range rest[1:] {
				if dir, ok := strings.CutPrefix(w, "./"); ok && !d.folder(path.Join(at, dir)) {
					return []string{"there is no package " + w}
				}
			}
		}
	}
	return nil
}

// checkFlags checks the flags of a program of this module.
func (d *checker) checkFlags(dir string, words []string) (wrong []string) {
	for _, w := range words {
		if name := strings.TrimLeft(w, "-"); name != w && name != "" {
			name, _, _ = strings.Cut(name, "=")
			if !d.packages[dir].flags[name] {
				wrong = append(wrong, dir+" has no flag -"+name)
			}
		}
	}
	return wrong
}

// grouped lists the commands whose next word is a command too.
var grouped = []string{"log", "conform"}

func (d *checker) checkMillrace(words []string) (wrong []string) {
	if len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.ToUpper(words[0]) == words[0] {
		return nil
	}
	name := words[0]
	flags := d.program.flags[name]
	if flags == nil {
		return []string{fmt.Sprintf("millrace has no command %q", name)}
	}
	for i, w := range words[1:] {
		if w == "--" {
			break
		}
		w = strings.Trim(w, "[],.…")
		if f := strings.TrimLeft(w, "-"); f != w {
			if f, _, _ = strings.Cut(f, "="); f != "" && !flags[f] {
				wrong = append(wrong, fmt.Sprintf("millrace %s has no flag --%s", name, f))
			}
		} else if i == 0 && slices.Contains(grouped, name) {
			for part := range strings.SplitSeq(w, "|") {
				if !d.program.words[name][part] && strings.ToUpper(part) != part {
					wrong = append(wrong, fmt.Sprintf("millrace %s has no command %q", name, part))
				}
			}
		}
	}
	return wrong
}

// folder reports whether the folder of a go package pattern exists.
func (d *checker) folder(dir string) bool {
	dir = strings.TrimSuffix(strings.TrimSuffix(dir, "..."), "/")
	return dir == "" || dir == "." || d.paths[dir]
}

// checkTest checks the packages, tests and flags of a go test command.
func (d *checker) checkTest(at string, words []string) (wrong []string) {
	var dirs []string
	patterns := map[string]string{} // by flag
	var own []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		flag := strings.TrimLeft(w, "-")
		if flag == w {
			if dir, ok := strings.CutPrefix(w, "./"); ok {
				if dir = path.Join(at, dir); !d.folder(dir) {
					wrong = append(wrong, "there is no package "+w)
				}
				dirs = append(dirs, dir)
			}
			continue
		}
		flag, value, given := strings.Cut(flag, "=")
		switch {
		case slices.Contains([]string{"run", "fuzz", "bench", "skip", "list"}, flag):
			if !given && i+1 < len(words) {
				i++
				value = words[i]
			}
			patterns[flag] = value
		case slices.Contains(goFlags, flag):
		default:
			own = append(own, flag)
		}
	}
	var here []*pkg
	for _, dir := range dirs {
		for _, known := range slices.Sorted(maps.Keys(d.packages)) {
			below := strings.TrimSuffix(strings.TrimSuffix(dir, "..."), "/")
			if known == dir || strings.HasSuffix(dir, "...") && (below == "" || known == below || strings.HasPrefix(known, below+"/")) {
				here = append(here, d.packages[known])
			}
		}
	}
	for flag, value := range patterns {
		if wrong = append(wrong, d.checkPattern(here, flag, value)...); len(here) == 0 {
			break
		}
	}
	for _, flag := range own {
		some := len(here) == 0 && d.flags[flag]
		for _, p := range here {
			some = some || slices.ContainsFunc(d.reach(p.dir), func(p *pkg) bool { return p.flags[flag] })
		}
		if !some {
			wrong = append(wrong, fmt.Sprintf("the tests of %s have no flag -%s", strings.Join(dirs, " "), flag))
		}
	}
	return wrong
}

func (d *checker) checkPattern(here []*pkg, flag, value string) []string {
	first, _, _ := strings.Cut(value, "/")
	if len(here) == 0 || first == "^$" || first == "xxx" || first == "." || strings.Contains(first, "TestName") || strings.Contains(first, "$f") || first == "" {
		return nil // the reader's own tests
	}
	want, err := regexp.Compile(first)
	if err != nil {
		return []string{err.Error()}
	}
	kinds := map[string][]string{"run": {"Test", "Fuzz", "Example"}, "list": {"Test", "Fuzz", "Example"}, "skip": {"Test", "Fuzz", "Example"}, "fuzz": {"Fuzz"}, "bench": {"Benchmark"}}
	for _, p := range here {
		for _, name := range p.tests {
			if want.MatchString(name) && slices.ContainsFunc(kinds[flag], func(kind string) bool { return strings.HasPrefix(name, kind) }) {
				return nil
			}
		}
	}
	return []string{fmt.Sprintf("-%s %s finds nothing", flag, value)}
}
