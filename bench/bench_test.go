package bench

import (
	"flag"
	"strings"
	"testing"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
)

func BenchmarkChain(b *testing.B)         { run(b, jobs.Chain()) }
func BenchmarkMaps(b *testing.B)          { run(b, jobs.Maps()) }
func BenchmarkOperators(b *testing.B)     { run(b, jobs.Operators()) }
func BenchmarkRecords(b *testing.B)       { run(b, jobs.Records()) }
func BenchmarkPeers(b *testing.B)         { run(b, jobs.Peers()) }
func BenchmarkFirst(b *testing.B)         { run(b, jobs.First()) }
func BenchmarkFoldEarlyStop(b *testing.B) { run(b, jobs.Quorum()) }
func BenchmarkJoin(b *testing.B)          { run(b, jobs.Join()) }
func BenchmarkSnapshot(b *testing.B)      { run(b, jobs.Snapshot()) }
func BenchmarkRoundTrip(b *testing.B)     { run(b, jobs.RoundTrip()) }
func BenchmarkIngress(b *testing.B)       { run(b, jobs.Ingress()) }
func BenchmarkLines(b *testing.B)         { run(b, jobs.Lines()) }
func BenchmarkPuts(b *testing.B)          { run(b, jobs.Puts()) }
func BenchmarkMembers(b *testing.B)       { run(b, jobs.Members()) }
func BenchmarkTimeout(b *testing.B)       { run(b, jobs.Timeout()) }
func BenchmarkWindows(b *testing.B)       { run(b, jobs.Windows()) }
func BenchmarkMachine(b *testing.B)       { run(b, jobs.Machines()) }
func BenchmarkTable(b *testing.B)         { run(b, jobs.Table()) }
func BenchmarkProgram(b *testing.B)       { run(b, jobs.Program()) }
func BenchmarkHTTP(b *testing.B)          { run(b, jobs.HTTP()) }
func BenchmarkRecorded(b *testing.B)      { run(b, jobs.Recorded()) }
func BenchmarkMemory(b *testing.B)        { run(b, jobs.Memory()) }
func BenchmarkCompile(b *testing.B)       { run(b, jobs.Compile()) }
func BenchmarkGrowth(b *testing.B)        { run(b, jobs.Growth()) }

// run benchmarks every implementation of every job. One operation is a whole sample of
// as many events as the job has. The figures are per event and of the last operation,
// so use -count rather than -benchtime.
func run(b *testing.B, all []jobs.Job) {
	for i, job := range all {
		all[i] = jobs.Job{} // releases its input
		for _, impl := range job.Impls {
			name := "impl=" + impl.Name + "/" + job.Params
			if job.Plot != "" {
				name = "plot=" + job.Plot + "/" + name
			}
			b.Run(name, func(b *testing.B) { sample(b, impl) })
		}
	}
}

func sample(b *testing.B, impl ratio.Impl) {
	for b.Loop() {
		s := ratio.Measure([]ratio.Impl{impl}, ratio.Options{Rounds: 1, Cold: true})[0][0]
		for _, f := range ratio.Figures() {
			if x := *f.Of(&s); x != 0 {
				b.ReportMetric(x, f.Unit)
			}
		}
	}
	b.ReportMetric(0, "ns/op") // for a whole sample including its setup, so not useful
}

var every = flag.Bool("every", false, "run every job once, which takes a minute")

// TestImplementationsAgree runs each implementation once. Each checks its own answer, so
// this compares them all. Without -every it runs one job of each kind.
func TestImplementationsAgree(t *testing.T) {
	ran := make(map[string]bool)
	for _, job := range jobs.All() {
		kind := job.Name
		if variant, _, _ := strings.Cut(job.Params, "/"); strings.HasPrefix(variant, "job=") {
			kind += variant
		}
		if !*every && (ran[kind] || job.Name == "Memory" || job.Name == "Compile" || testing.Short() && job.Slow) {
			continue
		}
		ran[kind] = true
		for _, impl := range job.Impls {
			t.Run(job.Label()+"/"+impl.Name, func(t *testing.T) {
				run := impl.New()
				if n := run.Do(); n <= 0 {
					t.Errorf("Do() = %d events, want some", n)
				}
				if run.Close != nil {
					run.Close()
				}
			})
		}
	}
}

// TestTargets checks that targets name existing implementations and that labels are unique.
func TestTargets(t *testing.T) {
	seen := make(map[string]bool)
	for _, job := range append(jobs.All(), jobs.Growth()...) {
		if seen[job.Label()] {
			t.Errorf("%s is there twice", job.Label())
		}
		seen[job.Label()] = true
		samples := make([][]ratio.Sample, len(job.Impls))
		for _, target := range job.Targets {
			job.Judge(target, samples) // panics at an unknown name
		}
	}
}
