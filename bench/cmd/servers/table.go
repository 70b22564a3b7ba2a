package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/bench/internal/ratio"
)

// A table is the table of bench/README.md.
type table struct {
	head string
	rows strings.Builder
}

// add adds the row of a form, whose rates are compared with those of the bare form in the same rounds.
func (t *table) add(server string, f form, callers int, samples, bare []sample) {
	spread := func(of func(round int) float64) ratio.Spread {
		xs := make([]float64, len(samples))
		for i := range xs {
			xs[i] = of(i)
		}
		return ratio.SpreadOf(xs)
	}
	took := func(of func(s sample) time.Duration) string {
		return micros(time.Duration(spread(func(i int) float64 { return float64(of(samples[i])) }).Median))
	}
	rate := spread(func(i int) float64 { return samples[i].rate })
	relative := spread(func(i int) float64 { return samples[i].rate / bare[i].rate })
	ofBare, quartiles, target, verdict := "", "", "", ""
	if f.name != "bare" {
		ofBare, quartiles = fmt.Sprintf("%.2f", relative.Median), fmt.Sprintf("%.2f–%.2f", relative.Low, relative.High)
	}
	if least, ok := f.targets[callers]; ok {
		target, verdict = fmt.Sprintf("%.2f", least), "met"
		if relative.Median < least {
			verdict = "**missed**"
		}
	}
	fmt.Fprintf(&t.rows, "| %s | %d | %s | %.0f | %s | %s | %s | %s | %s | %s | %s | %s |\n", server, callers, f.name, rate.Median,
		ofBare, quartiles, target, verdict,
		took(func(s sample) time.Duration { return s.server }), took(func(s sample) time.Duration { return s.all }),
		took(func(s sample) time.Duration { return s.p50 }), took(func(s sample) time.Duration { return s.p99 }))
}

// micros formats a duration in microseconds with three digits.
func micros(d time.Duration) string {
	switch us := float64(d) / float64(time.Microsecond); {
	case us < 10:
		return fmt.Sprintf("%.2f", us)
	case us < 100:
		return fmt.Sprintf("%.1f", us)
	default:
		return fmt.Sprintf("%.0f", us)
	}
}

func (t *table) String() string {
	return t.head + `

| server | callers | form | calls/s | of the bare rate | quartiles | target | | µs of processor a call | of all processes | p50 µs | p99 µs |
|---|---:|---|---:|---:|---:|---:|---|---:|---:|---:|---:|
` + t.rows.String()
}
