package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bench/internal/results"
)

func job() jobs.Job {
	return jobs.Job{
		Name: "First", Params: "keys=10", CPU: true, Plot: "keys-new", X: 10,
		Impls:   []ratio.Impl{{Name: "hand"}, {Name: "millrace"}},
		Targets: []jobs.Target{{AtMost: .8}, {What: jobs.Held, AtMost: 24}, {What: jobs.P99, AtMost: 500}},
	}
}

func TestTable(t *testing.T) {
	set := results.NewSet()
	set.Add(results.Machine{Go: "go1.26"}, job(), [][]ratio.Sample{{{CPU: 10, Wall: 11, P99: 1}}, {{CPU: 9, Wall: 12, Held: 21.5, P99: 600}}})
	got := table(set, []jobs.Job{job(), {Name: "Not measured", Impls: job().Impls}})
	for _, want := range []string{
		"| First/keys=10 | time of millrace | hand | 0.90 | 0.90–0.90 | 0.80 | **missed** |",
		"| First/keys=10 | memory of millrace |  | 21.5 B | 21.5–21.5 | 24.0 B | met |",
		"| First/keys=10 | p99 of millrace |  | 600 ns | 600–600 | 500 ns | **missed** |",
		"|  | millrace | 9.0 | 12.0 | 0.90 |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "Not measured") {
		t.Error("there is a line for a job that was not measured")
	}
	dir := t.TempDir()
	if err := draw(set, []jobs.Job{job()}, dir); err != nil {
		t.Fatal(err)
	}
	for _, plot := range []string{"keys-new.svg", "memory.svg"} {
		if _, err := os.Stat(filepath.Join(dir, plot)); err != nil {
			t.Error(err)
		}
	}
}
