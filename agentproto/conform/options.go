package conform

import "time"

// Options are the settings of a run. The zero value runs every case of a side.
type Options struct {
	// Run is a regular expression for the ids of the cases to run, which has to match
	// the whole id, such as A0[1-4]. Empty means all.
	Run string
	// Levels are the letters of the levels to run, such as MS. Empty means all.
	Levels string
	// Parallel is how many cases may run at once. Zero means 16, 1 one after the other.
	Parallel int
	// Timeout bounds each case, and replaces the limit that a case has of its own.
	// Zero leaves those, which are one minute or, where something long is waited
	// for, more, without the time in which a case waits for a tool server within the
	// limits of its profile.
	Timeout time.Duration
	// Baseline has the cases that are expected to fail.
	Baseline Baseline
	// Progress is called with each result, one call at a time, when it is there.
	Progress func(Result)
}

// defaultTimeout is how long a case may take that says nothing else.
const defaultTimeout = time.Minute

// defaultParallel is how many cases run at once. They wait more than they compute.
const defaultParallel = 16
