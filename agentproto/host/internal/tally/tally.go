// Package tally counts what happens in a runtime: the fields of host.Counts. Use [Counters].
package tally

import "sync/atomic"

// A Counter identifies a field of host.Counts.
type Counter int

const (
	Calls Counter = iota
	Attempts
	Results
	Failures
	Duplicates
	Late
	Repeated
	Malformed
	Forged
	Busy
	Views
	Events
	Unsubscribed
	Forwarded
	LeftOut
	counterCount
)

// Counters are a set of all counters.
type Counters [counterCount]atomic.Uint64
