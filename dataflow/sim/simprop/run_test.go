package simprop_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow/sim/simprop"
)

// A recorder is a test that records its output.
type recorder struct {
	testing.TB
	name   string
	said   []string
	failed bool
}

func (r *recorder) Name() string { return r.name }
func (r *recorder) Helper()      {}
func (r *recorder) Logf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.Logf(format, args...)
}

// run checks properties in a recorder and returns it.
func run(t *testing.T, props map[string]gopter.Prop) *recorder {
	r := &recorder{TB: t, name: "TestIt"}
	simprop.Run(r, props)
	return r
}

// TestRunKeeps checks that a failed case is saved and tried first until it holds. It catches a file
// that is not read, and one that is read but draws another case.
func TestRunKeeps(t *testing.T) {
	t.Chdir(t.TempDir())
	const name = "no batch is over 100"
	tried := 0
	prop := func(holds bool) map[string]gopter.Prop {
		return map[string]gopter.Prop{name: func(params *gopter.GenParameters) *gopter.PropResult {
			tried++
			if holds {
				return gopter.NewPropResult(true, "")
			}
			return batches(gen.IntRange(0, 60))(params)
		}}
	}
	first := run(t, prop(false))
	if !first.failed || !regexp.MustCompile(`^simprop: seed \d+$`).MatchString(first.said[0]) {
		t.Fatalf("the first lines are %q; failed: %v", first.said, first.failed)
	}
	smallest := regexp.MustCompile(`client 1: xs \d+, xs \d+\n`)
	found := smallest.FindString(first.said[1])
	if found == "" {
		t.Fatalf("it says\n%s", first.said[1])
	}
	file := "testdata/simprop/TestIt_no_batch_is_over_100.txt"
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "\n") != 2 {
		t.Fatalf("the file has %q, %v", text, err)
	}

	tried = 0
	if again := run(t, prop(false)); !again.failed || tried != 1 || smallest.FindString(again.said[1]) != found || !strings.Contains(again.said[1], file) {
		t.Errorf("%d cases were tried before it says\n%s\nand before that it said\n%s", tried, again.said[1], first.said[1])
	}
	tried = 0
	if holds := run(t, prop(true)); holds.failed || tried != 101 || !strings.Contains(holds.said[1], "holds in 100 cases") {
		t.Errorf("%d cases were tried, and it says %q", tried, holds.said)
	}

	if err := os.WriteFile(file, []byte("size 1 seed x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if bad := run(t, prop(true)); !bad.failed || !strings.Contains(bad.said[1], `txt:1: "size 1 seed x" is no case`) {
		t.Errorf("of a damaged file it says %q", bad.said)
	}
}

// TestRunReports checks that the output distinguishes a property that fails from one that cannot be
// decided, one that is itself wrong, and one that is proved.
func TestRunReports(t *testing.T) {
	t.Chdir(t.TempDir())
	result := func(status gopter.PropResult) gopter.Prop {
		return func(*gopter.GenParameters) *gopter.PropResult {
			r := status
			return &r
		}
	}
	tests := []struct {
		prop   gopter.Prop
		failed bool
		want   string
	}{
		{result(gopter.PropResult{Status: gopter.PropTrue}), false, "holds in 100 cases, 0 were discarded"},
		{result(gopter.PropResult{Status: gopter.PropProof, Labels: []string{"9 cases"}}), false, "proved: 9 cases"},
		{result(gopter.PropResult{Status: gopter.PropFalse, Labels: []string{"so it is"}}), true, "fails after 0 cases\n\tso it is\nkept: testdata"},
		{result(gopter.PropResult{Status: gopter.PropUndecided, Labels: []string{"too large"}}), true, "gave up: 0 cases passed and 101 were discarded: too large\nrerun: go test"},
		{result(gopter.PropResult{Status: gopter.PropError, Error: fmt.Errorf("wrong itself")}), true, "fails after 0 cases\n\twrong itself"},
		{gopter.SaveProp(func(*gopter.GenParameters) *gopter.PropResult { panic("oh") }), true, "Check paniced: oh\n\tgoroutine "},
	}
	for i, test := range tests {
		r := run(t, map[string]gopter.Prop{fmt.Sprint("property ", i): test.prop})
		if r.failed != test.failed || len(r.said) != 2 || !strings.Contains(r.said[1], test.want) {
			t.Errorf("it says %q (failed: %v), want %q", r.said, r.failed, test.want)
		}
	}
	panics(t, "simprop: Run: the function given at", func() { run(t, map[string]gopter.Prop{"nil": nil}) })
}

// TestRerunLine runs the line that a property in a nested sub-test prints, as a user does who
// copies it. It must find the same case, in that property alone. It catches names that are read as
// regular expressions or by the shell, and a seed that draws other cases.
func TestRerunLine(t *testing.T) {
	shell := func(line string) string {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = "testdata/rerun"
		out, err := cmd.CombinedOutput()
		if _, failed := err.(*exec.ExitError); !failed {
			t.Fatalf("%s: %v: it does not fail:\n%s", line, err, out)
		}
		return string(out)
	}
	printed := regexp.MustCompile(`rerun: (go test -run '\^TestSums\$/\^it'\\''s_\\\[a\\\]_\\\(b\\\)\$/\^below_10\\\*10_\\\$x\$' -simprop\.seed \d+)\n`)
	smallest := regexp.MustCompile(`client 1: xs .*\n`)
	out := shell("go test .")
	line := printed.FindStringSubmatch(out)
	if line == nil {
		t.Fatalf("no line matches %v in\n%s", printed, out)
	}
	again := shell(line[1] + " -v")
	if got, want := smallest.FindString(again), smallest.FindString(out); got == "" || got != want {
		t.Errorf("it finds %q, and before %q", got, want)
	}
	if n := strings.Count(again, "=== RUN"); n != 3 || strings.Contains(again, "10,000") {
		t.Errorf("%s\nruns %d tests:\n%s", line[1], n, again)
	}
	if seed := printed.FindStringSubmatch(again); seed == nil || seed[1] != line[1] {
		t.Errorf("it prints another line: %q, before it was %q", seed, line)
	}
}
