package membership

import (
	"maps"
	"slices"
	"time"
)

const (
	// renewalsToReturn is how many renewals a suspected member must show before it counts again. The number
	// doubles with each suspicion, up to maxRenewalsToReturn, so that a member that keeps coming and going is
	// away longer than it is there. It is reset after renewalsToForgive renewals without a suspicion.
	renewalsToReturn    = 2
	maxRenewalsToReturn = 16
	renewalsToForgive   = 30
)

// A lease is what a member stores in the bucket.
type lease struct {
	// Started is when the member joined, in nanoseconds of Unix time. It is greater than that of any lease with
	// the same ID that the member found. The greatest wins.
	Started int64  `json:"started"`
	Renewal uint64 `json:"renewal"` // counts from 1
	Info    []byte `json:"info,omitempty"`
	Refusals
}

// A peer is what a member knows about a member, possibly itself.
type peer struct {
	lease
	revision uint64 // of the lease in the bucket
	round    uint64 // of the watch that last showed it

	// answered says that the member has answered a probe since this member connected and since it was last
	// suspected. A member that has not is not suspected for its silence: perhaps it cannot answer, or has not
	// reconnected yet. This prevents flapping.
	answered  bool
	missed    int // probes without a responder since the last answer
	suspected bool
	shown     int // renewals since it was suspected, or since it returned
	needed    int // renewals needed until it returns
}

// public returns the public view of a member.
func (p *peer) public(id string) Peer {
	return Peer{ID: id, Info: p.Info, Started: time.Unix(0, p.Started), Refusals: p.Refusals}
}

// A view merges what a member learns from the watch, its probes and the clock into an assignment. It is used by
// one goroutine and does not use the network; the current time is always an argument. It keeps these
// invariants:
//
//  1. Each partition has one owner, which is in live, unless live is empty. The owner refuses the partition
//     only if all in live do.
//  2. owned is empty if now is not before until, and before the watch has shown all leases once.
//  3. until is at most the duration of a lease after the sending of the latest own renewal that came back
//     through the watch. So the view is at most that old.
type view struct {
	self       string
	started    int64
	partitions int
	lease      time.Duration

	peers  map[string]*peer
	round  uint64 // number of the current watch
	floor  uint64 // the latest own renewal that the previous watch showed
	listed bool   // this watch has shown the leases that existed when it began
	whole  bool   // a watch has been believed once

	sent       map[uint64]time.Time // own renewals that have not come back, by number
	until      time.Time            // when the own lease ends
	up         bool                 // the own lease has not ended, as far as this member has noticed
	former     []string             // the live others when the own lease ended
	resume     time.Time            // when to stop waiting for them to come back
	superseded bool
	refused    uint64 // counts changes of what members refuse
}

func newView(self string, started int64, partitions int, lease time.Duration) *view {
	return &view{
		self: self, started: started, partitions: partitions, lease: lease,
		peers: make(map[string]*peer), sent: make(map[uint64]time.Time),
	}
}

// renewing notes that the own lease is about to be sent.
func (v *view) renewing(renewal uint64, now time.Time) { v.sent[renewal] = now }

// begin notes that a watch begins, which first shows all existing leases.
func (v *view) begin() {
	v.round++
	v.listed = false
	if p := v.peers[v.self]; p != nil {
		v.floor = p.Renewal
	}
}

// shown notes that a watch has shown all leases that existed when it began.
func (v *view) shown() {
	v.listed = true
	v.believe()
}

// believe forgets members that a new watch has not shown, once that watch is at least as new as the previous
// one: a replica that lags behind does not know everybody. This member's own lease shows whether it does.
func (v *view) believe() {
	p := v.peers[v.self]
	if !v.listed || p == nil || p.round != v.round || p.Renewal < v.floor {
		return
	}
	maps.DeleteFunc(v.peers, func(_ string, p *peer) bool { return p.round != v.round })
	v.whole = true
}

// put notes that the watch showed a lease. It reports whether a suspected member is back.
func (v *view) put(id string, l lease, revision uint64, now time.Time) (back bool) {
	p := v.peers[id]
	switch {
	case p == nil || l.Started > p.Started:
		p = &peer{needed: renewalsToReturn}
		v.peers[id] = p
		v.refused++
	case l.Started < p.Started: // a late lease of a member that was superseded
		p.round = v.round
		return false
	case p.revision != revision: // else a new watch shows the same lease again
		p.shown++
	}
	if !p.Refusals.equal(&l.Refusals) {
		v.refused++
	}
	p.lease, p.revision, p.round = l, revision, v.round
	if id == v.self {
		v.came(l, now)
		v.believe()
		return false
	}
	if !p.suspected && p.shown >= renewalsToForgive {
		p.needed = renewalsToReturn
	}
	if p.suspected && p.shown >= p.needed {
		p.suspected, p.answered, p.missed, p.shown = false, false, 0, 0
		p.needed = min(2*p.needed, maxRenewalsToReturn)
		return true
	}
	return false
}

// came handles a lease with this member's ID that came back: its own, or that of a member that superseded it.
func (v *view) came(l lease, now time.Time) {
	if l.Started > v.started {
		v.superseded = true
		return
	}
	at, ok := v.sent[l.Renewal]
	if !ok {
		return
	}
	maps.DeleteFunc(v.sent, func(n uint64, _ time.Time) bool { return n <= l.Renewal })
	v.until = at.Add(v.lease)
	if !v.up && now.Before(v.until) {
		v.up = true
		v.resume = now.Add(v.lease / 6)
	}
}

// gone notes that a lease was given back or has ended.
func (v *view) gone(id string, now time.Time) {
	delete(v.peers, id)
	if id == v.self {
		v.until = now
	}
}

// lapse reports whether the own lease has ended since the last call.
func (v *view) lapse(now time.Time) bool {
	if !v.up || now.Before(v.until) {
		return false
	}
	v.up = false
	v.former = slices.DeleteFunc(v.live(now), func(id string) bool { return id == v.self })
	return true
}

// connected notes that this member has reconnected. Others may be about to reconnect, so they are not
// suspected until they have answered on this connection.
func (v *view) connected() {
	for _, p := range v.peers {
		p.answered, p.missed = false, 0
	}
}

// answer notes that a member has answered a probe.
func (v *view) answer(id string) {
	if p := v.peers[id]; p != nil && !p.suspected {
		p.answered, p.missed = true, 0
	}
}

// silence notes that nobody was there to answer a probe. It reports whether to probe again soon, to be sure,
// or whether the member is suspected from now on.
func (v *view) silence(id string) (again, suspected bool) {
	p := v.peers[id]
	if p == nil || p.suspected || !p.answered {
		return false, false
	}
	p.missed++
	if p.missed < 2 {
		return true, false
	}
	p.suspected, p.answered, p.shown = true, false, 0
	return false, true
}

// others returns the members to probe, in order.
func (v *view) others() []string {
	var ids []string
	for id, p := range v.peers {
		if id != v.self && !p.suspected {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// live returns the members that count, in order.
func (v *view) live(now time.Time) []string {
	ids := v.others()
	if now.Before(v.until) && v.peers[v.self] != nil && !v.superseded {
		ids = append(ids, v.self)
		slices.Sort(ids)
	}
	return ids
}

// owners returns the owner of each partition among live members, considering what they refuse.
func (v *view) owners(live []string) []string {
	refuses := make(map[string]*Refusals)
	for _, id := range live {
		if r := &v.peers[id].Refusals; len(r.Never)+len(r.NotNow) > 0 {
			refuses[id] = r
		}
	}
	return Owners(v.partitions, live, refuses)
}

// waiting reports whether this member, whose lease had ended, waits for others before it owns again. After an
// outage of the servers the leases of all have ended, and the first member to come back would otherwise take
// everything and hand it over a moment later.
func (v *view) waiting(now time.Time) bool {
	return now.Before(v.resume) && slices.ContainsFunc(v.former, func(id string) bool {
		p := v.peers[id]
		return p == nil || p.suspected
	})
}

// owned returns what this member owns now, given the owner of each partition.
func (v *view) owned(owners []string, now time.Time) []int {
	if !v.whole || v.superseded || !now.Before(v.until) || v.waiting(now) {
		return nil
	}
	var mine []int
	for p, id := range owners {
		if id == v.self {
			mine = append(mine, p)
		}
	}
	return mine
}
