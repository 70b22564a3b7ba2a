package membership

import "sync/atomic"

// Counters count what a member did since it joined. They only grow.
type Counters struct {
	Renewals       uint64 // acknowledged renewals of its own lease
	FailedRenewals uint64 // refused, not answered in time, or not sent for lack of a connection
	Lapses         uint64 // times its own lease ended, so that the member owned nothing
	Watches        uint64 // times the watch was restarted
	Suspicions     uint64 // other members suspected because they answered no probe
	Returns        uint64 // other members that were suspected wrongly
	Assignments    uint64 // changes of what this member owns
}

type counters struct {
	renewals, failedRenewals, lapses, watches, suspicions, returns, assignments atomic.Uint64
}

// Counters returns the current counters. Any goroutine may call it, even after the member has left.
func (m *Member) Counters() Counters {
	c := &m.counters
	return Counters{
		Renewals:       c.renewals.Load(),
		FailedRenewals: c.failedRenewals.Load(),
		Lapses:         c.lapses.Load(),
		Watches:        c.watches.Load(),
		Suspicions:     c.suspicions.Load(),
		Returns:        c.returns.Load(),
		Assignments:    c.assignments.Load(),
	}
}
