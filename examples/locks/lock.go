package main

import (
	"fmt"
	"slices"
	"time"
)

// What a client can ask for, and what the clock says.
const (
	acquire = "acquire"
	renew   = "renew"
	release = "release"
	expire  = "expire"
)

// What becomes of it.
const (
	granted  = "granted"
	queued   = "queued"
	renewed  = "renewed"
	released = "released"
	expired  = "expired"
	refused  = "refused"
)

// A token is the number of a grant. A later grant of the same lock has a larger one,
// so that who guards what is locked can fence off clients whose lease has ended.
type token uint64

// A lease is a grant and how often it was renewed.
type lease struct {
	Token token
	Term  int
}

// A request is what is asked of a lock.
type request struct {
	Kind   string
	Lock   string
	Client string
	For    time.Duration // how long the lease is to be
	lease                // Token of what is renewed or released
}

func (r request) from(client string) request {
	r.Client = client
	return r
}

// A notice is what has become of a request, or of a lease.
type notice struct {
	Kind   string
	Client string
	For    time.Duration
	lease
}

func (n notice) String() string {
	if n.Token == 0 {
		return fmt.Sprintf("%s %s", n.Client, n.Kind)
	}
	return fmt.Sprintf("%s %s, token %d", n.Client, n.Kind, n.Token)
}

// A lock is a lock as its keeper knows it.
//
// It maintains:
//
//  1. if it is not held, nobody waits,
//  2. at.Token is that of the last grant, so that a grant is told by it for ever,
//  3. a client waits once, and not while it holds the lock.
type lock struct {
	held    bool
	holder  string // the client that holds it, or did
	at      lease  // of the holder
	waiting []request
}

func unlocked() lock { return lock{} }

// handle decides what becomes of a request.
func (l *lock) handle(r request, tell func(notice)) {
	switch {
	case r.Kind == acquire && !l.held:
		l.grant(r, tell)
	case r.Kind == acquire && l.holder != r.Client && !l.awaits(r.Client):
		l.waiting = append(l.waiting, r)
		tell(notice{Kind: queued, Client: r.Client})
	case r.Kind == expire && l.held && r.lease == l.at:
		l.pass(expired, tell)
	case r.Kind == expire:
		// The lease was released or renewed in the meantime.
	case r.Kind == renew && l.holds(r):
		l.at.Term++
		tell(notice{renewed, l.holder, r.For, l.at})
	case r.Kind == release && l.holds(r):
		l.pass(released, tell)
	default:
		tell(notice{Kind: refused, Client: r.Client, lease: r.lease})
	}
}

func (l *lock) holds(r request) bool { return l.held && l.holder == r.Client && r.Token == l.at.Token }

func (l *lock) awaits(client string) bool {
	return slices.ContainsFunc(l.waiting, func(r request) bool { return r.Client == client })
}

// pass ends the lease of the holder and gives the lock to who waits longest.
func (l *lock) pass(why string, tell func(notice)) {
	tell(notice{Kind: why, Client: l.holder, lease: l.at})
	l.held = false
	if len(l.waiting) > 0 {
		next := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.grant(next, tell)
	}
}

func (l *lock) grant(r request, tell func(notice)) {
	l.held, l.holder, l.at = true, r.Client, lease{Token: l.at.Token + 1}
	tell(notice{granted, r.Client, r.For, l.at})
}
