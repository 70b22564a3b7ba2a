// Package rust runs jobs with engines in Rust, and as loops in Rust: with the program of
// bench/peers-rust, which is built only when somebody asks for it.
//
// The program does one job in one form for each run, and prints a line as go test -bench
// does.
package rust

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bench/internal/results"
)

// The forms of each job: two engines, and a loop as one would write it by hand.
const (
	DFIR   = "dfir"
	Timely = "timely"
	Loop   = "rust-loop"
)

var forms = []string{DFIR, Timely, Loop}

// peers matches the jobs that the program can do.
var peers = regexp.MustCompile(`^(Chain/data=\w+/batch=\d+|First/key=\w+/keys=\w+|FoldEarlyStop/inflight=\d+/batch=\d+|Join/keys=\d+/slice=256)$`)

// Has reports whether a job has peers in Rust.
func Has(job jobs.Job) bool { return peers.MatchString(job.Label()) }

// A Program is the program of bench/peers-rust.
type Program struct{ path string }

// Build builds the program whose crate is in a directory.
func Build(dir string) (*Program, error) {
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		return nil, errors.New("-rust needs cargo, which is not installed: install Rust 1.88 or later, see https://rustup.rs")
	}
	// The target directory is given, because the environment may name another.
	target := filepath.Join(dir, "target")
	cmd := exec.Command(cargo, "build", "--release", "--locked", "--manifest-path", filepath.Join(dir, "Cargo.toml"), "--target-dir", target)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cargo cannot build %s: %w", dir, err)
	}
	path := filepath.Join(target, "release", "peers-rust")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	return &Program{path}, nil
}

// Versions returns the versions of the compiler and of the crates that a directory's Cargo.toml
// names.
func Versions(dir string) (string, error) {
	compiler, err := exec.Command("rustc", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("rustc --version: %w", err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "Cargo.toml"))
	if err != nil {
		return "", err
	}
	return versions(string(compiler), string(manifest)), nil
}

var pinned = regexp.MustCompile(`(?m)^([\w-]+) = "=([\w.]+)"`)

// versions lists the versions in the answer of rustc and in a Cargo.toml.
func versions(compiler, manifest string) string {
	name, _, _ := strings.Cut(compiler, " (")
	list := []string{strings.TrimSpace(name)}
	for _, m := range pinned.FindAllStringSubmatch(manifest, -1) {
		list = append(list, m[1]+" "+m[2])
	}
	return strings.Join(list, ", ")
}

// Add returns a job with its peers in Rust. A nil program cannot run them: the job is then
// good for samples that were taken before.
func (p *Program) Add(job jobs.Job) jobs.Job {
	if !Has(job) {
		return job
	}
	job.Impls = slices.Clone(job.Impls)
	for _, form := range forms {
		job.Impls = append(job.Impls, ratio.Impl{Name: form, New: func() ratio.Run {
			return ratio.Run{Sample: func() ratio.Sample {
				s, err := p.sample(job, form)
				if err != nil {
					panic(fmt.Sprintf("rust: %s: %v", job.Label(), err))
				}
				return s
			}}
		}})
	}
	return job
}

// sample runs a job once.
func (p *Program) sample(job jobs.Job, form string) (ratio.Sample, error) {
	var wrong bytes.Buffer
	cmd := exec.Command(p.path, job.Label(), form)
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		return ratio.Sample{}, fmt.Errorf("%s: %w\n%s", form, err, wrong.Bytes())
	}
	return parse(out, job, form)
}

// parse returns the sample of a job that the program has printed.
func parse(out []byte, job jobs.Job, form string) (ratio.Sample, error) {
	job.Impls = []ratio.Impl{{Name: form}}
	set, err := results.Read(bytes.NewReader(out), "peers-rust", []jobs.Job{job})
	if err != nil {
		return ratio.Sample{}, err
	}
	samples, ok := set.Of(job)
	if !ok || len(samples[0]) != 1 || job.Time(samples[0][0]) <= 0 {
		return ratio.Sample{}, fmt.Errorf("%s printed no time: %q", form, out)
	}
	return samples[0][0], nil
}
