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
// asserts. Nothing runs at the same time: before each use of a port the function stops, and
// what happens next is chosen from all that can. That is one of these moves: the function
// goes on, a record is taken, a slice is cut, an asynchronous call is made, the timers of one
// deadline fire. So a value that is looked at without waiting for it may be old or new. Whoever
// waits for something (Next, Await, [Collect], [Sim.Quiesce]) goes on when it is there.
//
// # What is chosen
//
//   - When the function goes on: before or after anything that it does not wait for.
//   - Which input, and which key of a keyed input, the next record comes from. A
//     stream's order, and the order within a key, is kept; keys and inputs have none
//     between them. Records of an input without order ([dataflow.SharedInput]) have none
//     either, whichever was sent first; equal ones count as one. Nor have elements of a stream
//     without order that are sent to another location.
//   - What comes first where a type gives up the order of an input: behind WeakenOrder, Values,
//     Entries, Keys and Join. Values of one key keep theirs. It is tried where somebody can tell
//     and nothing else is made of the same elements.
//   - How many records of an input come in one step, where an operator gets them in two ways, as
//     MergeOrdered of a stream and what is made of it does.
//   - Whether a record of a [dataflow.RetriedInput] comes again, where an AssumeOnce or an
//     output can tell: once in a schedule of [Exhaustive], up to three times in others, or as
//     [Sim.Retry] says.
//   - Whether a slice that has news is cut now or after more has come. Each is cut on its own.
//   - When a timer fires: time may pass to the earliest deadline of a location whatever is
//     waiting.
//   - How much time passes before a step that reads the clock: none, or any that changes which
//     timer fires first. A timer may be late: a record may be taken after its deadline, and
//     before it fires. An order that needs a time below zero is none, and none is tried
//     that needs a step more than 36 years after the first one.
//   - When an Interval fires: at most three times without anything having come in.
//   - When a call of a MapAsync is made, and when its answer is taken. A call is one move: what
//     its function reads and writes elsewhere is not interleaved with another call, unless it
//     says [Point] where others may come.
//
// That is level [Types]. At level [Engine] less can happen: what this version of the module does.
//
// That is what a production run chooses, but for the holes that doc/testing.md lists; [Rerun]
// runs one that was recorded.
//
// # What is not tried twice
//
// Two moves that touch nothing in common can be made in either order, and nobody can tell: one
// order is tried. What a move touches is noted while it is made: keys of operators, slices,
// queues, outputs, the clock of a location. So ten requests that have nothing to do with each
// other are one execution. Timers that nobody compares have clocks of their own: a caller
// compares two if it looks at something of one after it has seen the other fire, and a function
// compares all of its location if it asks for the time. Functions of calls may share something outside of the flow, so calls
// are tried in every order. The order in which elements come to an output is tried if something
// reads there one by one, with Next, and not if it is read by [Collect] when all is quiet.
//
// # Outputs that nobody reads
//
// In production a location stops when more elements wait at an output than may. [Sim.Buffer], or
// Buffer of a [Spec], says how many; then it stops in a simulation too, and who waits for another
// output of it is told. Otherwise a simulated location goes on however many elements wait. So an
// exploration by [Exhaustive] or [Random] fails if more elements wait at an output at the end of
// a schedule than may in production by default, and nobody has read there in any schedule. The
// message is that of a [dataflow.BlockedError].
//
// # What is a schedule
//
// Two ways to go on that nobody can tell apart are one schedule: what counts is what
// the runs of each slice let out, what went through each operator that fixes an
// order, and what the test names with [Sim.Observe]. [Exhaustive] returns the number of schedules; so a test
// that explores nothing by mistake fails, if it asserts the number.
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
// # Specifications
//
// A [Spec] says what a program is for, apart from a test. It has the function that builds the
// flow, clients, and properties:
//
//   - Clients are functions that use ports as code in production does. They run beside each
//     other, and each use of a port is a move.
//   - Always holds after every move, Eventually when the flow is at rest, and Sometimes in
//     at least one schedule. They look at ports, at what outputs were given ([Elements]) and at
//     what clients have done ([View]), and change nothing.
//   - A [Monitor] reads what clients do, one operation after the other. A [Linear] says that
//     operations of clients are linearizable.
//
// [Check] goes through the schedules and returns a [Report] of what was covered, and an error:
// a [Failure] with the shortest schedule in which something does not hold, or that nothing was
// shown. [Test] does so in a test, and keeps schedules that fail as regression tests.
//
// What a property looks at between two moves is noted, and moves that change it are tried in
// every order. So a property sees every sequence of values that there can be, and one that
// looks at much costs much.
//
// # Failures
//
// The schedule that is reported is the shortest that fails: few choices are other than what
// comes first, which is that clients go on, then that slices are cut, then that records are
// taken. It is printed with the place in the program and the reason given there, and with a
// command that runs only this one; that of a Spec is printed as a chart. A
// flow that is never quiet fails after 100,000 steps, and a value that was changed
// after its operator let it out fails with the operator's name; see also [AliasError].
//
// State outside the flow survives from one schedule to the next: a function that
// uses any has to start it afresh. A choice that is not the same when a schedule is
// run again, because a function depends on map order, time or such state, is
// reported.
//
// # Faults
//
// A schedule has faults, up to a number of each kind, if [Spec] or [Sim.Inject] says so; see [Faults]:
// messages between locations are lost, repeated and delayed, a location is isolated, halts for ever,
// or crashes and goes on with what it has kept, and a sender is not told that its record
// was kept. None is forced: schedules without them are tried as well. Each is tried only
// where it makes a difference, and is in the story of a schedule that fails.
//
// A crash is explored here in a model of what package dataflow/durable does: that a location keeps what it
// does as it does it. Package dataflow/durable/durabletest runs the real code with a crash before and
// after everything that it makes durable, in one schedule.
package sim
