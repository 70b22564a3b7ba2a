// Command check fails if a job has become much slower compared to the same job written by
// hand: if a ratio is above twice its target, or above the bound that its job records.
//
//	go run ./cmd/check [-job Chain]
//
// It measures processor time, and leaves out jobs for which only wall time is meaningful. A
// job fails only if it exceeds its bounds in three tries in a row, the later ones with more
// rounds, because other work on the machine shares its caches.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
)

// tries are the numbers of rounds of the tries.
var tries = []int{3, 7, 7}

func main() {
	only := flag.String("job", "", "check only jobs that match this `pattern`")
	flag.Parse()
	pattern := regexp.MustCompile(*only)
	start := time.Now()
	failed, checked := 0, 0
	all := jobs.All()
	for i, job := range all {
		all[i] = jobs.Job{} // frees its input
		if !job.CPU || job.Slow || len(job.Targets) == 0 || !pattern.MatchString(job.Label()) {
			continue
		}
		checked++
		var wrong []string
		for _, rounds := range tries {
			if wrong = exceeded(job, rounds); len(wrong) == 0 {
				break
			}
		}
		for _, w := range wrong {
			fmt.Println(w)
			failed++
		}
	}
	fmt.Printf("%d jobs checked in %.0fs, %d ratios too high\n", checked, time.Since(start).Seconds(), failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// exceeded measures a job and describes the bounds that it exceeds.
func exceeded(job jobs.Job, rounds int) (wrong []string) {
	samples := ratio.Measure(relevant(&job), ratio.Options{Rounds: rounds, Cold: true})
	for _, t := range job.Targets {
		if t.What == jobs.P99 {
			continue // latencies exist only in wall time
		}
		if got, allowed := job.Judge(t, samples).Median, job.Allowed(t, samples); got > allowed {
			wrong = append(wrong, fmt.Sprintf("%s: %.2f, aimed at %.2f, allowed %.2f", job.Label(), got, t.AtMost, allowed))
		}
	}
	return wrong
}

// relevant returns the implementations that the job's targets concern.
func relevant(job *jobs.Job) []ratio.Impl {
	kept := job.Impls[:0:0]
	for i, impl := range job.Impls {
		for _, t := range job.Targets {
			of, to := t.Of, t.To
			if of == "" {
				of = "millrace"
			}
			if impl.Name == of || impl.Name == to || to == "" && i == 0 {
				kept = append(kept, impl)
				break
			}
		}
	}
	job.Impls = kept
	return kept
}
