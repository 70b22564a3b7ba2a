package sim_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
)

// explored explores f with and without the reduction, and fails t unless both find the same results.
// It returns the numbers of schedules and executions, and the results.
func explored(t *testing.T, f func(s *sim.Sim) string) (schedules, executions int, got []string) {
	t.Helper()
	seen := make(map[string]bool)
	schedules, executions = sim.Explore(t, func(s *sim.Sim) { x := f(s); s.Observe(x); seen[x] = true }, false)
	whole := make(map[string]bool)
	n, many := sim.Explore(t, func(s *sim.Sim) { x := f(s); s.Observe(x); whole[x] = true }, true)
	got = slices.Sorted(maps.Keys(seen))
	if all := slices.Sorted(maps.Keys(whole)); n != schedules || !slices.Equal(got, all) {
		t.Errorf("%d schedules:\n%s\nand without the reduction %d:\n%s", schedules, strings.Join(got, "\n"), n, strings.Join(all, "\n"))
	}
	t.Logf("%d schedules in %d executions, %d without the reduction", schedules, executions, many)
	return schedules, executions, got
}

// wantsAll fails t unless an exploration found what it should.
func wantsAll(t *testing.T, schedules, executions int, got []string, n, most int, want string) {
	t.Helper()
	if schedules != n || executions > most || want != "" && strings.Join(got, " ") != want {
		t.Errorf("%d schedules in %d executions: %s\nwant %d in at most %d: %s", schedules, executions, strings.Join(got, " "), n, most, want)
	}
}

// TestMessages counts the fates of messages on a link. It catches a fault that is not tried, one that
// is tried more often than its budget allows, and a message that is both lost and delivered.
func TestMessages(t *testing.T) {
	tests := []struct {
		name                  string
		n                     int
		faults                sim.Faults
		schedules, executions int
		want                  string
	}{
		{"no fault", 2, sim.Faults{}, 1, 1, "[1 2]"},
		{"one of two lost", 2, sim.Faults{Lose: 1}, 3, 3, "[1 2] [1] [2]"},
		{"both lost", 2, sim.Faults{Lose: 2}, 4, 4, "[1 2] [1] [2] []"},
		{"one of two repeated", 2, sim.Faults{Repeat: 1}, 3, 3, "[1 1 2] [1 2 2] [1 2]"},
		{"one of two repeated twice, or both", 2, sim.Faults{Repeat: 2}, 6, 6, "[1 1 1 2] [1 1 2 2] [1 1 2] [1 2 2 2] [1 2 2] [1 2]"},
		{"one of two lost, one repeated", 2, sim.Faults{Lose: 1, Repeat: 1}, 7, 7, "[1 1 2] [1 1] [1 2 2] [1 2] [1] [2 2] [2]"},
		{"one of three lost, one repeated", 3, sim.Faults{Lose: 1, Repeat: 1}, 13, 13, ""},
		{"one of three overtaken", 3, sim.Faults{Delay: 1}, 4, 7, "[1 2 3] [1 3 2] [2 1 3] [2 3 1]"},
		{"another link", 2, sim.Faults{Lose: 2, Links: []string{"Client→Server"}}, 1, 1, "[1 2]"},
		{"this link", 2, sim.Faults{Lose: 1, Links: []string{"Server→Client"}}, 3, 3, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			schedules, executions, got := explored(t, func(s *sim.Sim) string {
				s.Inject(test.faults)
				b := bench{s, dataflow.At[Server](s.Flow())}
				there := dataflow.Send(b.stream("xs", []int{1, 2, 3}[:test.n]...), client(b))
				back := dataflow.Send(dataflow.Filter(there, func(int) bool { return false }), b.at)
				return strings.TrimSuffix(run(b, dataflow.Output(there, "there"), dataflow.Output(back, "back")), " []")
			})
			wantsAll(t, schedules, executions, got, test.schedules, test.executions, test.want)
		})
	}
}

// TestKinds checks that unordered elements are not delayed and that entries are not repeated.
func TestKinds(t *testing.T) {
	faults := sim.Faults{Lose: 1, Repeat: 1, Delay: 1}
	schedules, executions, got := explored(t, func(s *sim.Sim) string {
		s.Inject(faults)
		b := bench{s, dataflow.At[Server](s.Flow())}
		there := keyedsingleton.Send(b.entries("es", 1, 2), client(b))
		out := dataflow.Output(keyedsingleton.Values(there), "values")
		s.Start()
		return inOrderOf(sim.Collect(s, out))
	})
	wantsAll(t, schedules, executions, got, 3, 4, "[1 2] [1] [2]")
}

// TestIsolation checks that an isolated location neither receives nor delivers anything between two
// moments, and that everything arrives afterwards.
func TestIsolation(t *testing.T) {
	schedules, executions, got := explored(t, func(s *sim.Sim) string {
		s.Inject(sim.Faults{Isolations: 1, Locations: []string{"Client"}})
		b := bench{s, dataflow.At[Server](s.Flow())}
		back := dataflow.Send(dataflow.Send(b.stream("xs", 1, 2, 3), client(b)), b.at)
		return run(b, dataflow.Output(back, "back"))
	})
	wantsAll(t, schedules, executions, got, 8, 100, "[1 2 3] [1 2] [1 3] [1] [2 3] [2] [3] []")
}

// TestHalts checks that a member can stop between any two of its moves. What it has sent arrives, and
// a caller that waits for it gets the error.
func TestHalts(t *testing.T) {
	schedules, executions, got := explored(t, func(s *sim.Sim) string {
		s.Inject(sim.Faults{Halts: 1, Locations: []string{"Client"}})
		b := bench{s, dataflow.At[Server](s.Flow())}
		there := dataflow.Send(b.stream("xs", 1, 2), client(b))
		seen := dataflow.Output(there, "seen")
		back := dataflow.Output(dataflow.Send(there, b.at), "back")
		s.Start()
		first, err := seen.Next(s.Context())
		if err != nil && !errors.Is(err, sim.ErrHalted) {
			s.Errorf("%v", err)
		}
		return fmt.Sprint(first, err != nil, sim.Collect(s, back))
	})
	wantsAll(t, schedules, executions, got, 3, 6, "0 true [] 1 false [1 2] 1 false [1]")
}

// TestFaultsSaid checks that the story of a failed schedule names each fault, the record it affected, and the place.
func TestFaultsSaid(t *testing.T) {
	tests := []struct {
		faults sim.Faults
		fails  string // the outcome that fails
		want   []string
	}{
		{sim.Faults{Lose: 1}, "[1]", []string{"take 2 from dataflow.Send (faults_test.go:", "it is lost on the way from Server to Client"}},
		{sim.Faults{Repeat: 1}, "[1 1 2]", []string{"take 1 from dataflow.Send (faults_test.go:", "it comes again: it is repeated on the way from Server to Client"}},
		{sim.Faults{Delay: 1}, "[2 1]", []string{"it is delayed on the way from Server to Client"}},
		{sim.Faults{Isolations: 1}, "[]", []string{"off from all other locations", "it is lost on the way from Server to Client"}},
		{sim.Faults{Halts: 1, Locations: []string{"Server"}}, "[]", []string{"halt Server for ever"}},
	}
	for _, test := range tests {
		story, _ := sim.Fails(t, func(s *sim.Sim) {
			s.Inject(test.faults)
			b := bench{s, dataflow.At[Server](s.Flow())}
			in, xs := dataflow.Input[int](b.at, "xs")
			out := dataflow.Output(dataflow.Send(xs, client(b)), "there")
			s.Start()
			for i := 1; i <= 2 && in.Send(s.Context(), i) == nil; i++ {
			}
			if got := inOrder(s, out); got == test.fails {
				s.Errorf("got %s", got)
			}
		})
		for _, want := range test.want {
			if !strings.Contains(story, want) {
				t.Errorf("%+v: the story has no %q:\n%s", test.faults, want, story)
			}
		}
	}
}

func inOrder[T any](s *sim.Sim, out *dataflow.OutputPort[T]) string {
	return fmt.Sprint(sim.Collect(s, out))
}

// TestFaultsMisused checks that impossible faults are an error that lists the possible ones, and not a proof of nothing.
func TestFaultsMisused(t *testing.T) {
	tests := []struct {
		faults sim.Faults
		want   string
	}{
		{sim.Faults{Lose: -1}, "there cannot be -1 faults"},
		{sim.Faults{Lose: 1, Links: []string{"Server→Nobody"}}, `"Server→Nobody": there are "Server", "Server→Client", "Client"`},
		{sim.Faults{Halts: 1, Locations: []string{"Nobody"}}, `no location and no link "Nobody"`},
	}
	for _, test := range tests {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, test.want) {
					t.Errorf("%+v: %s", test.faults, got)
				}
			}()
			sim.Explore(t, func(s *sim.Sim) {
				s.Inject(test.faults)
				b := bench{s, dataflow.At[Server](s.Flow())}
				run(b, dataflow.Output(dataflow.Send(b.stream("xs", 1), client(b)), "there"))
			}, false)
		}()
	}
}
