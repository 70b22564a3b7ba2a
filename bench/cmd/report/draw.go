package main

import (
	"path/filepath"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/plots"
	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bench/internal/results"
)

// draw makes a plot for each kind of growth.
func draw(set *results.Set, all []jobs.Job, dir string) error {
	for _, d := range []struct {
		file, plot string
		figure     func(jobs.Job) ratio.Figure
		plots.Plot
	}{
		{"keys-known.svg", "keys-known", cost, plots.Plot{Title: "First, every key known", X: "keys", Y: "ns per event"}},
		{"keys-new.svg", "keys-new", cost, plots.Plot{Title: "First, every key new", X: "keys", Y: "ns per event"}},
		{"memory.svg", "keys-new", held, plots.Plot{Title: "First, memory kept", X: "keys", Y: "bytes per key"}},
		{"operators.svg", "operators", cost, plots.Plot{Title: "A chain of maps, then a sum", X: "operators", Y: "ns per event", LogY: true}},
		{"members.svg", "members", cost, plots.Plot{Title: "FoldEarlyStop divided over members", X: "members", Y: "ns per event"}},
		{"lanes.svg", "lanes", cost, plots.Plot{Title: "Request and answer, 8 callers, keys divided over lanes", X: "lanes", Y: "ns per request"}},
	} {
		d.Lines = lines(set, all, d.plot, d.figure)
		if len(d.Lines) == 0 {
			continue
		}
		if err := d.Save(filepath.Join(dir, d.file)); err != nil {
			return err
		}
	}
	return nil
}

func cost(job jobs.Job) ratio.Figure { return job.Time }

func held(jobs.Job) ratio.Figure { return func(s ratio.Sample) float64 { return s.Held } }

// lines returns a line for each implementation in a plot's jobs.
func lines(set *results.Set, all []jobs.Job, plot string, figure func(jobs.Job) ratio.Figure) []plots.Line {
	var lines []plots.Line
	for _, job := range all {
		samples, ok := set.Of(job)
		if job.Plot != plot || !ok {
			continue
		}
		for i, impl := range job.Impls {
			if i == len(lines) {
				lines = append(lines, plots.Line{Name: impl.Name})
			}
			s := ratio.Of(samples[i], figure(job))
			lines[i].Points = append(lines[i].Points, plots.Point{X: job.X, Low: s.Low, Median: s.Median, High: s.High})
		}
	}
	return lines
}
