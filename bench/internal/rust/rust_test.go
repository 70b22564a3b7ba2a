package rust

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
)

func chain() jobs.Job {
	return jobs.Job{Name: "Chain", Params: "data=random/batch=256", CPU: true, Impls: []ratio.Impl{{Name: "hand"}, {Name: "millrace"}}}
}

// TestParse checks what is read of the program's output.
func TestParse(t *testing.T) {
	const line = "BenchmarkChain/impl=dfir/data=random/batch=256 1 5.25 wall-ns/event 4.5 cpu-ns/event\n"
	got, err := parse([]byte(line), chain(), DFIR)
	if want := (ratio.Sample{Wall: 5.25, CPU: 4.5}); err != nil || got != want {
		t.Errorf("parse() = %+v, %v, want %+v", got, err, want)
	}
	for name, out := range map[string]string{
		"nothing":        "",
		"another job":    strings.Replace(line, "random", "predictable", 1),
		"another form":   strings.Replace(line, DFIR, Timely, 1),
		"two lines":      line + line,
		"no time":        strings.Replace(line, "4.5", "0", 1),
		"a broken line":  "BenchmarkChain/impl=dfir/data=random/batch=256 1 5.25\n",
		"something else": "thread 'main' panicked\n",
	} {
		if got, err := parse([]byte(out), chain(), DFIR); err == nil {
			t.Errorf("%s: parse() = %+v, want an error", name, got)
		}
	}
}

// TestAdd checks which jobs have peers, and that adding them leaves the job as it is.
func TestAdd(t *testing.T) {
	all := jobs.All()
	with := 0
	for _, job := range all {
		before := len(job.Impls)
		got := (*Program)(nil).Add(job)
		if len(job.Impls) != before {
			t.Errorf("%s: Add changed the job", job.Label())
		}
		switch n := len(got.Impls) - before; {
		case n == len(forms) && Has(job):
			with++
		case n != 0 || Has(job):
			t.Errorf("%s: Add added %d forms", job.Label(), n)
		}
	}
	if with != 8+8+4+3 {
		t.Errorf("%d jobs have peers, want 23: of Chain, First, FoldEarlyStop and Join", with)
	}
}

func TestVersions(t *testing.T) {
	const manifest = "edition = \"2024\"\n[dependencies]\ndfir_rs = \"=0.16.0\"\nrustc-hash = \"=2.1.3\"\n"
	if got, want := versions("rustc 1.95.0 (59807616e 2026-04-14)\n", manifest), "rustc 1.95.0, dfir_rs 0.16.0, rustc-hash 2.1.3"; got != want {
		t.Errorf("versions() = %q, want %q", got, want)
	}
}

// TestNoCargo checks that the error says what to install.
func TestNoCargo(t *testing.T) {
	t.Setenv("PATH", "")
	if _, err := Build(t.TempDir()); err == nil || !strings.Contains(err.Error(), "install Rust") {
		t.Errorf("Build() = %v, want an error that says to install Rust", err)
	}
}
