// Package sim tries the schedules of a flow: it is a test package, like
// net/http/httptest.
//
//	func TestEachOrderIsQuotedOnce(t *testing.T) {
//		n := sim.Exhaustive(t, func(s *sim.Sim) {
//			orders, quotes := build(s.Flow())
//			s.Start()
//			s.Check(orders.Put(s.Context(), "a", 10))
//			s.Check(orders.Put(s.Context(), "b", 20))
//			got := sim.Collect(s, quotes)
//			if len(got) != 2 {
//				s.Errorf("got %v", got)
//			}
//		})
//		if n != 3 {
//			t.Errorf("%d schedules, want 3: a|b, b|a, ab", n)
//		}
//	}
//
// The function is called once for each schedule. It builds the flow, sends, waits and
// asserts, all on one goroutine: there is nothing that runs beside it, and time does
// not pass but when a timer is chosen to fire. What is sent waits at its input.
// Whoever waits for something (Next, Await, [Collect], [Sim.Quiesce]) drives the flow
// until it is there, and each time there are several ways to go on, one is chosen.
//
// # What is chosen
//
//   - Which input, and which key of a keyed input, the next record comes from. A
//     stream's order, and the order within a key, is kept; keys and inputs have none
//     between them. Records of an input without order ([dataflow.SharedInput]) have none
//     either, whichever was sent first; equal ones count as one.
//   - Whether a record of a [dataflow.RetriedInput] comes again, where an AssumeOnce or an
//     output can tell: once in a schedule of [Exhaustive], up to three times in others.
//   - Whether a slice that has news is cut now or after more has come, while more waits.
//   - When a timer fires: time may pass to the earliest deadline whatever is waiting.
//   - When a record comes: time may pass before it, as far as that changes which of two
//     timers fires first. No two records come at one time.
//   - When an Interval fires: at most three times without anything having come in.
//   - When the answer of a MapAsync comes. The call itself is made at once.
//
// That is all that a production run chooses, so every production run is one of the
// schedules; [Rerun] shows it for one that was recorded.
//
// # Outputs that nobody reads
//
// A simulated location goes on however many elements wait at an output, which in production
// stops it. So an exploration by [Exhaustive] or [Random] fails if more elements wait at an
// output at the end of a schedule than may, and nobody has read there in any schedule. The
// message is that of a [dataflow.BlockedError].
//
// # What is a schedule
//
// Two ways to go on that nobody can tell apart are one schedule: what counts is what
// the runs of each slice let out, what went through each operator that fixes an
// order, and what the test names with [Sim.Observe]. [Exhaustive] returns the number of schedules; so a test
// that explores nothing by mistake fails, if it asserts the number. Inputs that
// nobody observes together are not interleaved: they are explored one after the
// other.
//
// # Absence
//
// Waiting for something is always sound. That nothing comes can be asserted at the
// end of the function, with [Sim.Quiesce] before it, or in the middle with
// [Sim.Never], which explores both the schedules that end with the check and those
// that go on without it. Anything else would skip what the check forces to happen.
//
// # Claims
//
// What a [dataflow.Proof] claims of a function is checked with copies of the values that come
// there, whatever the schedule: that the order of two values does not matter, that a
// value only grows, that values which compare as equal are equal. The schedule ends with a
// [ClaimError] that has the values. What cannot be checked, since a state holds a channel or a
// function or has no order, is logged.
//
// # Failures
//
// A schedule that fails is run again to print its choices, each with the place in
// the program and the reason given there, and a command that runs only this one. A
// flow that is never quiet fails after 100,000 steps, and a value that was changed
// after its operator let it out fails with the operator's name; see also [AliasError].
//
// State outside the flow survives from one schedule to the next: a function that
// uses any has to start it afresh. A choice that is not the same when a schedule is
// run again, because a function depends on map order, time or such state, is
// reported.
//
// Crashes are not explored here. Package dataflow/durable/durabletest runs a durable
// program with a crash before and after everything that it makes durable.
package sim
