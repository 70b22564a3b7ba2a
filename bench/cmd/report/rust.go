package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bench/internal/results"
	"github.com/millrace/millrace/bench/internal/rust"
)

// rustTable formats the jobs that were measured with their peers in Rust, or nothing if there are
// none. The times are medians. The ratios are medians of the ratios within a round, to the form
// whose median is lowest.
func rustTable(set *results.Set, all []jobs.Job) string {
	var measured []jobs.Job
	var where []string
	for _, job := range all {
		if _, ok := set.Of(job); !ok || !slices.ContainsFunc(job.Impls, func(i ratio.Impl) bool { return i.Name == rust.Loop }) {
			continue
		}
		measured = append(measured, job)
		m := set.Machine(job)
		if line := m.String() + "; " + m.Rust; !slices.Contains(where, line) {
			where = append(where, line)
		}
	}
	if len(measured) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", strings.Join(where, "\n\n"))
	fmt.Fprint(&b, "| job | Millrace, ns | hand, ns | best form in Go, ns | DFIR, ns | timely, ns | Rust loop, ns | Millrace to the best engine | Millrace to the best of all |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, job := range measured {
		rustRow(&b, set, job)
	}
	return b.String()
}

// rustRow formats the line of a job.
func rustRow(b *strings.Builder, set *results.Set, job jobs.Job) {
	samples, _ := set.Of(job)
	at := func(name string) int {
		return slices.IndexFunc(job.Impls, func(i ratio.Impl) bool { return i.Name == name })
	}
	millrace, dfir, timely, loop := at("millrace"), at(rust.DFIR), at(rust.Timely), at(rust.Loop)
	time := func(i int) float64 { return ratio.Of(samples[i], job.Time).Median }
	best := func(of ...int) int {
		return slices.MinFunc(of, func(x, y int) int { return cmp.Compare(time(x), time(y)) })
	}
	to := func(i int) string {
		r := ratio.Between(samples[millrace], samples[i], job.Time, ratio.Divide)
		return fmt.Sprintf("%.2f (%s)", r.Median, job.Impls[i].Name)
	}
	var byGo []int
	for i := range job.Impls {
		if !strings.HasPrefix(job.Impls[i].Name, "millrace") && i != dfir && i != timely && i != loop {
			byGo = append(byGo, i)
		}
	}
	inGo, engine := best(byGo...), best(dfir, timely)
	fmt.Fprintf(b, "| %s | %s | %s | %s (%s) | %s | %s | %s | %s | %s |\n", job.Label(), short(time(millrace)), short(time(0)),
		short(time(inGo)), job.Impls[inGo].Name, short(time(dfir)), short(time(timely)), short(time(loop)), to(engine), to(best(inGo, engine, loop)))
}

// short formats a time with three digits.
func short(ns float64) string {
	switch {
	case ns < 10:
		return fmt.Sprintf("%.2f", ns)
	case ns < 100:
		return fmt.Sprintf("%.1f", ns)
	}
	return fmt.Sprintf("%.0f", ns)
}
