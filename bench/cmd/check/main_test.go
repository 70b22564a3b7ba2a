package main

import (
	"testing"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
)

// spin returns an implementation that takes some time for each event.
func spin(name string, steps int) ratio.Impl {
	return ratio.Impl{Name: name, New: func() ratio.Run {
		x := uint64(1)
		return ratio.Run{Do: func() int {
			for range 1000 * steps {
				x = x*6364136223846793005 + 1442695040888963407
			}
			if x == 0 {
				return 1
			}
			return 1000
		}}
	}}
}

func TestExceeded(t *testing.T) {
	impls := []ratio.Impl{spin("hand", 1000), spin("not asked for", 1), spin("near", 1200), spin("millrace", 8000)}
	for _, c := range []struct {
		name   string
		target jobs.Target
		wrong  int
	}{
		{"above twice the aim", jobs.Target{AtMost: 1}, 1},
		{"below twice the aim", jobs.Target{AtMost: 10}, 0},
		{"below its bound", jobs.Target{AtMost: 1, Bound: 20}, 0},
		{"far more time", jobs.Target{What: jobs.More, AtMost: 1}, 1},
		{"more time, where the other is slow", jobs.Target{What: jobs.More, Of: "near", AtMost: 1}, 0},
		{"of a latency", jobs.Target{What: jobs.P99, AtMost: 1}, 0},
	} {
		job := jobs.Job{Name: "Spin", Params: "x=1", CPU: true, Impls: impls, Targets: []jobs.Target{c.target}}
		if wrong := exceeded(job, 3); len(wrong) != c.wrong {
			t.Errorf("%s: %v, want %d", c.name, wrong, c.wrong)
		}
	}
}

func TestRelevant(t *testing.T) {
	job := jobs.Job{
		Impls:   []ratio.Impl{{Name: "hand"}, {Name: "loop"}, {Name: "other"}, {Name: "millrace"}},
		Targets: []jobs.Target{{To: "loop", AtMost: 1}},
	}
	relevant(&job)
	if len(job.Impls) != 2 || job.Impls[0].Name != "loop" || job.Impls[1].Name != "millrace" {
		t.Errorf("relevant left %v, want loop and millrace", job.Impls)
	}
}
