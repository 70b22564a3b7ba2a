package discovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/peer"
)

// A flight is a fetch of a manifest for all who want it.
type flight struct {
	done chan struct{} // closed when the rest is set
	set  *toolset
	err  error
}

// toolsetOf returns the toolset of a server, as fresh as can be had. It is waited for as
// long as the fetch takes, but only a tenth of host.Timeouts.Discovery if the server was silent
// the last time or the session asks again, and not at all if both: the fetch goes on, and
// the next one to ask has what came of it.
func (c *Catalog) toolsetOf(ctx, life context.Context, s *source, again bool) (*toolset, error) {
	f, silent, failure := c.join(life, s, again)
	if failure != nil {
		return nil, failure
	}
	var enough <-chan time.Time
	if silent || again {
		patience := c.Discovery / 10
		if silent && again {
			patience = 0
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		enough = timer.C
	}
	var set *toolset
	var err error
	select {
	case <-f.done:
		set, err = f.set, f.err
	case <-enough:
		err = errSilent
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if last := s.lastGood(); errors.Is(err, errNotFetched) && last != nil {
		c.Log.Warn("the last good manifest is used", "toolset", s.Base, "error", err)
		return last, nil
	}
	return set, err
}

var errSilent = fmt.Errorf("%w: no answer in time, nor to the request before", errNotFetched)

// freshOf returns the toolset of a server as it says now, or why it does not. Again is as
// in join.
func (c *Catalog) freshOf(ctx context.Context, s *source, again bool) (*toolset, error) {
	f, _, failure := c.join(c.ctx, s, again)
	if failure != nil {
		return nil, failure
	}
	select {
	case <-f.done:
		return f.set, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the fetch that is under way, or one that it begins, and whether the
// server was silent before. If again, it begins none too early after one that failed, and
// returns why that did.
func (c *Catalog) join(life context.Context, s *source, again bool) (f *flight, silent bool, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		if failure := s.justFailed(); failure != nil {
			return nil, false, failure
		}
	}
	if s.flight == nil {
		f := &flight{done: make(chan struct{})}
		s.flight = f
		go func() { // which ends with life, or when the server has had its time
			set, err := c.load(life, s)
			s.land(f, set, err)
		}()
	}
	return s.flight, s.silent, nil
}

// land ends a flight.
func (s *source) land(f *flight, set *toolset, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.set, f.err = set, err
	s.flight, s.silent = nil, errors.Is(err, context.DeadlineExceeded)
	s.failure, s.failed = err, time.Now()
	if set != nil {
		s.last = set
	}
	close(f.done)
}

// lastGood returns the last good toolset of the server, or nil.
func (s *source) lastGood() *toolset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// askAgainAfter is how long a server is left alone that did not hand out a good manifest,
// before a session that has none is a reason to ask it again.
const askAgainAfter = time.Second

// failedJustNow returns why the last fetch of the manifest failed, if it is too early for
// another one, or nil.
func (s *source) failedJustNow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.justFailed()
}

// justFailed is failedJustNow with the lock held.
func (s *source) justFailed() error {
	if s.failure == nil || s.flight != nil || time.Since(s.failed) >= askAgainAfter {
		return nil
	}
	return s.failure
}

// mayAskAgain reports whether a server that has nothing in an offer may be asked again.
func (c *Catalog) mayAskAgain(o *Offer) bool {
	for i, s := range c.sources {
		if o.sets[i] == nil && s.failedJustNow() == nil {
			return true
		}
	}
	return false
}

// knownOf returns the last good toolset of a server. If there is none yet it asks for it,
// for no longer than a tenth of host.Timeouts.Discovery, and returns nil if that fails.
func (c *Catalog) knownOf(ctx context.Context, s *source) *toolset {
	if set := s.lastGood(); set != nil {
		return set
	}
	ctx, cancel := context.WithTimeout(ctx, c.Discovery/10)
	defer cancel()
	set, _ := c.freshOf(ctx, s, true) // the next one to need it asks again
	return set
}

// A Standing is what is known of a tool server's manifest.
type Standing struct {
	Name    string // in the last good manifest; empty if there was none
	Tools   []Tool // of the last good manifest
	Failure error  // of the last fetch; nil if that was good, or there was none
	Failed  time.Time
}

// Standing returns what is known of the manifest of a tool server.
func (c *Catalog) Standing(s *peer.Server) (st Standing) {
	x := c.of[s]
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last != nil {
		st.Name, st.Tools = x.last.Manifest.Name, x.last.tools
	}
	if st.Failure = x.failure; st.Failure != nil {
		st.Failed = x.failed
	}
	return st
}
