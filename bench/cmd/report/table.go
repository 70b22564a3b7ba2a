package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bench/internal/results"
)

// table formats the targets, followed by all figures.
func table(set *results.Set, all []jobs.Job) string {
	var b strings.Builder
	fmt.Fprint(&b, targets(set, all))
	fmt.Fprint(&b, "\n### Figures\n\nThe ratio is of processor time or of time on the wall, as the job says.\n\n| job | | processor, ns/event | wall, ns/event | ratio | quartiles | p50, p99 | allocs/event | held, B/event | others |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, job := range all {
		if samples, ok := set.Of(job); ok {
			figures(&b, job, samples)
		}
	}
	return b.String()
}

// targets formats which targets were met, and on which machine.
func targets(set *results.Set, all []jobs.Job) string {
	var b strings.Builder
	fmt.Fprint(&b, machines(set, all))
	fmt.Fprint(&b, "\n| job | what | to | measured | quartiles | target | |\n|---|---|---|---:|---:|---:|---|\n")
	for _, job := range all {
		if samples, ok := set.Of(job); ok {
			for _, t := range job.Targets {
				target(&b, job, t, samples)
			}
		}
	}
	return b.String()
}

// machines formats where and when the samples were taken: a line for each machine and day. If
// there are several, all but that of the most jobs say which jobs they are of.
func machines(set *results.Set, all []jobs.Job) string {
	var order []string
	names, count := make(map[string][]string), make(map[string]int)
	for _, job := range all {
		if _, ok := set.Of(job); !ok {
			continue
		}
		m := set.Machine(job).String()
		if count[m] == 0 {
			order = append(order, m)
		}
		count[m]++
		if !slices.Contains(names[m], job.Name) {
			names[m] = append(names[m], job.Name)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return count[b] - count[a] })
	var b strings.Builder
	for i, m := range order {
		if i > 0 {
			fmt.Fprintf(&b, "\nMeasured elsewhere or on another day, some or all of %s: ", strings.Join(names[m], ", "))
		}
		fmt.Fprintln(&b, m)
	}
	return b.String()
}

// target formats whether a target was met.
func target(b *strings.Builder, job jobs.Job, t jobs.Target, samples [][]ratio.Sample) {
	got := job.Judge(t, samples)
	of, to := t.Of, t.To
	if of == "" {
		of = "millrace"
	}
	if to == "" {
		to = job.Impls[0].Name
	}
	what, unit := "time", ""
	switch t.What {
	case jobs.P50Ratio:
		what = "p50"
	case jobs.P99:
		what, to, unit = "p99", "", " ns"
	case jobs.More:
		what, unit = "time beyond", " ns"
	case jobs.Held:
		what, to, unit = "memory", "", " B"
	}
	verdict := "met"
	if got.Median > t.AtMost {
		verdict = "**missed**"
	}
	digits := 2
	switch t.What {
	case jobs.P99, jobs.More:
		digits = 0
	case jobs.Held:
		digits = 1
	}
	fmt.Fprintf(b, "| %s | %s of %s | %s | %.*f%s | %.*f–%.*f | %.*f%s | %s |\n", job.Label(), what, of, to,
		digits, got.Median, unit, digits, got.Low, digits, got.High, digits, t.AtMost, unit, verdict)
}

// figures formats a line for each implementation.
func figures(b *strings.Builder, job jobs.Job, samples [][]ratio.Sample) {
	for i, impl := range job.Impls {
		label := ""
		if i == 0 {
			label = job.Label()
		}
		related, quartiles := "", ""
		if i > 0 {
			r := ratio.Between(samples[i], samples[0], job.Time, ratio.Divide)
			related, quartiles = fmt.Sprintf("%.2f", r.Median), fmt.Sprintf("%.2f–%.2f", r.Low, r.High)
		}
		median := func(figure ratio.Figure) float64 { return ratio.Of(samples[i], figure).Median }
		cpu := fmt.Sprintf("%.1f", median(func(s ratio.Sample) float64 { return s.CPU }))
		wall := fmt.Sprintf("%.1f", median(func(s ratio.Sample) float64 { return s.Wall }))
		latency := ""
		if p50 := median(func(s ratio.Sample) float64 { return s.P50 }); p50 > 0 {
			latency = fmt.Sprintf("%.0f, %.0f", p50, median(func(s ratio.Sample) float64 { return s.P99 }))
		}
		held := ""
		if h := median(func(s ratio.Sample) float64 { return s.Held }); h > 0 {
			held = fmt.Sprintf("%.1f", h)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %.3f | %s | %.1f |\n", label, impl.Name, cpu, wall, related, quartiles,
			latency, median(func(s ratio.Sample) float64 { return s.Allocs }), held, median(func(s ratio.Sample) float64 { return s.Others }))
	}
}
