package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/keyedstream"
)

// Kinds of requests and of notices.
const (
	acquire, renew, release    = "acquire", "renew", "release"
	granted, queued, renewed   = "granted", "queued", "renewed"
	released, expired, refused = "released", "expired", "refused"
)

// A token is the number of a grant. A later grant of the same lock has a larger one,
// so that who guards what is locked can fence off clients whose lease has ended.
type token uint64

// A request is what is asked of a lock.
type request struct {
	Kind, Lock, Client string
	For                time.Duration // how long the lease is to be
	Token              token         // of what is renewed or released
}

// A notice is the answer to a request, or says that a lease has ended.
type notice struct {
	Kind, Client string
	Token        token         // of one that is queued, that of the holder
	For          time.Duration // how long the lease is, of one that is granted or renewed
	At           time.Duration // when, since the keeper began
}

func (n notice) String() string { return fmt.Sprintf("%s %s, token %d", n.Client, n.Kind, n.Token) }

const lease keyedstream.Timer = 0 // of the holder, which ends when it fires
type turn = keyedstream.TimedTurn[string, notice, struct{}]

// A lock is a lock as its keeper knows it. If it is not held, nobody waits, and its timer is not set. A client waits once, and
// not while it holds the lock. One that nobody wants is not forgotten, since its tokens go on growing.
type lock struct {
	Held    bool
	Holder  string // the client that holds it, or did
	Token   token
	Waiting []request
}

// handle answers a request.
func (l *lock) handle(r request, do *turn) {
	switch {
	case r.Kind == acquire && !l.Held:
		l.grant(r, do)
	case r.Kind == acquire && l.Holder != r.Client && !l.awaits(r.Client):
		l.Waiting = append(l.Waiting, r)
		tell(do, notice{Kind: queued, Client: r.Client, Token: l.Token})
	case r.Kind == renew && l.holds(r):
		l.lend(renewed, r, do)
	case r.Kind == release && l.holds(r):
		l.pass(released, do)
	default:
		tell(do, notice{Kind: refused, Client: r.Client, Token: r.Token})
	}
}

func (l *lock) expire(_ keyedstream.Timer, do *turn) { l.pass(expired, do) }

func (l *lock) holds(r request) bool { return l.Held && l.Holder == r.Client && r.Token == l.Token }

func (l *lock) awaits(client string) bool {
	return slices.ContainsFunc(l.Waiting, func(r request) bool { return r.Client == client })
}

// pass takes the lock from its holder and gives it to who waits longest.
func (l *lock) pass(why string, do *turn) {
	tell(do, notice{Kind: why, Client: l.Holder, Token: l.Token})
	do.Stop(lease)
	l.Held = false
	if len(l.Waiting) > 0 {
		next := l.Waiting[0]
		l.Waiting = slices.Delete(l.Waiting, 0, 1)
		l.grant(next, do)
	}
}

func (l *lock) grant(r request, do *turn) {
	l.Held, l.Holder, l.Token = true, r.Client, l.Token+1
	l.lend(granted, r, do)
}

// lend has the lease of the holder begin, or begin anew.
func (l *lock) lend(why string, r request, do *turn) {
	do.After(lease, r.For)
	tell(do, notice{Kind: why, Client: l.Holder, Token: l.Token, For: r.For})
}

func tell(do *turn, n notice) {
	n.At = do.Now()
	do.Emit(n)
}
