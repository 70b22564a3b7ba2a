// Package durabletest tests that a durable program survives crashes, by crashing it at every moment at which a
// crash makes a difference.
//
// A durable flow changes its log by a few actions: it appends a record, commits a step, saves a snapshot, or
// purges old history. If a process dies between two actions, the log is the same whenever exactly that happens.
// So the moments before and after each action are the only ones to test, and [Crash] tries each of them in a
// run of its own:
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
// It finds functions that depend on more than their arguments, records that are lost because a producer ignores
// errors, and records that count twice because a producer sends again without
// [dataflow.InputPort.SendNumbered]. It does not find faults of disks and networks: the history is in memory.
//
// [Upgrade] is another check. It compares the program with its earlier shape, which is stored in a file, and
// says what would happen to histories of the earlier program.
//
// # Time
//
// Each run is in a bubble of [testing/synctest]: timers take no time, and a program that waits for something
// that never comes is reported at once. So Drive and Check may start goroutines that end with their context,
// but cannot wait for anything outside the bubble, such as a real connection: the functions of asynchronous
// operators must answer by themselves. Each durable action takes a fixed span of the bubble's time, so the
// actions of one partition come in the same order every time. Actions of different partitions may change
// places, so with several partitions a command line that runs one moment again may have to be run more than
// once.
package durabletest
