package conform

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/freeport"
)

// A runtimeTrial is the execution of one case on a runtime, with its tool servers and processes.
//
// The body of a case runs in one goroutine. A requirement that fails ends it with a panic, so that
// a body reads as a list of actions and required outcomes.
type runtimeTrial struct {
	*probe
	command RuntimeCommand
	folder  string
	config  RuntimeConfig
	servers []*scriptedTool
	p       *runtimeProcess
	started []*runtimeProcess
}

const (
	patience = 10 * time.Second       // for what must happen
	settling = 250 * time.Millisecond // time in which something that must not happen would
)

// shortTimeouts returns the timeouts of cases that set no others.
func shortTimeouts() RuntimeTimeouts {
	return RuntimeTimeouts{
		Connect: 1000, Ack: 2000, Retry: []int64{40, 80, 160}, Dispatch: 8000, Discovery: 3000, Call: 60_000,
		OAuth: 60_000, Choice: 60_000, Answer: 1000, Notify: 1500, Migrate: 3000, ReadHeader: 2000, Read: 5000,
	}
}

// onRuntime returns the trial of a case on a runtime that a command starts.
func onRuntime(command RuntimeCommand, body func(*runtimeTrial)) func(*probe) {
	return func(p *probe) {
		t := newRuntimeTrial(p, command)
		body(t)
		if t.p != nil && !t.p.alive() {
			t.failf("the runtime ended by itself:\n%s", t.p.log)
		}
	}
}

// newRuntimeTrial returns a trial that ends with its probe.
func newRuntimeTrial(p *probe, command RuntimeCommand) *runtimeTrial {
	folder, err := os.MkdirTemp("", "conform-runtime-*")
	p.must(err, "making a folder")
	p.after(func() { os.RemoveAll(folder) })
	t := &runtimeTrial{probe: p, command: command, folder: folder}
	t.config.TimeoutsMS = shortTimeouts()
	p.after(t.end)
	return t
}

func (t *runtimeTrial) end() {
	for _, p := range t.started {
		p.kill()
	}
	for _, s := range t.servers {
		s.close()
	}
}

// failf ends the case as failed.
func (t *runtimeTrial) failf(format string, args ...any) {
	t.fail(t.Case.Action, fmt.Sprintf(format, args...), t.Case.Expected)
}

// want fails the case unless holds is true.
func (t *runtimeTrial) want(holds bool, format string, args ...any) {
	if !holds {
		t.failf(format, args...)
	}
}

// must ends the case if err is not nil: as not applicable if the runtime lacks a part, as failed if
// the runtime has ended or the time is over, and otherwise as an error.
func (t *runtimeTrial) must(err error) {
	if Lacking(err) {
		t.lacks(err.Error())
	}
	if err != nil && t.p != nil && !t.p.alive() {
		t.failf("the runtime ended: %v\n%s", err, t.p.log)
	}
	if err != nil && t.ctx.Err() != nil {
		t.failf("%v", context.Cause(t.ctx))
	}
	t.probe.must(err, "driving the runtime")
}

// needs ends the case as not applicable if the runtime lacks a part. It may be called once the
// runtime runs.
func (t *runtimeTrial) needs(parts ...string) {
	for _, part := range parts {
		if !t.has(part) {
			t.lacks("the runtime lacks " + part)
		}
	}
}

// has reports whether the runtime has a part.
func (t *runtimeTrial) has(part string) bool { return !slices.Contains(t.p.hello.Lacks, part) }

// until waits for a condition, and fails the case if it does not become true.
func (t *runtimeTrial) until(what string, holds func() bool) {
	t.within(patience, what, holds)
}

func (t *runtimeTrial) within(d time.Duration, what string, holds func() bool) {
	if !t.poll(d, holds) {
		t.failf("did not happen within %v: %s", d, what)
	}
}

// never watches a condition for a short while, and fails the case if it becomes true.
func (t *runtimeTrial) never(what string, holds func() bool) {
	if t.poll(settling, holds) {
		t.failf("must not happen: %s", what)
	}
}

// poll reports whether a condition becomes true within d. It polls, because the state of another
// process changes without notice.
func (t *runtimeTrial) poll(d time.Duration, holds func() bool) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	tick := time.NewTicker(4 * time.Millisecond)
	defer tick.Stop()
	for {
		if holds() {
			return true
		}
		select {
		case <-tick.C:
		case <-over.C:
			return holds()
		case <-t.ctx.Done():
			t.failf("%v", context.Cause(t.ctx))
		}
	}
}

// pass waits for d, for cases about time.
func (t *runtimeTrial) pass(d time.Duration) { t.poll(d, func() bool { return false }) }

// freeAddress returns a loopback address on which nothing listens.
func (t *runtimeTrial) freeAddress() string {
	at, err := freeport.Address()
	t.must(err)
	return at
}

// start starts the runtime with the trial's servers.
func (t *runtimeTrial) start() {
	if t.config.Toolsets == nil {
		for _, s := range t.servers {
			t.config.Toolsets = append(t.config.Toolsets, ToolsetConfig{ID: s.name, URL: s.base})
		}
	}
	if t.config.CallbackListen == "" {
		t.config.CallbackListen = t.freeAddress()
	}
	for _, s := range t.servers {
		s.set(func(*scriptedTool) {}) // orders earlier changes before requests, which arrive from another process
	}
	p, err := t.command.start(t.ctx, t.folder, t.config)
	t.must(err)
	t.p = p
	t.started = append(t.started, p)
}

// startWithState starts the runtime with a new state folder.
func (t *runtimeTrial) startWithState() {
	dir, err := os.MkdirTemp(t.folder, "state-*")
	t.must(err)
	t.config.State = dir
	t.start()
	t.needs(PartState)
}

// restart kills the runtime and starts it again with its state.
func (t *runtimeTrial) restart() {
	t.p.kill()
	t.start()
}

// another returns a trial of a second runtime, with its own tool servers.
func (t *runtimeTrial) another() *runtimeTrial {
	o := newRuntimeTrial(t.probe, t.command)
	o.config.TimeoutsMS = t.config.TimeoutsMS
	return o
}

// session opens a session, whose servers must all be offered, and returns its root thread.
func (t *runtimeTrial) session(id string) *trialThread {
	s, err := t.p.Open(t.ctx, SessionRequest{ID: id, UserID: "user-" + id, Images: true})
	t.must(err)
	t.want(len(s.Problems) == 0, "session %q: good toolsets are not offered: %+v", id, s.Problems)
	return &trialThread{t: t, id: id}
}

// one starts a runtime with one tool server, and opens the session s.
func (t *runtimeTrial) one() (*scriptedTool, *trialThread) {
	s := t.server("tools")
	t.start()
	return s, t.session("s")
}

// together calls do n times concurrently.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}
