package sim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
)

// TestResume: a search that is stopped again and again makes the same executions as one that is
// not, each once. It catches a checkpoint without what sleeps, what is still to be tried or
// what was found for earlier places, and digests that mean something else later.
func TestResume(t *testing.T) {
	for _, test := range countsTests() {
		if test.n < 12 {
			continue
		}
		f := func(s *sim.Sim) { test.p(bench{s, dataflow.At[Server](s.Flow())}) }
		want := sim.ExploreAs(t, sim.Exploring{}, f)
		for _, how := range []sim.Exploring{{Limit: 7}, {Limit: 50}, {Limit: 9, Workers: 3}} {
			how.Checkpoint = filepath.Join(t.TempDir(), "search")
			for times := 1; ; times++ {
				got := sim.ExploreAs(t, how, f)
				if !got.Complete && got.Failed == "" && times*how.Limit < 2*want.Executions {
					continue
				}
				if got != want || times != (want.Executions+how.Limit-1)/how.Limit {
					t.Errorf("%s: %+v after %d times %d executions, want %+v", test.name, got, times, how.Limit, want)
				}
				break
			}
			if _, err := os.Stat(how.Checkpoint); !os.IsNotExist(err) {
				t.Errorf("%s: the checkpoint of a complete search is left: %v", test.name, err)
			}
		}
	}
}

// TestResumeOther: a checkpoint is refused by another program, and one that is damaged by any.
func TestResumeOther(t *testing.T) {
	counts := countsTests()
	batch := 4
	one := func(s *sim.Sim) { counts[batch].p(bench{s, dataflow.At[Server](s.Flow())}) }
	other := func(s *sim.Sim) { one(s) }
	also := func(string) { batch = 3 } // elements: the same function with other values
	for _, test := range []struct {
		want  string
		spoil func(path string)
		f     func(s *sim.Sim)
		how   sim.Exploring
	}{
		{"another function", nil, other, sim.Exploring{}},
		{"first schedule shows something else", also, one, sim.Exploring{}},
		{"another reduction", nil, one, sim.Exploring{Whole: true}},
		{"another executable", func(path string) { sim.SpoilCheckpoint(t, path) }, one, sim.Exploring{}},
		{"no checkpoint of this version", func(path string) {
			if err := os.Truncate(path, 100); err != nil {
				t.Fatal(err)
			}
		}, one, sim.Exploring{}},
		{"", nil, one, sim.Exploring{}},
	} {
		batch = 4
		how := sim.Exploring{Limit: 3, Checkpoint: filepath.Join(t.TempDir(), "search")}
		if got := sim.ExploreAs(t, how, one); got.Complete || got.Failed != "" {
			t.Fatalf("%+v", got)
		}
		if test.spoil != nil {
			test.spoil(how.Checkpoint)
		}
		test.how.Checkpoint = how.Checkpoint
		got := sim.ExploreAs(t, test.how, test.f)
		if test.want == "" && (got.Failed != "" || !got.Complete) || !strings.Contains(got.Failed, test.want) {
			t.Errorf("%+v, want %q", got, test.want)
		}
	}
}
