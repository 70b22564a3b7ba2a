package mcptools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// pauses are the pauses before restarting a program that has just ended.
var pauses = []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second, time.Minute}

// legacy is the last version of the protocol that begins with initialize. If a program ends at, or does not answer, the first
// request of newer versions, it is started again with this version.
const legacy = "2025-11-25"

const (
	probeTime  = 3 * time.Second // in which a program answers that request, unless it is known to start slowly
	legacyTime = 24 * time.Hour  // how long it counts that a program needs the older version
)

// endsTime is how long an end of the server counts.
const endsTime = time.Minute

// A link makes connections to an MCP server, one after the other. There is one link for all who use the server, or one for each
// user who has authorized access or has a program of their own.
type link struct {
	m      *member
	user   string                 // the user whose tokens or program it uses; empty for the shared link
	folder string                 // records of its program; empty for none
	dir    string                 // working directory of its program
	bearer atomic.Pointer[string] // the access token for requests over HTTP; nil for none
	http   *http.Client           // nil for a program
	// refused is the challenge to server/discover, if there was one. The SDK reports only the failure of the initialize request
	// that follows, which newer servers do not support.
	refused atomic.Pointer[challenge]

	// The following fields are guarded by m.mu.
	live       *session
	connecting chan struct{} // closed when the attempt to connect is over; nil if there is none
	failure    error         // of the last attempt
	down       error         // why it is not tried again for now; nil otherwise
	ends       int           // in the last minute
	lastEnd    time.Time
	lastErr    error // why it ended then
	calls      int   // uses in progress: see [link.release]
	lastUse    time.Time
	idle       *time.Timer // stops the program; nil before it was needed
	leaving    *session    // the session that was last stopped because nobody used it
	slept      time.Time   // when that was; zero if never
	began      time.Time   // when the connection was made
}

// session returns the connection to the server, and makes one if there is none. Fresh makes it try a server again that was given
// up.
func (l *link) session(ctx context.Context, fresh bool) (*session, error) {
	m := l.m
	for {
		m.mu.Lock()
		if s := l.live; s != nil {
			select {
			case <-s.ended:
				l.live = nil
			default:
				m.mu.Unlock()
				return s, nil
			}
		}
		if m.closed {
			m.mu.Unlock()
			return nil, errClosed
		}
		if l.down != nil && !fresh {
			err := l.down
			m.mu.Unlock()
			return nil, err
		}
		if l.connecting == nil {
			l.connecting = make(chan struct{})
			m.tasks.Go(l.connect)
		}
		wait := l.connecting
		m.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		m.mu.Lock()
		s, err := l.live, l.failure
		m.mu.Unlock()
		if s == nil && err != nil {
			return nil, err
		}
		fresh = false
	}
}

var errClosed = errors.New("the MCP servers are being closed")

// connect makes the connection, after a pause if the last one has just ended.
func (l *link) connect() {
	m := l.m
	m.mu.Lock()
	pause := time.Duration(0)
	if time.Since(l.lastEnd) > endsTime {
		l.ends = 0
	}
	if l.ends > 0 {
		pause = pauses[min(l.ends, len(pauses))-1]
	}
	if l.down != nil {
		pause, l.down, l.ends = 0, nil, 0
	}
	leaving := l.leaving
	m.mu.Unlock()
	if leaving != nil { // two programs must not work in one folder
		<-leaving.ended
	}
	s, err := l.dial(pause)
	m.mu.Lock()
	defer m.mu.Unlock()
	l.live, l.failure = s, err
	if s != nil {
		l.began, l.leaving = time.Now(), nil
		l.lastUse = l.began
		l.rest()
	}
	if _, asked := challengeIn(err); err != nil && !asked { // a server that asks for a token is up
		l.note(err)
	}
	close(l.connecting)
	l.connecting = nil
}

// note counts an end of the server, and gives the server up after too many. m.mu is held.
func (l *link) note(err error) {
	m := l.m
	now := time.Now()
	if now.Sub(l.lastEnd) > endsTime {
		l.ends = 0
	}
	l.lastEnd, l.lastErr = now, err
	if l.ends++; l.ends >= m.bounds.Ends {
		l.down = downError{m.server.Name, err}
	}
	if !m.closed {
		m.log.Warn("MCP server is not there", "server", m.server.Name, "user", l.user, "error", err, "ends", l.ends)
	}
}

func (l *link) dial(pause time.Duration) (*session, error) {
	m := l.m
	if pause > 0 {
		t := time.NewTimer(pause)
		defer t.Stop()
		select {
		case <-t.C:
		case <-m.ctx.Done():
			return nil, errClosed
		}
	}
	if m.server.URL != "" {
		l.refused.Store(nil)
		s, err := l.open(m.ctx, "", nil)
		if c := l.refused.Load(); err != nil && c != nil {
			err = c
		}
		return s, err
	}
	program := m.program()
	known := m.greeted(program)
	if known.Version != "" {
		return l.open(m.ctx, known.Version, m.starter)
	}
	for limit := max(probeTime, known.Patience); ; {
		ctx, cancel := context.WithTimeout(m.ctx, limit)
		s, err := l.open(ctx, "", m.starter)
		silent := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			m.greet(greeting{Program: program, Patience: limit})
			return s, nil
		case m.ctx.Err() != nil:
			return nil, err
		}
		began := time.Now()
		if s, err = l.open(m.ctx, legacy, m.starter); err != nil {
			return nil, err
		}
		took := time.Since(began)
		if !silent || took <= limit/2 {
			m.greet(greeting{Program: program, Version: legacy, Found: time.Now()})
			m.log.Info("MCP server speaks an older version", "server", m.server.Name, "version", legacy)
			return s, nil
		}
		// It was perhaps not silent but slow to start, as a launcher is that fetches a package first.
		_ = s.cs.Close() // the error only says how the program has ended
		<-s.ended        // two programs must not work in one folder
		limit = 3 * took
	}
}

// A greeting says how to begin a connection with a program.
type greeting struct {
	Version  string        `json:"version,omitempty"`  // the protocol version that it needs; empty for the newest
	Program  string        `json:"program,omitempty"`  // the program: see [member.program]
	Found    time.Time     `json:"found,omitzero"`     // when it was found to need Version
	Patience time.Duration `json:"patience,omitempty"` // in which it has answered the first request of newer versions
}

// greeted returns what is known of a program. A launcher stays the same when what it starts is updated, so that it needs an older
// version counts for a while.
func (m *member) greeted(program string) greeting {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.greeting
	if g.Program != program {
		return greeting{}
	}
	if age := time.Since(g.Found); age < 0 || age >= legacyTime {
		g.Version = ""
	}
	return g
}

func (m *member) greet(g greeting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.greeting = g
}

// program identifies a program by its arguments and the modification time of its file.
func (m *member) program() string {
	at := ""
	if info, err := os.Stat(m.path); err == nil {
		at = info.ModTime().UTC().Format(time.RFC3339Nano)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %s", m.path, m.server.Command, at))
	return hex.EncodeToString(sum[:])
}
