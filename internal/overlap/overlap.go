// Package overlap lets tests that wait for processes, timers and servers run at the same time.
//
// The testing package runs as many parallel tests at once as there are processors. On two processors that is too
// few for tests that mostly wait.
package overlap

import "flag"

// AtOnce is how many parallel tests run at the same time.
const AtOnce = "8"

// Tests makes parallel tests overlap, unless the flag -parallel says how many do. TestMain calls it before the tests
// run.
func Tests() {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p != nil && p.Value.String() == p.DefValue {
		_ = p.Value.Set(AtOnce) // a number
	}
}
