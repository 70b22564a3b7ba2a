package sim_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// shell runs a line in the directory of the failing tests, and returns its output.
func shell(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = "testdata/rerun"
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); !failed {
		t.Fatalf("%s: %v: it does not fail:\n%s", line, err, out)
	}
	return string(out)
}

// linesOf returns what follows prefix in each line that contains it.
func linesOf(out, prefix string) (all []string) {
	for line := range strings.Lines(out) {
		if _, rest, ok := strings.Cut(strings.TrimSpace(line), prefix); ok {
			all = append(all, rest)
		}
	}
	return all
}

// TestRerunLine runs the lines that failures print, as a user does who copies them. Each must run
// the failed schedule of the failed test, and nothing else. It catches names that are read as
// regular expressions or by the shell, and entry points that ignore the flag.
func TestRerunLine(t *testing.T) {
	out := shell(t, "go test .")
	lines := linesOf(out, "rerun: ")
	want := []string{
		`go test -run '^TestSub$/^a_\(b\)_\[c\]$' -sim.replay 1`,
		`go test -run '^TestSub$/^a_b_c$' -sim.replay 1`,
		`go test -run '^TestSub$/^a_\(b\)_\[c\]_d$' -sim.replay 1`,
		`go test -run '^TestSub$/^it'\''s_\$1_\|_x$/^y\*$' -sim.replay 1`,
		`go test -run '^TestChosen$/^at_random$' -sim.replay '*1.1'`,
		`go test -run '^FuzzIt$/^seed#1$' -sim.replay 1`,
	}
	if !slices.Equal(lines, want) {
		t.Fatalf("the lines are\n%s\nwant\n%s\nof\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"), out)
	}
	for _, line := range lines {
		again := shell(t, line+" -v")
		if ran, failed := linesOf(again, "=== RUN   "), linesOf(again, "--- FAIL: "); len(ran) != 2 || !strings.HasPrefix(failed[1], ran[1]+" (") {
			t.Errorf("%s\nruns %q, of which fail %q", line, ran, failed)
		}
		_, trace, _ := strings.Cut(line, "-sim.replay ")
		if said := linesOf(again, "sim: the schedule "); len(said) != 1 || said[0] != strings.Trim(trace, "'") {
			t.Errorf("%s\nruns the schedules %q", line, said)
		}
	}
}
