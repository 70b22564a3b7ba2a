package sim_test

import (
	"regexp"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/slice"
)

// TestUnread explores flows with an output that receives more than production allows. The
// exploration fails if nobody reads the output in any schedule.
func TestUnread(t *testing.T) {
	const bound = 4096
	build := func(s *sim.Sim, each int) (in *dataflow.InputPort[int], debug, out *dataflow.OutputPort[int]) {
		at := dataflow.At[Server](s.Flow())
		in, xs := dataflow.Input[int](at, "in")
		many := dataflow.FlatMap(xs, func(_ int, emit func(int)) {
			for i := range each {
				emit(i)
			}
		})
		debug = dataflow.Output(many, "debug")
		out = dataflow.Output(slice.Emit(slice.Batch(slice.At(at), xs, tried)), "out")
		s.Start()
		return in, debug, out
	}
	sendTwo := func(s *sim.Sim, in *dataflow.InputPort[int], out *dataflow.OutputPort[int]) {
		for i := range 2 {
			s.Check(in.Send(s.Context(), i))
		}
		sim.Collect(s, out)
	}
	tests := []struct {
		name string
		f    func(*sim.Sim)
		says string // empty if no failure is expected
	}{
		{"never read", func(s *sim.Sim) {
			in, _, out := build(s, 5000)
			sendTwo(s, in, out)
		}, `^dataflow: location Server is stopped: output "debug" \(unread_test.go:\d+\) has 10000 unread elements, and 4096 may wait: read it, or do not make it$`},
		{"one too many", func(s *sim.Sim) {
			in, _, _ := build(s, bound+1)
			s.Check(in.Send(s.Context(), 1))
		}, `has 4097 unread elements`},
		{"as many as may", func(s *sim.Sim) {
			in, _, out := build(s, bound/2)
			sendTwo(s, in, out)
		}, ""},
		{"read in one schedule", func(s *sim.Sim) {
			in, debug, out := build(s, 5000)
			for i := range 2 {
				s.Check(in.Send(s.Context(), i))
			}
			out.Next(s.Context())
			s.Never(func() { debug.Next(s.Context()) })
		}, ""},
		{"too many in no schedule that counts", func(s *sim.Sim) {
			in, _, _ := build(s, 5000)
			s.Check(in.Send(s.Context(), 1))
			s.Quiesce()
			s.Assume(false)
		}, ""},
	}
	for _, test := range tests {
		got := sim.Hangs(t, test.f)
		if test.says == "" && len(got) > 0 || test.says != "" && (len(got) != 1 || !regexp.MustCompile(test.says).MatchString(got[0])) {
			t.Errorf("%s: %q, want %q", test.name, got, test.says)
		}
	}
}
