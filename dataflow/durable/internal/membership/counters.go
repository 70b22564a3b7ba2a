package membership

import "sync/atomic"

// Counters say what a member did since it joined. They only grow.
type Counters struct {
	Renewals       uint64 // of the own lease that were acknowledged
	FailedRenewals uint64 // refused, not answered in time, or not sent for want of a connection
	Lapses         uint64 // times the own lease ended and the member owned nothing
	Watches        uint64 // times the watch was begun anew, the first not counted
	Suspicions     uint64 // of others that answered no probe
	Returns        uint64 // of others that were suspected wrongly
	Assignments    uint64 // changes of what this member owns
}

type counters struct {
	renewals, failedRenewals, lapses, watches, suspicions, returns, assignments atomic.Uint64
}

// Counters returns the counters as they stand. It may be called by any goroutine, also
// after the member has left.
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
