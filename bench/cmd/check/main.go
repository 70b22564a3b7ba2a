// Command check fails if a job has become much slower against the same job by hand:
// if a ratio is above twice its target, or above the bound that its job records.
//
//	go run ./cmd/check [-job Chain]
//
// It counts processor time, so jobs for which only the time on the wall says anything
// are left out, and a job fails after three tries in a row, the later ones with more rounds:
// what else the machine does shares its caches.
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

// tries are the rounds of each try.
var tries = []int{3, 7, 7}

func main() {
	only := flag.String("job", "", "check only jobs that match this `pattern`")
	flag.Parse()
	pattern := regexp.MustCompile(*only)
	start := time.Now()
	failed, checked := 0, 0
	all := jobs.All()
	for i, job := range all {
		all[i] = jobs.Job{} // lets go of its input
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

// exceeded measures a job and says which of its bounds it exceeds.
func exceeded(job jobs.Job, rounds int) (wrong []string) {
	samples := ratio.Measure(relevant(&job), ratio.Options{Rounds: rounds, Cold: true})
	for _, t := range job.Targets {
		if t.What == jobs.P99 {
			continue // of latencies, only time on the wall can be had
		}
		if got, allowed := job.Judge(t, samples).Median, job.Allowed(t, samples); got > allowed {
			wrong = append(wrong, fmt.Sprintf("%s: %.2f, aimed at %.2f, allowed %.2f", job.Label(), got, t.AtMost, allowed))
		}
	}
	return wrong
}

// relevant leaves the job with the implementations that its targets are about.
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
