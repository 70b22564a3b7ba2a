// Command mutation breaks the library on purpose and reports which tests notice.
//
//	go run ./internal/mutation              every mutation of the table
//	go run ./internal/mutation -run First   those whose name matches
//	go run ./internal/mutation -in model    with the tests of some packages only
//	go run ./internal/mutation -write       and the table of README.md anew
//
// A mutation is a small change to the source of the engine or of an operator, of the kind
// that a tired person makes. It is applied to a copy, with the -overlay flag of the go
// command, so that the source stays as it is. The tests that should notice are run against
// the copy. The command fails if a mutation survives, if it cannot be applied because the
// source has changed, or if the result does not compile.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A mutation is a change that tests have to notice.
type mutation struct {
	name  string // what the mutation breaks
	file  string // relative to the root of the module
	edits []edit
}

// An edit replaces a text that occurs exactly once.
type edit struct{ old, new string }

// tested are the packages whose tests are run by default.
var tested = []string{
	"internal/model", "internal/script", "dataflow/sim", "dataflow", "keyedstream", "keyedsingleton", "slice",
}

// others are the packages whose tests are run instead for a file that only they use.
var others = map[string][]string{
	"internal/engine/port/async_log.go": {"dataflow/durable"},
	"dataflow/durable/owner.go":         {"dataflow/durable"},
	"dataflow/durable/clock.go":         {"dataflow/durable"},
	"agentproto/machine.go":             {"agentproto"},
	"agentproto/detour.go":              {"agentproto"},
	"agentproto/toolserver/oauth.go":    {"agentproto/toolserver"},

	"agentproto/internal/authorize/ask.go": {"agentproto/toolserver"},
}

// tests returns the packages whose tests are run for the mutation.
func (m mutation) tests() []string {
	if all, ok := others[m.file]; ok {
		return all
	}
	return tested
}

// broken returns the source of the mutation's file with its edits.
func (m mutation) broken(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, err
	}
	for _, e := range m.edits {
		if n := bytes.Count(text, []byte(e.old)); n != 1 {
			return nil, fmt.Errorf("%s: the text to change is there %d times, want once; adapt the mutation %q:\n%s", m.file, n, m.name, e.old)
		}
		text = bytes.Replace(text, []byte(e.old), []byte(e.new), 1)
	}
	return text, nil
}

// An outcome is the result of the tests for a mutation.
type outcome struct {
	mutation
	caught map[string][]string // tests that failed, by package
}

// try applies a mutation and runs the tests of the packages that in matches.
func (m mutation) try(root string, in *regexp.Regexp) (o outcome, err error) {
	o = outcome{mutation: m}
	text, err := m.broken(root)
	if err != nil {
		return o, err
	}
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, filepath.FromSlash(m.file)): changed}})
	if err != nil {
		return o, err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return o, err
	}
	if out, err := command(root, "build", "-overlay", overlay, "./"+filepath.ToSlash(filepath.Dir(m.file))).CombinedOutput(); err != nil {
		return o, fmt.Errorf("%s: what the mutation makes does not compile: %w\n%s", m.name, err, out)
	}
	args := []string{"test", "-overlay", overlay, "-vet=off", "-timeout=5m", "-json"}
	for _, p := range m.tests() {
		if in.MatchString(p) {
			args = append(args, "./"+p)
		}
	}
	test := command(root, args...)
	out, err := test.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return o, err
	}
	o.caught, err = failures(bytes.NewReader(out))
	return o, err
}

func command(root string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	return cmd
}

// failures reads the output of go test -json and returns the tests that failed.
func failures(r io.Reader) (map[string][]string, error) {
	caught := make(map[string][]string)
	dec := json.NewDecoder(r)
	for {
		var e struct{ Action, Package, Test, FailedBuild string }
		if err := dec.Decode(&e); err == io.EOF {
			return caught, nil
		} else if err != nil {
			return nil, err
		}
		if e.Action != "fail" || e.Package == "" {
			continue
		}
		if e.FailedBuild != "" {
			return nil, fmt.Errorf("%s: its tests do not compile, so they show nothing", e.Package)
		}
		_, p, _ := strings.Cut(e.Package, "millrace/millrace/")
		switch {
		case e.Test != "" && !slices.Contains(caught[p], e.Test):
			caught[p] = append(caught[p], e.Test)
		case e.Test == "" && len(caught[p]) == 0: // a test binary that panicked or did not end
			caught[p] = append(caught[p], "the whole package")
		}
	}
}

// names formats the tests that caught a mutation in a package: the full name of the first,
// and the number of others.
func names(tests []string) string {
	whole := slices.DeleteFunc(slices.Clone(tests), func(t string) bool { return strings.Contains(t, "/") })
	first, detail := tests[0], ""
	if i := strings.Index(first, "/"); i >= 0 {
		first, detail = first[:i], first[i:]
	}
	text := "`" + first + detail + "`"
	if more := len(whole) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// table formats outcomes as in README.md.
func table(all []outcome) string {
	var b strings.Builder
	b.WriteString("| what is wrong | in | caught by |\n|---|---|---|\n")
	for _, o := range all {
		var by []string
		for _, p := range o.tests() {
			if tests := o.caught[p]; len(tests) > 0 {
				by = append(by, p+": "+names(tests))
			}
		}
		if len(by) == 0 {
			by = []string{"**nothing: it survives**"}
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", o.name, o.file, strings.Join(by, "<br>"))
	}
	return b.String()
}

// errSurvived is returned if a mutation was not noticed.
var errSurvived = errors.New("a mutation survives")

// run tries the mutations whose name matches, with the tests of the packages that in
// matches, and prints the outcome of each.
func run(root string, match, in *regexp.Regexp, w io.Writer) (all []outcome, err error) {
	survived := false
	for _, m := range mutations {
		if !match.MatchString(m.name) {
			continue
		}
		o, failed := m.try(root, in)
		if failed != nil { // the others may still be tried
			err = errors.Join(err, failed)
			continue
		}
		all = append(all, o)
		survived = survived || len(o.caught) == 0
		lines := strings.SplitN(table([]outcome{o}), "\n", 3)
		if _, failed := io.WriteString(w, lines[2]); failed != nil {
			return all, failed
		}
	}
	if survived {
		err = errors.Join(err, errSurvived)
	}
	return all, err
}

// root returns the directory of the module.
func root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

// rewrite replaces the table of a README.
func rewrite(file, table string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, _, ok := strings.Cut(string(text), "| what is wrong |")
	if !ok {
		return fmt.Errorf("%s has no table", file)
	}
	return os.WriteFile(file, []byte(head+table), 0o644)
}

func main() {
	match := flag.String("run", "", "try only the mutations whose name matches this `regexp`")
	in := flag.String("in", "", "run only the tests of packages that match this `regexp`; not with -write")
	write := flag.Bool("write", false, "rewrite the table of README.md")
	flag.Parse()
	if err := start(*match, *in, *write); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func start(match, in string, write bool) error {
	re, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	some, err := regexp.Compile(in)
	if err != nil {
		return err
	}
	dir, err := root()
	if err != nil {
		return err
	}
	all, err := run(dir, re, some, os.Stdout)
	if write && match == "" && in == "" && len(all) == len(mutations) {
		err = errors.Join(err, rewrite(filepath.Join(dir, "internal", "mutation", "README.md"), table(all)))
	}
	return err
}
