package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/plain"
)

// A runSurface is a terminal that also counts the states of calls.
type runSurface struct {
	*host.Terminal
	status *progress
}

// Progress counts the call's state, and then does what the terminal does.
func (s *runSurface) Progress(key agentproto.CallKey, state agentproto.State) {
	s.status.state(key, state)
	s.Terminal.Progress(key, state)
}

// A progress is the line at the bottom of a terminal that shows how many calls are
// done. Other output is written above it. If the output is not a terminal, there is
// no line.
type progress struct {
	live bool

	mu      sync.Mutex
	w       io.Writer
	plain   *plain.Writer // writes to w, for everything except the line
	shown   int           // columns of the visible line
	last    time.Time
	detours map[agentproto.CallKey]agentproto.State
	all, ok int
	errors  atomic.Int64
}

func newProgress(w io.Writer, live bool) *progress {
	return &progress{w: w, plain: plain.NewWriter(w), live: live, detours: make(map[agentproto.CallKey]agentproto.State)}
}

// Write writes p above the line.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	n, err := p.plain.Write(b)
	p.show()
	return n, err
}

func (p *progress) called() { p.change(false, func() { p.all++ }) }

func (p *progress) resolved() { p.change(false, func() { p.ok++ }) }

func (p *progress) state(key agentproto.CallKey, s agentproto.State) {
	p.change(s == agentproto.OAuthPending || s == agentproto.ChoicePending, func() {
		delete(p.detours, key)
		if s == agentproto.OAuthPending || s == agentproto.ChoicePending {
			p.detours[key] = s
		}
	})
}

// change changes the figures. It shows them unless that was done less than 50 ms
// ago; now forces it.
func (p *progress) change(now bool, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.live && (now || time.Since(p.last) > 50*time.Millisecond) {
		p.last = time.Now()
		p.clear()
		p.show()
	}
}

func (p *progress) clear() {
	if p.shown > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.shown, "")
		p.shown = 0
	}
}

func (p *progress) show() {
	if !p.live || p.all == 0 {
		return
	}
	oauth := 0
	for _, s := range p.detours {
		if s == agentproto.OAuthPending {
			oauth++
		}
	}
	n, _ := fmt.Fprintf(p.w, "pending %d, oauth pending %d, choice pending %d, completed %d of %d",
		p.all-p.ok-len(p.detours), oauth, len(p.detours)-oauth, p.ok, p.all)
	p.shown = n
}

// done removes the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.live = false
}
