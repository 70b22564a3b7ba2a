// Package tally counts what happens in a runtime: the fields of host.Counts.
package tally

import "sync/atomic"

// A Counter names one field of host.Counts.
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

// Counters are one of each.
type Counters [counterCount]atomic.Uint64
