package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
)

var update = flag.Bool("update", false, "write into doc/proving.md what the programs print")

const chapter = "../../doc/proving.md"

// printed is a testing.TB that records messages and continues after a fatal one.
type printed struct {
	testing.TB
	name string
	text strings.Builder
}

func (p *printed) Name() string { return p.name }
func (p *printed) Helper()      {}
func (p *printed) Logf(format string, args ...any) {
	fmt.Fprintf(&p.text, format+"\n", args...)
}
func (p *printed) Errorf(format string, args ...any) { p.Logf(format, args...) }
func (p *printed) Fatalf(format string, args ...any) { p.Logf(format, args...) }
func (p *printed) Fatal(args ...any)                 { p.Logf("%s", fmt.Sprint(args...)) }

// prints returns the output of a test, with durations replaced by an ellipsis.
func prints(t *testing.T, name string, test func(testing.TB)) string {
	p := &printed{TB: t, name: name}
	test(p)
	return regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s)\b`).ReplaceAllString(p.text.String(), "…")
}

// TestChapter compares doc/proving.md with the programs and their output. After a change of the
// simulator's messages, run it with -update and review the diff.
func TestChapter(t *testing.T) {
	text, err := os.ReadFile(chapter)
	if err != nil {
		t.Fatal(err)
	}
	page, err := filepath.Abs(chapter)
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(source)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 6 {
		t.Errorf("the chapter has %d programs, want 6", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(sources.String(), block[1]) {
			t.Errorf("no file has what the chapter shows:\n%s", block[1])
		}
	}

	t.Chdir(t.TempDir()) // a property that fails writes a file
	seed := flag.Lookup("simprop.seed")
	before := seed.Value.String()
	if err := seed.Value.Set("1"); err != nil {
		t.Fatal(err)
	}
	defer seed.Value.Set(before)
	const name = "one request of a second passes"
	sub := "TestLimits/" + strings.ReplaceAll(name, " ", "_")
	outputs := []string{
		prints(t, "TestRace", func(t testing.TB) { sim.Test(t, race(buildWrong)) }),
		prints(t, "TestRace", func(t testing.TB) { sim.Test(t, race(Build)) }),
		prints(t, sub, func(t testing.TB) { simprop.Run(t, map[string]gopter.Prop{name: limits(buildWrong)}) }),
		prints(t, sub, func(t testing.TB) { simprop.Run(t, map[string]gopter.Prop{name: limits(Build)}) }),
	}
	shown := 0
	now := regexp.MustCompile("(?ms)^```text\n(.*?)^```$").ReplaceAllStringFunc(string(text), func(string) string {
		shown++
		return "```text\n" + outputs[min(shown, len(outputs))-1] + "```"
	})
	switch {
	case shown != len(outputs):
		t.Errorf("the chapter shows %d outputs, want %d", shown, len(outputs))
	case *update:
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	case now != string(text):
		t.Errorf("the programs print\n%s\nand the chapter has something else: run this test with -update", strings.Join(outputs, "\n"))
	}
}
