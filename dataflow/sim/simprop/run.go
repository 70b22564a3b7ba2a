package simprop

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/rerun"
)

var (
	seedFlag  = flag.Int64("simprop.seed", 0, "have simprop.Run draw cases from this `seed`, as printed by a failure; 0 takes one from the clock")
	casesFlag = flag.Int("simprop.cases", 100, "how many cases a property of simprop.Run has to pass")
)

// Run checks properties in order of their names, each in a subtest if t is a *testing.T. Each
// property has to pass 100 cases, or the number in -simprop.cases. Run logs the seed first.
//
// A failure is reported with the smallest case that was found, the property's message, and a
// command that runs only this property with the same cases. The failed case is written to a file
// in testdata/simprop and is tried first from then on, unless -simprop.seed asks for other
// cases. Keep the file with the repaired program as a regression test, or delete it. A property
// that discards five times as many cases as it passes fails too, since it has shown little.
func Run(t testing.TB, props map[string]gopter.Prop) {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		engine.Given("simprop.Run", props[name])
		r := run{name, props[name], seed, *seedFlag == 0}
		if top, ok := t.(*testing.T); ok {
			top.Run(name, func(t *testing.T) { r.check(t) })
		} else {
			r.check(t)
		}
	}
}

// A run is the check of one property.
type run struct {
	name string
	prop gopter.Prop
	seed int64
	kept bool // try the case that failed before
}

// check checks the property and fails t with what it found.
func (r run) check(t testing.TB) {
	t.Helper()
	t.Logf("simprop: seed %d", r.seed)
	file := keptFile(t.Name(), r.name)
	if r.kept {
		before, err := readKept(file)
		if err != nil {
			t.Errorf("simprop: %v", err)
			return
		}
		for _, at := range before {
			if result := r.prop(at.parameters()); !result.Success() && result.Status != gopter.PropUndecided {
				t.Errorf("simprop: %s: the case of %s still fails\n%s", r.name, file, failureText(result.Status == gopter.PropError, result.Error, result.ErrorStack, result.Labels, result.Args))
				return
			}
		}
	}
	params := gopter.DefaultTestParametersWithSeed(r.seed)
	params.MinSuccessfulTests = *casesFlag
	var last drawn // the last case that was drawn
	var why []string
	result := gopter.Prop(func(p *gopter.GenParameters) *gopter.PropResult {
		last = drawn{p.MaxSize, p.Rng.Int63()}
		result := r.prop(last.parameters())
		if result.Status == gopter.PropUndecided {
			why = result.Labels
		}
		return result
	}).Check(params)
	line := "rerun: " + rerun.Line(t.Name(), "-simprop.seed", fmt.Sprint(r.seed))
	switch result.Status {
	case gopter.TestPassed:
		t.Logf("simprop: %s: holds in %d cases, %d were discarded", r.name, result.Succeeded, result.Discarded)
	case gopter.TestProved:
		t.Logf("simprop: %s: proved: %s", r.name, strings.Join(result.Labels, ", "))
	case gopter.TestExhausted:
		t.Errorf("simprop: %s: gave up: %d cases passed and %d were discarded: %s\n%s", r.name, result.Succeeded, result.Discarded, strings.Join(why, ", "), line)
	default:
		note := "kept: " + file
		if err := last.keep(file, r.name); err != nil {
			note = fmt.Sprintf("not kept: %v", err)
		}
		t.Errorf("simprop: %s: fails after %d cases\n%s\n%s\n%s", r.name, result.Succeeded, failureText(result.Status == gopter.TestError, result.Error, result.ErrorStack, result.Labels, result.Args), note, line)
	}
}

// failureText formats the message of a failure, one line per fact.
func failureText(isError bool, err error, stack []byte, labels []string, args gopter.PropArgs) string {
	var lines []string
	for _, arg := range args {
		lines = append(lines, arg.ArgFormatted)
		if arg.Shrinks > 0 {
			lines = append(lines, "which was drawn as", arg.OrigArgFormatted)
		}
	}
	if isError {
		lines = append(lines, fmt.Sprint(err), string(stack))
	}
	lines = append(lines, labels...)
	return "\t" + strings.ReplaceAll(strings.TrimSpace(strings.Join(lines, "\n")), "\n", "\n\t")
}

// drawn records how a case was drawn, so that it can be drawn again.
type drawn struct {
	size int
	seed int64
}

func (d drawn) parameters() *gopter.GenParameters {
	return gopter.DefaultGenParameters().WithSize(d.size).CloneWithSeed(d.seed)
}

// keptFile returns the name of the file for a property of a test.
func keptFile(test, property string) string {
	name := test
	if !strings.HasSuffix(test, strings.ReplaceAll(property, " ", "_")) {
		name += "/" + property
	}
	return filepath.Join("testdata", "simprop", unprintable.ReplaceAllString(name, "_")+".txt")
}

// unprintable matches what some systems do not allow in file names.
var unprintable = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// readKept returns the cases in a file, or none if the file does not exist.
func readKept(file string) (all []drawn, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var d drawn
		if n, err := fmt.Sscanf(line, "size %d seed %d", &d.size, &d.seed); n != 2 || err != nil {
			return nil, fmt.Errorf("%s:%d: %q is no case: want size N seed N; delete the file", file, i+1, line)
		}
		all = append(all, d)
	}
	return all, nil
}

// keep adds a case to a file.
func (d drawn) keep(file, property string) error {
	before, err := readKept(file)
	if err != nil || slices.Contains(before, d) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("# Cases in which a property of simprop.Run did not hold: %s.\n", strings.ReplaceAll(property, "\n", " "))
	for _, d := range append(before, d) {
		text += fmt.Sprintf("size %d seed %d\n", d.size, d.seed)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
