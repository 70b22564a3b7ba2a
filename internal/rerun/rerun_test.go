package rerun_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rerun"
)

// TestLine checks the quoting of names that a shell or a regular expression would change.
func TestLine(t *testing.T) {
	tests := []struct {
		name  string
		flags []string
		want  string
	}{
		{"TestSub", nil, `go test -run '^TestSub$'`},
		{"TestSub/a_(b)_[c]", []string{"-sim.replay", "0.2.1"}, `go test -run '^TestSub$/^a_\(b\)_\[c\]$' -sim.replay 0.2.1`},
		{"TestSub/a (b) [c]", nil, `go test -run '^TestSub$/^a_\(b\)_\[c\]$'`},
		{"FuzzIt/seed#1", []string{"-sim.replay", "*1"}, `go test -run '^FuzzIt$/^seed#1$' -sim.replay '*1'`},
		{"TestSub/it's/$x|y", nil, `go test -run '^TestSub$/^it'\''s$/^\$x\|y$'`},
		{`TestSub/\x00`, nil, `go test -run '^TestSub$/^\\x00$'`},
		{"TestSub/", []string{""}, `go test -run '^TestSub$/^$' ''`},
	}
	for _, test := range tests {
		if got := rerun.Line(test.name, test.flags...); got != test.want {
			t.Errorf("Line(%q, %q) = %s\nwant %s", test.name, test.flags, got, test.want)
		}
	}
}

// TestShell checks the quoting with a real shell, which prints the words of the line.
func TestShell(t *testing.T) {
	flags := []string{"*", "a b", "'", `"`, `\`, "$HOME", "`x`", "#", "a;b", "~", "é", "!", ""}
	out, err := exec.Command("sh", "-c", "printf '%s\\n' "+strings.TrimPrefix(rerun.Line("TestIt", flags...), "go test -run ")).CombinedOutput()
	if want := "^TestIt$\n" + strings.Join(flags, "\n") + "\n"; err != nil || string(out) != want {
		t.Errorf("%v: the shell reads\n%swant\n%s", err, out, want)
	}
}
