package results

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
)

func TestWriteRead(t *testing.T) {
	job := jobs.Job{Name: "Chain", Params: "batch=1", Impls: []ratio.Impl{{Name: "hand"}, {Name: "samber/ro"}}}
	all := []jobs.Job{{Name: "Left out", Params: "x=1"}, job}
	want := [][]ratio.Sample{
		{{Wall: 1.5, CPU: 2, Held: 3}, {Wall: 2, CPU: 2.5, Others: .1}},
		{{Wall: 40, CPU: 41, P50: 7, P99: 9}, {Wall: 42, CPU: 43, Allocs: .5, Bytes: 8}},
	}
	other := jobs.Job{Name: "First", Params: "keys=1", Impls: []ratio.Impl{{Name: "hand"}}}
	all = append(all, other)
	here := Machine{Go: "go1.26", Platform: "linux/amd64", Processors: "2", Processor: "a processor", Date: "today", Rust: "rustc 1.95.0"}
	there := Machine{Go: "go1.25", Platform: "linux/arm64", Processors: "4", Processor: "another", Date: "yesterday"}
	set := NewSet()
	set.Add(here, job, want)
	set.Add(there, other, [][]ratio.Sample{{{Wall: 1}}})
	var text bytes.Buffer
	if err := set.Write(&text, all); err != nil {
		t.Fatal(err)
	}
	back, err := Read(&text, "text", all)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := back.Of(job)
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, %v, want %v", got, ok, want)
	}
	if got := back.Machine(job); got != here {
		t.Errorf("read machine %v, want %v", got, here)
	}
	if got := back.Machine(other); got != there {
		t.Errorf("read machine %v, want %v", got, there)
	}
	if _, ok := back.Of(all[0]); ok {
		t.Error("there are samples of a job that did not run")
	}
}
