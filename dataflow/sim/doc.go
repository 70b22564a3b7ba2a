// Package sim tries the schedules of a flow: it is a test package, like net/http/httptest.
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
// The function is called once for each schedule. It builds the flow, sends, waits and asserts. Nothing runs
// concurrently: the function stops before each use of a port, and the next move is chosen from all that are
// possible. A move is one of these: the function continues, a record is taken, a slice is cut, an
// asynchronous call is made, or the timers of one deadline fire. So a value that the function reads without
// waiting may be old or new. A function that waits for something (Next, Await, [Collect], [Sim.Quiesce])
// continues when it has arrived.
//
// # What is chosen
//
//   - When the function continues: before or after anything that it does not wait for.
//   - Which input, and which key of a keyed input, the next record comes from. The order of a stream, and
//     the order within a key, is kept. There is no order between keys, between inputs, between the records
//     of an input without order ([dataflow.SharedInput]), or between the elements of a stream without order
//     that are sent to another location. Equal records of an input without order count as one.
//   - What comes first where a type gives up the order of an input: after WeakenOrder, Values, Entries, Keys
//     and Join. Values of one key keep their order. Other orders are tried where they can be observed and
//     nothing else is made of the same elements.
//   - How many records of an input come in one step, where an operator receives them on two paths, such as a
//     MergeOrdered of a stream and something made of that stream.
//   - Whether a record of a [dataflow.RetriedInput] comes again, where an AssumeOnce or an output can
//     observe it: once in a schedule of [Exhaustive], up to three times in others, or as often as
//     [Sim.Retry] says.
//   - Whether a slice that has new input is cut now or after more has arrived. Each slice is cut on its own.
//   - When a timer fires: time may pass to the earliest deadline of a location, even while records are
//     waiting.
//   - How much time passes before a step that reads the clock: none, or any that changes which timer fires
//     first. A timer may be late: a record may be taken after the deadline and before the timer fires.
//     Orders are not tried that would need a time below zero, or a step more than 36 years after the first
//     one.
//   - When an Interval fires: at most three times while nothing arrives.
//   - When a call of a MapAsync is made, and when its answer is taken. A call is one move: what its function
//     reads and writes elsewhere is not interleaved with another call, except where the function calls
//     [Point].
//
// These are the choices at level [Types]. At level [Engine] less can happen: only what this version of the
// module does.
//
// A production run makes the same choices, except for the holes that doc/testing-engine.md lists. [Rerun] runs a
// recorded one.
//
// # What is not tried twice
//
// If two moves touch nothing in common, their order cannot be observed, and only one order is tried. What a
// move touches is noted while it is made: keys of operators, slices, queues, outputs, the clock of a
// location. So ten independent requests are one execution. Timers that nothing compares have separate
// clocks: a caller compares two timers if it looks at something of one after it has seen the other fire, and
// a function compares all timers of its location if it asks for the time. Functions of calls may share
// something outside the flow, so calls are tried in every order. The order in which elements arrive at an
// output is tried if the output is read one by one, with Next, and not if it is read by [Collect] when all
// is quiet.
//
// # Outputs that nobody reads
//
// In production a location stops when more elements wait at an output than its buffer allows. In a
// simulation it stops too if [Sim.Buffer], or Buffer of a [Spec], sets the size of the buffer; a client that
// waits for another output of the location then receives an error. Otherwise a simulated location continues
// however many elements wait. Therefore an exploration by [Exhaustive] or [Random] fails if an output has
// not been read in any schedule and more elements wait there at the end of a schedule than production allows
// by default. The message is that of a [dataflow.BlockedError].
//
// # What is a schedule
//
// Two executions that cannot be told apart are one schedule. What distinguishes them is what the runs of
// each slice emit, what passes through each operator that fixes an order, and what the test names with
// [Sim.Observe]. [Exhaustive] returns the number of schedules: a test that asserts the number fails if it
// explores nothing by mistake.
//
// # Absence
//
// Waiting for something is always sound. To assert that nothing comes, check at the end of the function,
// after [Sim.Quiesce], or in the middle with [Sim.Never]. Never explores both the schedules that end with
// the check and those that continue without it. A check in any other place would skip schedules, since it
// forces things to happen.
//
// # Claims
//
// What a [dataflow.Proof] claims about a function is checked in every schedule, with copies of the values
// that arrive: that the order of two values does not matter, that a value only grows, that values which
// compare as equal are equal. If a claim is false, the schedule ends with a [ClaimError] that contains the
// values. A claim that cannot be checked, because a state holds a channel or a function or has no order, is
// logged.
//
// # Specifications
//
// A [Spec] describes what a program should do, independent of a test. It consists of the function that
// builds the flow, clients, and properties:
//
//   - Clients are functions that use ports as code in production does. They run concurrently, and each use
//     of a port is a move.
//   - Always holds after every move, Eventually when the flow is at rest, and Sometimes in at least one
//     schedule. They look at ports, at the elements of outputs ([Elements]) and at what clients have done
//     ([View]), and change nothing.
//   - A [Monitor] reads what clients do, one operation after the other. A [Linear] says that operations of
//     clients are linearizable.
//
// [Check] explores the schedules and returns a [Report] of what was covered. Its error is a [Failure] with
// the shortest schedule in which something does not hold, or says that nothing was shown. [Test] does the
// same in a test, and keeps failed schedules as regression tests.
//
// What a property looks at between two moves is noted, and moves that change it are tried in every order. So
// a property sees every possible sequence of values, and one that looks at many things is expensive.
//
// # Failures
//
// The reported schedule is the shortest that fails: as few of its choices as possible differ from the
// default, which is that clients continue first, then slices are cut, then records are taken. It is printed
// with the place in the program and the reason given there, and with a command that runs only this schedule.
// The schedule of a Spec is printed as a chart. A flow that never becomes quiet fails after 100,000 steps. A
// value that was changed after an operator emitted it fails with the operator's name; see also [AliasError].
//
// State outside the flow survives from one schedule to the next, so a function that uses such state must
// reset it. A choice that is not the same when a schedule is run again, because a function depends on map
// order, time or such state, is reported.
//
// # Faults
//
// With the Faults of a [Spec], or with [Sim.Inject], a schedule may contain faults, up to a number of each
// kind; see [Faults]. Messages between locations are lost, repeated and delayed. A location is isolated,
// halts for ever, or crashes and continues with what it has kept. A sender is not told that its record was
// kept. Schedules without faults are tried as well. Each fault is tried only where it makes a difference,
// and is listed in the story of a schedule that fails.
//
// A crash is explored here in a model of package dataflow/durable, in which a location keeps each move as it
// makes it. Package dataflow/durable/durabletest runs the real code in one schedule, with a crash before and
// after everything that it makes durable.
package sim
