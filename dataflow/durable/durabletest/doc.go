// Package durabletest shows that a durable program survives crashes, by crashing it at
// every moment at which that makes a difference.
//
// What a durable flow keeps is kept by few actions: a record is appended, a step is
// committed, a snapshot is saved, old history is purged. A process that dies between
// two of them has kept the same whenever exactly it dies. So the moments before and after
// each action are all there are, and [Crash] tries each, in a run of its own:
//
//	func TestCrash(t *testing.T) {
//		durabletest.Crash(t, durabletest.Program[Ports]{
//			Build: build,
//			Drive: func(ctx context.Context, p Ports) error {
//				for i, vote := range []bool{true, true, true} { // numbered, since it starts again after a crash
//					if err := p.Votes.SendNumbered(ctx, "longer lunch", uint64(i), vote); err != nil {
//						return err
//					}
//				}
//				return nil
//			},
//			Check: func(ctx context.Context, p Ports) error {
//				if n, err := p.Passed.Await(ctx, "longer lunch"); err != nil || n != 3 {
//					return fmt.Errorf("passed with %d votes, %w", n, err)
//				}
//				return nil
//			},
//		}, durabletest.Options{})
//	}
//
// It finds functions that depend on more than their arguments, records that are lost
// because a producer does not look at errors, and records that count twice because one
// sends again without [dataflow.InputPort.SendNumbered]. It does not find what a disk or a network does:
// the history is in memory.
//
// [Upgrade] is another check: it compares the program with its earlier shape, which is kept in a
// file, and says what becomes of the histories of the earlier one.
//
// # Time
//
// Each run is a bubble of [testing/synctest]: timers take no time, and a program that
// waits for what never comes is reported instead of waited for. So Drive and Check may
// start goroutines, which have to end with their context, but cannot wait for anything
// outside the bubble, such as a real connection: let functions of asynchronous operators
// answer by themselves. Each durable action takes a moment of the bubble's time, which
// puts those of one partition into the same order every time. Several partitions may
// change places: a line that runs one moment again may have to be run more than once.
package durabletest
