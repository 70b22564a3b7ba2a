package main

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bench/internal/results"
)

// TestRustTable checks the table of peers in Rust: its ratios are to the form with the lowest median.
func TestRustTable(t *testing.T) {
	peers := jobs.Job{Name: "Chain", Params: "data=random/batch=1", CPU: true}
	var samples [][]ratio.Sample
	for _, form := range []struct {
		name string
		cpu  float64
	}{{"hand", 4}, {"inlined", 2}, {"millrace", 6}, {"dfir", 12}, {"timely", 150}, {"rust-loop", 0.5}} {
		peers.Impls = append(peers.Impls, ratio.Impl{Name: form.name})
		samples = append(samples, []ratio.Sample{{CPU: form.cpu}, {CPU: 2 * form.cpu}, {CPU: 3 * form.cpu}})
	}
	set := results.NewSet()
	here := results.Machine{Go: "go1.26", Platform: "linux/amd64", Processors: "2", Processor: "a processor", Date: "today"}
	set.Add(here, job(), [][]ratio.Sample{{{CPU: 10}}, {{CPU: 9}}})
	if got := rustTable(set, []jobs.Job{job(), peers}); got != "" {
		t.Errorf("without peers there is a table:\n%s", got)
	}
	here.Date, here.Rust = "tomorrow", "rustc 1.95.0, dfir_rs 0.16.0"
	set.Add(here, peers, samples)
	got := rustTable(set, []jobs.Job{job(), peers})
	for _, want := range []string{
		"go1.26, linux/amd64, 2 processors (a processor), tomorrow; rustc 1.95.0, dfir_rs 0.16.0\n",
		"| Chain/data=random/batch=1 | 12.0 | 8.00 | 4.00 (inlined) | 24.0 | 300 | 1.00 | 0.50 (dfir) | 12.00 (rust-loop) |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "First") {
		t.Errorf("there is a line for a job without peers:\n%s", got)
	}
	// The other table has the peers as well, and names both days.
	for _, want := range []string{
		"a processor), today\n", "some or all of Chain: go1.26, linux/amd64, 2 processors (a processor), tomorrow\n", "|  | rust-loop | 1.0 |",
	} {
		if got := table(set, []jobs.Job{job(), peers}); !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
