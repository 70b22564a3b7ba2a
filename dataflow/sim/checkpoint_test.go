package sim_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
)

// TestResume stops and resumes a search repeatedly. It makes the same executions as an uninterrupted one, each once. It
// catches a checkpoint that lacks the sleep sets, the branches still to be tried or those found for earlier places, and
// digests whose meaning changes later.
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

// TestResumeOther checks that a checkpoint is refused by another program, and that a damaged one is refused by any.
func TestResumeOther(t *testing.T) {
	counts := countsTests()
	batch := 4
	one := func(s *sim.Sim) { counts[batch].p(bench{s, dataflow.At[Server](s.Flow())}) }
	other := func(s *sim.Sim) { one(s) }
	also := func(string) { batch = 3 } // the same function with other captured values
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

// TestResumeCheck explores a specification in parts, with the same report as in one run. It catches a checkpoint without
// the counts of the report, one that counts an execution twice, and one that is accepted for another specification.
func TestResumeCheck(t *testing.T) {
	spec := func(crashes int) sim.Spec[counted] {
		return sim.Spec[counted]{
			Build: buildCounted, Clients: []sim.Client[counted]{puts("a", 1, 2, 3), sends("b", 1, 2, 3), puts("c", 4, 5)}, Faults: sim.Faults{LostAcks: crashes},
			Sometimes: map[string]func(*sim.View, counted) bool{"b is first": func(v *sim.View, _ counted) bool { return strings.HasPrefix(turnsOf(v), "b") }},
		}
	}
	want, err := sim.Check(t.Context(), spec(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3} {
		file := filepath.Join(t.TempDir(), "search")
		for times := 1; ; times++ {
			got, err := sim.Check(t.Context(), spec(0), sim.Limit(7), sim.Checkpoint(file), sim.Workers(workers))
			if errors.Is(err, sim.ErrIncomplete) && 7*times < 2*want.Executions {
				if _, err := sim.Check(t.Context(), spec(1), sim.Checkpoint(file)); err == nil || !strings.Contains(err.Error(), "the checkpoint of another function") {
					t.Errorf("the checkpoint of another specification is used: %v", err)
				}
				continue
			}
			if got.Elapsed = want.Elapsed; err != nil || !reflect.DeepEqual(got, want) || times < 2 {
				t.Errorf("%d workers, after %d times: %v, %v, want %v", workers, times, got, err, want)
			}
			break
		}
	}
}
