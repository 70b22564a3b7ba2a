package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/linear"
	"github.com/millrace/millrace/examples/internal/page"
)

func TestPicture(t *testing.T) {
	page.Picture(t, func(flow *dataflow.Flow) { newStore(flow, 3, quorum{Write: 2, Read: 2}) })
}

const (
	stale   = "the read is stale"
	missing = "there is no answer"
)

// writeAndRead writes a value and reads it after the write is answered. It returns an error if an
// answer is missing, or if a register could not have given it.
func writeAndRead(c *sim.Ctx, r store) error {
	if err := r.requests.Send(c, request{Number: 1, Key: "tea", Write: true, Value: 42}); err != nil {
		return err
	}
	if _, err := r.answers.Await(c, 1); err != nil {
		return fmt.Errorf("%s to the write: %w", missing, err)
	}
	if err := r.requests.Send(c, request{Number: 2, Key: "tea"}); err != nil {
		return err
	}
	read, err := r.answers.Await(c, 2)
	if err != nil {
		return fmt.Errorf("%s to the read: %w", missing, err)
	}
	err = linear.Check(linear.Register(0), []linear.Operation{
		{Input: linear.Write{Value: 42}, Call: 1, Return: 2},
		{Input: linear.Read{}, Output: read.Latest.Value, Call: 3, Return: 4},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", stale, err)
	}
	return nil
}

// TestQuorums explores a write to three replicas and a read after it, with a fault. If two replicas
// must reply to each request, one of those that reply to the read was written, and one replica may
// fail. If fewer must reply, a read may be stale. If all must reply, a failed replica blocks the
// write.
//
// A schedule is the order of the replies to each request: 3! for each, so 36. A lost message removes
// one reply to the write, with its request or without, or one to the read: 4 × 36. A repeated message
// adds a reply to one of them, which gives 3 × 4!/2 orders instead of 6: 36 + 2 × 36 × 6. A replica
// that halts replies to neither request, 3 × 2! × 2!, or not to the read: 36 + 12 + 36.
func TestQuorums(t *testing.T) {
	one, two, all := quorum{1, 1}, quorum{2, 2}, quorum{3, 1}
	tests := []struct {
		name      string
		need      quorum
		faults    sim.Faults
		fails     string // the error; empty if the quorum works
		schedules int    // if it works
	}{
		{"one of three, no fault", one, sim.Faults{}, "", 36},
		{"one of three, a lost message", one, sim.Faults{Lose: 1}, stale, 0},
		{"one of three, a late message", one, sim.Faults{Delay: 1}, stale, 0},
		{"one of three, a replica isolated", one, sim.Faults{Isolations: 1}, stale, 0},
		{"all for a write, a lost message", all, sim.Faults{Lose: 1}, missing, 0},
		{"all for a write, a replica halted", all, sim.Faults{Halts: 1}, missing, 0},
		{"two of three, a lost message", two, sim.Faults{Lose: 1}, "", 144},
		{"two of three, a repeated message", two, sim.Faults{Repeat: 1}, "", 468},
		{"two of three, a replica halted", two, sim.Faults{Halts: 1}, "", 84},
		{"two of three, a lost message and a replica halted", two, sim.Faults{Lose: 1, Halts: 1}, missing, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.faults.Locations = []string{"Replica"}
			report, err := sim.Check(t.Context(), sim.Spec[store]{
				Build:   func(flow *dataflow.Flow) store { return newStore(flow, 3, test.need) },
				Clients: []sim.Client[store]{{Name: "ann", Do: writeAndRead}},
				Faults:  test.faults,
			})
			t.Logf("%d schedules in %d executions", report.Schedules, report.Executions)
			switch {
			case test.fails != "":
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("%v, and it should fail with %q", err, test.fails)
				}
			case err != nil:
				t.Error(err)
			case report.Schedules != test.schedules:
				t.Errorf("%d schedules, want %d", report.Schedules, test.schedules)
			}
		})
	}
}

// TestKeys writes two keys, one of them twice and in the wrong order. It reads both and a third one.
func TestKeys(t *testing.T) {
	flow := dataflow.New()
	s := newStore(flow, 3, quorum{Write: 2, Read: 2})
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		ask  request
		want version
	}{
		{request{Number: 2, Key: "tea", Write: true, Value: 7}, version{2, 7}},
		{request{Number: 1, Key: "tea", Write: true, Value: 5}, version{2, 7}}, // this request was delayed
		{request{Number: 3, Key: "rice", Write: true, Value: 9}, version{3, 9}},
		{request{Number: 4, Key: "tea"}, version{2, 7}},
		{request{Number: 5, Key: "rice"}, version{3, 9}},
		{request{Number: 6, Key: "salt"}, version{}},
	} {
		if err := s.requests.Send(t.Context(), test.ask); err != nil {
			t.Fatal(err)
		}
		if got, err := s.answers.Await(t.Context(), test.ask.Number); got.Latest != test.want || len(got.From) != 2 || err != nil {
			t.Errorf("%+v is answered %+v, %v, want %v", test.ask, got, err, test.want)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
