// Command generate breaks the library in many small ways and says which of them its tests notice.
//
//	go run ./internal/mutation/generate -n 300                             a sample of everything
//	go run ./internal/mutation/generate -in internal/keyed -n 0            all of one package
//	go run ./internal/mutation/generate -in dataflow/... -results FILE     a run that can be interrupted
//	go run ./internal/mutation/generate -in internal/keyed -n 0 -only index.grow   those of one function
//
// A mutant is one change to one function: a condition is negated, < becomes <=, && becomes ||, a statement
// or a case is dropped, two statements change places, a number is one more or less, or a function returns
// before its last statement. Texts of errors, code that only prints or writes to a log, what operators
// declare for tests, and generated code are not changed. The sample is chosen by a hash of the file, the
// function, the operator and the number of the mutant, so that it is the same one each time.
//
// All mutants are compiled into the packages at once, and so are the tests of each package of -tests. Each
// test is run once without mutants, to see what it reaches. Then the tests that reach a mutant are run with
// it, those of its own package first and the fast ones before the slow ones, until one fails or -budget is
// used up. A mutant is also killed if a test with it takes more than ten times its usual time plus
// -patience. The patience is for machines that have other work to do.
//
// A mutant is killed or survives. If no test reaches its place it is uncovered, which counts as survived. A
// mutant that cannot be told from the original is listed in equivalent.txt, with a reason. The command fails
// if a mutant that is not listed there survives, or if one that is listed is killed.
//
// With -results each outcome is added to a file. A later run with that file skips mutants that were killed,
// unless their source has changed, and tries those that survived again.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed equivalent.txt
var equivalentText string

// folders are the folders with mutants, relative to the root of the module.
var folders = []string{
	"internal/keyed", "internal/timer", "internal/engine/...", "dataflow/...", "agentproto", "agentproto/toolserver",
}

// beside are further packages whose tests are run for the engine, since it has few tests of its own.
var beside = []string{
	"internal/script", "slice", "singleton", "optional", "keyedstream", "keyedsingleton", "dataflow", "dataflow/sim", "internal/model",
}

// options are the options of the command.
type options struct {
	n        int
	in       []string
	only     *regexp.Regexp // matches the names of mutants; nil for all
	tests    []string       // folders besides those with mutants; nil for the default
	budget   time.Duration
	patience time.Duration
	results  string
	workers  int
}

func main() {
	n := flag.Int("n", 300, "how many mutants to try; 0 tries all")
	in := flag.String("in", strings.Join(folders, ","), "folders with commas between them; those below one with /... at its end")
	only := flag.String("only", "", "try only mutants whose names match this `regexp`: file, function, operator and number, as in equivalent.txt")
	tests := flag.String("tests", "", "folders whose tests are run besides those of the packages with mutants; \"none\" for no others (default those of the core for internal/engine and below)")
	budget := flag.Duration("budget", time.Minute, "how long the tests of a mutant may take if they are run without it; a test that takes longer is not used")
	patience := flag.Duration("patience", 10*time.Second, "how long a test waits for a mutant, beyond ten times as long as it takes without it")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "how many programs run at once")
	file := flag.String("results", "", "a `file` of outcomes to add to")
	flag.Parse()
	o := options{n: *n, in: strings.Split(*in, ","), budget: *budget, patience: *patience, results: *file, workers: *workers}
	if *only != "" {
		var err error
		if o.only, err = regexp.Compile(*only); err != nil {
			fmt.Fprintln(os.Stderr, "-only:", err)
			os.Exit(2)
		}
	}
	switch *tests {
	case "":
	case "none":
		o.tests = []string{}
	default:
		o.tests = strings.Split(*tests, ",")
	}
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tries mutants and prints the outcome of each, and a table.
func run(o options, w io.Writer) (err error) {
	root, module, packages, err := list(o.in)
	if err != nil {
		return err
	}
	equivalent, err := equivalents(equivalentText)
	if err != nil {
		return err
	}
	var all []mutant
	sources := make(map[string][]byte)
	for _, p := range packages {
		of, err := mutants(root, p)
		if err != nil {
			return err
		}
		all = append(all, of...)
	}
	if o.only != nil {
		all = slices.DeleteFunc(all, func(m mutant) bool { return !o.only.MatchString(m.name()) })
	}
	if len(all) == 0 {
		return errors.New("there are no such mutants: try other -in, or another -only")
	}
	r, err := openResults(o.results)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	t := &tally{w: w, equivalent: equivalent, scores: make(map[string]*score)}
	todo := make(map[int]mutant)
	for i, m := range sample(all, o.n) {
		if sources[m.file] == nil {
			if sources[m.file], err = os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file))); err != nil {
				return err
			}
		}
		if x, ok := r.of(m, sources[m.file]); ok {
			if err := t.count(m, called(x.Outcome), x.By); err != nil {
				return err
			}
		} else {
			todo[i+1] = m
		}
	}
	if len(todo) > 0 {
		err = try(root, module, o, todo, w, func(m mutant, what outcome, by string) error {
			return errors.Join(t.count(m, what, by), r.add(m, sources[m.file], what, by))
		})
		if err != nil {
			return err
		}
	}
	return t.end(packages)
}

// try builds mutants and calls tell with the outcome of each.
func try(root, module string, o options, todo map[int]mutant, w io.Writer, tell func(m mutant, what outcome, by string) error) (err error) {
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	b, err := build(root, module, tmp, todo)
	if err != nil {
		return err
	}
	b.budget, b.patience = o.budget, o.patience
	for _, n := range b.invalid {
		if err := tell(todo[n], invalid, ""); err != nil {
			return err
		}
	}
	tests, err := b.reached(b.tested(o.tests), o.workers, w)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	some := newPool(o.workers)
	for _, n := range slices.Sorted(maps.Keys(b.mutants)) {
		some.do(func() error {
			what, by, err := b.try(n, tests)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			return tell(b.mutants[n], what, by)
		})
	}
	return some.wait()
}

// tested returns the folders whose tests are run: those with mutants, and others.
func (b *built) tested(others []string) []string {
	all := slices.Clone(b.dirs)
	if others == nil && slices.ContainsFunc(b.dirs, func(dir string) bool { return dir == "internal/engine" || strings.HasPrefix(dir, "internal/engine/") }) {
		others = beside
	}
	for _, dir := range others {
		if !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// A folder is a package, with its files that are built here, without tests.
type folder struct {
	dir   string // relative to the root of the module
	files []string
}

// list returns the root and the path of the module, and the packages.
func list(in []string) (root, module string, all []folder, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}\n{{.Path}}").Output()
	if err != nil {
		return "", "", nil, fmt.Errorf("there is no module here: %w", err)
	}
	root, module, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	args := []string{"list", "-f", `{{.ImportPath}}{{range .GoFiles}} {{.}}{{end}}`}
	for _, dir := range in {
		args = append(args, "./"+dir)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if out, err = cmd.Output(); err != nil {
		return "", "", nil, err
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		all = append(all, folder{strings.TrimPrefix(words[0], module+"/"), words[1:]})
	}
	return root, module, all, nil
}

// equivalents parses a list of mutants, each followed by a colon and a reason.
func equivalents(text string) (map[string]string, error) {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, ok := strings.Cut(line, ": ")
		if !ok || why == "" || all[name] != "" {
			return nil, fmt.Errorf("equivalent.txt: %q: want the name of a mutant, its change, a colon and a reason, once", line)
		}
		all[name] = why
	}
	return all, nil
}
