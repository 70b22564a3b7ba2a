package durable

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// votes returns a flow that outputs the number of votes at the third one. Its state also contains what seen
// makes of their sum, which no output shows.
func votes(seen func(sum int) int) func(*dataflow.Flow) quorumPorts {
	return func(f *dataflow.Flow) quorumPorts {
		votes, in := keyedstream.SharedInput[string, int](dataflow.At[server](f), "votes")
		ordered := keyedstream.AssumeOrder(in, "the sum of the votes and their number do not depend on the order")
		released := keyedstream.FoldEarlyStop(ordered, func() tally { return tally{} }, func(t *tally, v int) bool {
			t.Votes++
			t.Sum = seen(t.Sum + v)
			return t.Votes == 3
		})
		return quorumPorts{votes, keyedsingleton.Output(keyedsingleton.Map(released, func(t tally) tally { return tally{Votes: t.Votes} }), "released")}
	}
}

// TestVerify replays histories with the program that made them, with one that has other outputs, and with one
// that has the same outputs and another state.
func TestVerify(t *testing.T) {
	right := func(sum int) int { return sum }
	for _, options := range []Options{{KeepFor: Forever, Digest: -1}, {Digest: -1}, {KeepFor: Forever, Digest: 1}, {Digest: 1}} {
		digests, keep := options.Digest > 0, options.KeepFor == Forever
		for _, ended := range []string{"stopped", "crashed", "stopped and crashed", "stopped and stopped and stopped and stopped"} {
			log := journal.NewMemory(journal.MemoryOptions{})
			for i, how := range strings.Split(ended, " and ") {
				app := start(t, log, votes(right), options)
				for n := range 3 {
					if err := app.Ports.votes.Send(t.Context(), fmt.Sprint("all of ", i), n+1); err != nil {
						t.Fatal(err)
					}
				}
				if err := app.Ports.votes.Send(t.Context(), fmt.Sprint("one of ", i), 5); err != nil {
					t.Fatal(err)
				}
				await(t, app.Ports.released, fmt.Sprint("all of ", i), tally{Votes: 3})
				if _, err := app.Ports.released.Take(t.Context(), fmt.Sprint("all of ", i)); err != nil { // when all votes were taken
					t.Fatal(err)
				}
				if how == "stopped" {
					stop(t, app)
				} else {
					log.Crash()
					<-app.Done()
				}
				log = log.Reopen()
			}
			if _, err := Check(t.Context(), quiet(Options{Log: journal.Opened{Log: log}})); err != nil {
				t.Errorf("keep %v, %s: %v", keep, ended, err)
			}
			for program, build := range map[string]func(*dataflow.Flow) quorumPorts{
				"the same":     votes(right),
				"another sum":  votes(func(sum int) int { return sum + 100 }),
				"other output": votesTwice,
			} {
				log = log.Reopen()
				h, err := OpenHistory(t.Context(), build, quiet(Options{Log: journal.Opened{Log: log}}))
				if err != nil {
					t.Fatal(err)
				}
				v, err := h.Verify(t.Context(), 0)
				hasSnapshot := ended != "crashed"
				var found *VerifyError
				switch {
				case program == "the same":
					if err != nil || v.State != hasSnapshot || v.Steps == 0 {
						t.Errorf("keep %v, %s: %+v, %v", keep, ended, v, err)
					}
				case program == "another sum" && digests:
					if !errors.As(err, &found) || found.Step == 0 || !strings.Contains(found.Operator, "FoldEarlyStop (verify_test.go:") ||
						!strings.Contains(err.Error(), "remembers something else") || !strings.Contains(err.Error(), "for the key ") {
						t.Errorf("keep %v, %s: %v", keep, ended, err)
					}
				case program == "another sum" && hasSnapshot:
					if !errors.As(err, &found) || found.Step == 0 || !strings.Contains(found.Operator, "FoldEarlyStop (verify_test.go:") ||
						!strings.Contains(found.Kept, "one of") || !strings.Contains(found.Kept, "5") || !strings.Contains(found.Is, "105") {
						t.Errorf("%s: %v", ended, err)
					}
				case program == "another sum": // and nothing to compare with
					if err != nil {
						t.Errorf("keep %v, %s: %v", keep, ended, err)
					}
				default:
					var diverged *DivergedError
					if !errors.As(err, &found) || !errors.As(err, &diverged) || found.Step != diverged.Step || !strings.Contains(found.Operator, "released") ||
						!strings.Contains(found.Kept, "all of") || !strings.Contains(found.Kept, "3") || !strings.Contains(found.Is, "6") {
						t.Errorf("keep %v, %s: %v", keep, ended, err)
					}
				}
				if err != nil && (!errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "partition 0, ")) {
					t.Error(err)
				}
				if err := h.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// votesTwice outputs twice the number of votes.
func votesTwice(f *dataflow.Flow) quorumPorts {
	votes, in := keyedstream.SharedInput[string, int](dataflow.At[server](f), "votes")
	ordered := keyedstream.AssumeOrder(in, "the sum of the votes and their number do not depend on the order")
	released := keyedstream.FoldEarlyStop(ordered, func() tally { return tally{} }, func(t *tally, v int) bool {
		t.Votes++
		t.Sum += v
		return t.Votes == 3
	})
	return quorumPorts{votes, keyedsingleton.Output(keyedsingleton.Map(released, func(t tally) tally { return tally{Votes: 2 * t.Votes} }), "released")}
}

// TestVerifySecondElement replays a history with a program whose second element in a step differs. The error
// must compare the elements at the same index.
func TestVerifySecondElement(t *testing.T) {
	type ports struct {
		in  *dataflow.InputPort[int]
		out *dataflow.OutputPort[int]
	}
	giving := func(each ...int) func(*dataflow.Flow) ports {
		return func(f *dataflow.Flow) ports {
			in, numbers := dataflow.Input[int](dataflow.At[server](f), "in")
			return ports{in, dataflow.Output(dataflow.FlatMap(numbers, func(x int, emit func(int)) {
				for _, y := range each {
					emit(x + y)
				}
			}), "out")}
		}
	}
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, giving(1, 2, 3), Options{})
	if err := app.Ports.in.Send(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := app.Ports.out.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.Crash()
	<-app.Done()
	h, err := OpenHistory(t.Context(), giving(1, 5, 3), quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	if err != nil {
		t.Fatal(err)
	}
	var found *VerifyError
	if _, err := h.Verify(t.Context(), 0); !errors.As(err, &found) || !strings.Contains(found.Kept, "1002") || !strings.Contains(found.Is, "1005") {
		t.Errorf("%v: %+v", err, found)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}
