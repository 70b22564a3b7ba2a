package sim

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
)

// savedIn is the folder of failed schedules.
const savedIn = "testdata/sim"

// savedFormat is the first line of a saved schedule.
const savedFormat = "millrace: a schedule that failed, version 1"

// A savedSchedule is a schedule that has failed.
type savedSchedule struct {
	test, spec, property, trace string
}

// identity returns a digest of the operators and the names of a specification. Specifications
// that differ only in other respects have the same identity.
func (p *plan) identity() string {
	f := dataflow.New()
	p.build(f)
	h := sha256.New()
	for _, name := range p.clients {
		fmt.Fprintf(h, "client %q\n", name)
	}
	for _, s := range graphOf(f).Locations {
		fmt.Fprintf(h, "location %q\n", s.Name)
		for _, op := range s.Ops {
			fmt.Fprintf(h, "%q %q\n", op.Name, op.Why)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// rerunSaved runs the saved schedules of a test.
func (p *plan) rerunSaved(t testing.TB) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(savedIn, fileName(t.Name())+"-*.txt"))
	if err != nil {
		t.Fatalf("sim: %v", err)
	}
	for _, path := range files {
		all, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("sim: %v", err)
		}
		is, err := parseSaved(all)
		if err != nil {
			t.Fatalf("sim: %s: %v: delete the file, or write it again by a test that fails", path, err)
		}
		if is.test != t.Name() {
			continue
		}
		c, err := scriptOf(is.trace)
		if err != nil {
			t.Fatalf("sim: %s: %v", path, err)
		}
		x := p.subject(t.Context())
		run := x.execute(c, nil)
		if run.failed {
			f := &Failure{Property: run.property, Err: run.err, Counterexample: x.counterexample(run)}
			t.Fatalf("%s\nit has failed before, see %s", f.story(t.Name()), path)
		}
		note := ""
		if is.spec != p.identity() {
			note = ", and is of another program or other clients: delete it"
		}
		t.Logf("sim: the schedule of %s does not fail%s", path, note)
	}
}

// save writes a failed schedule to a file, and returns a message that says where.
func (p *plan) save(t testing.TB, f *Failure) string {
	t.Helper()
	is := savedSchedule{t.Name(), p.identity(), f.Property, f.Counterexample.Trace()}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{is.test, is.spec, is.trace}))
	path := filepath.Join(savedIn, fmt.Sprintf("%s-%x.txt", fileName(is.test), sum[:4]))
	text := fmt.Sprintf("%s\ntest: %s\nspec: %s\nproperty: %s\ntrace: %s\n\n%v", savedFormat, is.test, is.spec,
		strings.Join(strings.Fields(is.property), " "), is.trace, f.Counterexample)
	err := os.MkdirAll(savedIn, 0o777)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o666)
	}
	if err != nil {
		return fmt.Sprintf("the schedule could not be saved: %v", err)
	}
	return "saved: " + path
}

// parseSaved reads a saved schedule. Its lines have any length: a flow that never becomes quiet makes 100,000 choices.
func parseSaved(all []byte) (s savedSchedule, err error) {
	line, rest, _ := cutLine(string(all))
	if line != savedFormat {
		return s, fmt.Errorf("the first line is not %q", savedFormat)
	}
	for _, x := range []struct {
		name string
		to   *string
	}{{"test", &s.test}, {"spec", &s.spec}, {"property", &s.property}, {"trace", &s.trace}} {
		var found bool
		if line, rest, found = cutLine(rest); !found {
			return s, fmt.Errorf("it has no line %q", x.name)
		}
		value, ok := strings.CutPrefix(line, x.name+": ")
		if !ok {
			return s, fmt.Errorf("it has %q instead of a line %q", line, x.name)
		}
		*x.to = value
	}
	return s, nil
}

// cutLine returns the first line of a text without its end, and what follows. It reports whether there is one.
func cutLine(text string) (line, rest string, found bool) {
	line, rest, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r"), rest, text != ""
}

// fileName converts the name of a test to part of a file name. Different tests may have the same
// one.
func fileName(test string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, test)
	const most = 100
	return name[:min(len(name), most)]
}
