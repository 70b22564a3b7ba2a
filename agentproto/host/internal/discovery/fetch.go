package discovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/peer"
)

// A fetch is a request for a manifest that several callers share.
type fetch struct {
	done chan struct{} // closed when the other fields are set
	set  *toolset
	err  error
}

// toolsetOf returns the toolset of a server, as fresh as possible. It waits as long as the fetch takes. If the server was silent
// the last time, or the session asks again, it waits only a tenth of host.Timeouts.Discovery, and if both, not at all. The fetch
// goes on, and the next caller gets its outcome.
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

// freshOf fetches the toolset of a server, or returns why it cannot. Again is as in join.
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

// join returns the fetch in progress, or starts one, and whether the server was silent before. If again is set and the last fetch
// failed only a short while ago, it starts none and returns that failure.
func (c *Catalog) join(life context.Context, s *source, again bool) (f *fetch, silent bool, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		if failure := s.justFailed(); failure != nil {
			return nil, false, failure
		}
	}
	if s.fetching == nil {
		f := &fetch{done: make(chan struct{})}
		s.fetching = f
		go func() { // ends with life, or after the timeout of the fetch
			set, err := c.load(life, s)
			s.end(f, set, err)
		}()
	}
	return s.fetching, s.silent, nil
}

// end ends a fetch.
func (s *source) end(f *fetch, set *toolset, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.set, f.err = set, err
	s.fetching, s.silent = nil, errors.Is(err, context.DeadlineExceeded)
	s.failure, s.failed = err, time.Now()
	if set != nil {
		s.last = set
	}
	close(f.done)
}

// lastGood returns the last valid toolset of the server, or nil.
func (s *source) lastGood() *toolset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// askAgainAfter is how long a server that did not serve a valid manifest is left alone before a session without one asks again.
const askAgainAfter = time.Second

// failedJustNow returns why the last fetch of the manifest failed if it is too early for another one, otherwise nil.
func (s *source) failedJustNow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.justFailed()
}

// justFailed is failedJustNow with the lock held.
func (s *source) justFailed() error {
	if s.failure == nil || s.fetching != nil || time.Since(s.failed) >= askAgainAfter {
		return nil
	}
	return s.failure
}

// mayAskAgain reports whether a server without a toolset in an offer may be asked again.
func (c *Catalog) mayAskAgain(o *Offer) bool {
	for i, s := range c.sources {
		if o.sets[i] == nil && s.failedJustNow() == nil {
			return true
		}
	}
	return false
}

// knownOf returns the last valid toolset of a server. Without one it fetches the manifest, for at most a tenth of
// host.Timeouts.Discovery, and returns nil if that fails.
func (c *Catalog) knownOf(ctx context.Context, s *source) *toolset {
	if set := s.lastGood(); set != nil {
		return set
	}
	ctx, cancel := context.WithTimeout(ctx, c.Discovery/10)
	defer cancel()
	set, _ := c.freshOf(ctx, s, true) // the next caller asks again
	return set
}

// A Standing is the state of a tool server's manifest.
type Standing struct {
	Name    string // in the last valid manifest; empty without one
	Tools   []Tool // of the last valid manifest
	Failure error  // of the last fetch; nil if it succeeded or there was none
	Failed  time.Time
}

// Standing returns the state of the manifest of a tool server.
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
