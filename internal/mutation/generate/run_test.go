package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	tried = `package p

func Max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func Down(n int) (sum int) {
	for n > 0 {
		sum += n
		n--
	}
	return sum
}

func Unused(n int) int {
	if n > 5 {
		return n
	}
	return 0
}

func Half(n int) int { return n / 2 }

func Third(n int) int { return n / 3 }

func Shift(n uint) uint {
	var list [1]uint
	list[0] = n << 1
	return list[0]
}
`
	few    = "package p\n\nimport \"testing\"\n\nfunc TestFew(t *testing.T) {\n\tif Max(2, 1) != 2 || Down(3) != 6 || Half(4) != 2 {\n\t\tt.Error()\n\t}\n}\n"
	chance = `package p

import (
	"os"
	"testing"
)

func TestChance(t *testing.T) {
	if Third(6) != 2 && os.Remove("failed") != nil {
		os.WriteFile("failed", nil, 0o600)
		t.Error()
	}
}
`
	more = "package p_test\n\nimport (\n\t\"testing\"\n\n\t\"example.org/m/p\"\n)\n\nfunc TestMore(t *testing.T) {\n\tif p.Unused(6) != 6 || p.Unused(5) != 0 || p.Shift(3) != 6 {\n\t\tt.Error()\n\t}\n}\n"
)

// TestRun tries all mutants of a small module, simulates an interruption, and continues with a test
// of another package. It catches:
//
//   - a mutant that is compiled into the wrong place or never takes effect,
//   - tests that reach a mutant and are not run,
//   - a mutant that hangs or does not compile and affects other mutants,
//   - a mutant that is killed by a test that fails every other time,
//   - a result that is lost, or kept for a source that has changed.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOFLAGS", "")
	t.Chdir(dir)
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/m\n\ngo 1.26\n")
	write("p/p.go", tried)
	write("p/p_test.go", few)
	write("p/chance_test.go", chance)
	write("q/q_test.go", strings.Replace(more, "p_test", "q_test", 1))
	write("q/q.go", "package q\n")
	o := options{in: []string{"p"}, budget: time.Minute, patience: time.Second, results: filepath.Join(dir, "results")}
	var out bytes.Buffer
	check := func(when string, want map[string]int, parts ...string) {
		t.Helper()
		out.Reset()
		err := run(o, &out)
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprint(want["survived"]+want["uncovered"], " mutants survive")) {
			t.Errorf("%s it ends with %v", when, err)
		}
		got := make(map[string]int)
		for line := range strings.Lines(out.String()) {
			if word, _, ok := strings.Cut(line, " "); ok && called(word) >= 0 {
				got[word]++
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s there are %v, want %v", when, got, want)
		}
		for _, part := range parts {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s it does not say %q", when, part)
			}
		}
		if t.Failed() {
			t.Fatal(out.String())
		}
	}
	kept := func(want int) (text []byte) {
		t.Helper()
		text, err := os.ReadFile(o.results)
		if n := bytes.Count(text, []byte("\n")); err != nil || n != want {
			t.Fatalf("%d results are kept, want %d, %v", n, want, err)
		}
		return text
	}
	check("with few tests", map[string]int{"killed": 6, "survived": 5, "uncovered": 10, "invalid": 5},
		`Down drop 0: "" by p: time is up`, `Max negate 0: "!(a > b)" by p: TestFew`, "| p | 21 | 6 | 5 | 0 | 10 | 28.6 % |")
	text := kept(26)
	write("results", string(text[:len(text)-5])) // as if the run was interrupted in the last line
	o.tests = []string{"q"}
	check("with another test", map[string]int{"killed": 15, "survived": 6, "invalid": 5}, `Unused negate 0: "!(n > 5)" by q: TestMore`)
	kept(25 + 15) // 15 were tried again: those not killed, including the last one
	write("p/p.go", tried+"\n// Another source.\n")
	check("with another source", map[string]int{"killed": 15, "survived": 6, "invalid": 5})
	kept(40 + 26)

	o.only = regexp.MustCompile("Unused negate|Shift")
	out.Reset()
	if err := run(o, &out); err == nil || strings.Count(out.String(), "p/p.go:") != strings.Count(out.String(), " Unused negate")+strings.Count(out.String(), " Shift ") ||
		!strings.Contains(out.String(), `Unused negate 0: "!(n > 5)" by q: TestMore`) {
		t.Errorf("-only of two functions: %v\n%s", err, &out)
	}
	o.only = regexp.MustCompile("nobody")
	if err := run(o, &out); err == nil || !strings.Contains(err.Error(), "no such mutants") {
		t.Errorf("-only of nothing: %v", err)
	}
	o.only = nil

	write("results", "nonsense\n")
	if err := run(o, &out); err == nil || !strings.Contains(err.Error(), "is no result") {
		t.Errorf("a file of results that is none is read: %v", err)
	}
	write("results", "")
	write("q/q_test.go", "package q\n\nnothing\n")
	if err := run(o, &out); err == nil || !strings.Contains(err.Error(), "q: its tests do not compile") {
		t.Errorf("tests that do not compile: %v", err)
	}
}
