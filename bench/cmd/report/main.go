// Command report measures every implementation of every job, in turns and in one
// process, and makes the table and the plots of bench/README.md from the samples.
//
//	go run ./cmd/report                          # all of it, a quarter of an hour
//	go run ./cmd/report -job Chain -rounds 15    # some jobs
//	go run ./cmd/report -from results/samples.txt -out results    # no measuring
//	go run ./cmd/report -rust peers-rust         # with DFIR, timely and loops in Rust
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bench/internal/results"
	"github.com/millrace/millrace/bench/internal/rust"
)

func main() {
	only := flag.String("job", "", "take only jobs that match this `pattern`, such as RoundTrip/job=map")
	rounds := flag.Int("rounds", 9, "how often each implementation runs")
	patience := flag.Int("patience", 0, "how often a run on the wall is repeated while others use the processors")
	from := flag.String("from", "", "take samples from this `file` instead of measuring; jobs that match -job are measured all the same")
	out := flag.String("out", "", "write samples, table and plots to this `directory`; empty means print the table only")
	readme := flag.String("readme", "", "put the table of targets into this `file`, and the table of peers in Rust if there are samples of them")
	crate := flag.String("rust", "", "build the crate in this `directory` and measure its peers with the jobs that have them; with -from, measure those jobs that match -job")
	flag.Parse()
	pattern := regexp.MustCompile(*only)

	here := machine()
	var program *rust.Program
	if *crate != "" {
		program, here.Rust = build(*crate)
	}
	all := slices.Concat(jobs.All(), jobs.Growth())
	withRust := make([]jobs.Job, len(all))
	for i, job := range all {
		withRust[i] = program.Add(job)
	}
	set := results.NewSet()
	if *from != "" {
		set = read(*from, withRust)
	}
	for i, job := range all {
		measured := *from == "" || *only != ""
		if program != nil {
			measured = *from == "" || rust.Has(job)
			job = withRust[i]
		}
		if measured && pattern.MatchString(job.Label()) {
			where := here
			if !rust.Has(job) {
				where.Rust = ""
			}
			measure(set, where, job, *rounds, *patience)
		}
		if _, ok := set.Of(withRust[i]); ok {
			all[i] = withRust[i]
		}
	}
	table := table(set, all)
	fmt.Print(table)
	if *readme != "" {
		must(results.Insert(*readme, "table", targets(set, all)))
		if text := rustTable(set, all); text != "" {
			must(results.Insert(*readme, "rust", text))
		}
	}
	if *out == "" {
		return
	}
	write(filepath.Join(*out, "samples.txt"), func(f *os.File) error { return set.Write(f, all) })
	write(filepath.Join(*out, "table.md"), func(f *os.File) error {
		_, err := f.WriteString(table)
		return err
	})
	must(draw(set, all, *out))
}

// build builds the crate in a directory and returns its program and the versions of what it is built with.
func build(crate string) (*rust.Program, string) {
	program, err := rust.Build(crate)
	must(err)
	versions, err := rust.Versions(crate)
	must(err)
	return program, versions
}

// measure takes the samples of a job. It first collects garbage, to free the input
// of the last job.
func measure(set *results.Set, here results.Machine, job jobs.Job, rounds, patience int) {
	if job.Rounds != 0 {
		rounds = min(rounds, job.Rounds)
	}
	if job.CPU {
		patience = 0
	}
	start := time.Now()
	set.Add(here, job, ratio.Measure(job.Impls, ratio.Options{Rounds: rounds, Patience: patience}))
	fmt.Fprintf(os.Stderr, "%s: %.1fs\n", job.Label(), time.Since(start).Seconds())
}

func read(file string, all []jobs.Job) *results.Set {
	f, err := os.Open(file)
	must(err)
	defer f.Close()
	set, err := results.Read(f, file, all)
	must(err)
	return set
}

func write(file string, to func(*os.File) error) {
	f, err := os.Create(file)
	must(err)
	must(to(f))
	must(f.Close())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// machine describes this machine.
func machine() results.Machine {
	return results.Machine{
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Processors: fmt.Sprint(runtime.GOMAXPROCS(0)),
		Processor: processor(), Date: time.Now().UTC().Format(time.DateOnly),
	}
}

// processor returns the system's name for the processor, or "unknown".
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
