package conform

import "time"

// Options are the settings of a run. The zero value runs every case of a side.
type Options struct {
	// Run is a regular expression for the ids of the cases to run, such as A0[1-4]. It must match
	// the whole id. Empty means all.
	Run string
	// Levels are the letters of the levels to run, such as MS. Empty means all.
	Levels string
	// Parallel is how many cases may run at once. Zero means 16.
	Parallel int
	// Timeout limits each case, instead of the case's own limit. Zero means those limits: one
	// minute, or more for cases that wait for something long. The time in which a case waits for a
	// tool server within the limits of its profile does not count towards the case's own limit.
	Timeout time.Duration
	// Baseline contains the cases that are expected to fail.
	Baseline Baseline
	// Progress is called with each result when it is available, one call at a time.
	Progress func(Result)
}

// defaultTimeout is the limit of a case that sets no other.
const defaultTimeout = time.Minute

// defaultParallel is how many cases run at once. Cases wait more than they compute.
const defaultParallel = 16
