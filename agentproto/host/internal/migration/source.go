package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/internal/edge"
)

// A sessionExport is all of a session: what its destination makes it of.
type sessionExport struct {
	Ticket  string // of the offer
	Threads []threadExport
}

// A threadExport is all of a thread.
type threadExport struct {
	Thread       string
	Conversation *conversation.Export // nil for a thread of somebody else's loop
	Calls        *agentproto.ThreadSnapshot
	// Toolsets has the name of the toolset of each call, by its ID: the address of its tool
	// server may be another one at the destination.
	Toolsets map[string]string
}

// A departure is a migration from here. Its methods are the steps, and all of them can be
// done again: after a crash the migration begins anew, unless a note says how far it was.
type departure struct {
	mg      *Migrator
	session string
	id      string
	to      string
	plan

	again bool // tool servers were asked before a crash
}

// A plan is what has to be known of a departure after a crash.
type plan struct {
	Threads []string    // root first
	Tools   []movedTool // that have moved the session, or may have
	Failure string      // why it is taken back
}

// A movedTool is a tool server that has moved a session to the same server elsewhere.
type movedTool struct {
	Base, To string
	// Tunnel says that the two reach each other only through their runtimes, and Toolset which
	// they are then.
	Tunnel  bool
	Toolset string
}

// Perform performs a migration, in the order that the protocol prescribes (doc/protocol.md §10.2):
// the loop is shut down; the destination has its tool servers ready and reachable; each
// server that needs it migrates; all of them are waited for; the conversation moves; the
// source is cleaned up. Whatever fails before the destination has the session undoes what
// was done.
func (mg *Migrator) Perform(ctx context.Context, o Order, to string) Outcome {
	select {
	case <-mg.Running:
	case <-ctx.Done():
		return Outcome{Failure: "the runtime stopped"}
	}
	d := &departure{mg: mg, session: o.Session, id: o.Migration, to: to}
	err := d.run(ctx)
	if err == nil {
		mg.Log.Info("session moved", "session", quote.Text(d.session), "to", quote.Text(to))
		return Outcome{}
	}
	if mg.Kept && (mg.Stopping() || ctx.Err() != nil) {
		<-ctx.Done() // it has no outcome: the next process goes on with it
	}
	if ctx.Err() == nil {
		mg.Log.Warn("session not moved", "session", quote.Text(d.session), "to", quote.Text(to), "error", err)
	}
	return Outcome{Failure: err.Error()}
}

func (d *departure) run(ctx context.Context) error {
	if d.recall(noteBack) {
		return d.takeBack(ctx)
	}
	if d.recall(noteSent) {
		d.mg.freeze(d.Threads, true)
		return d.settled(ctx, errors.New("it was interrupted before the destination had the session"))
	}
	d.again = d.recall(noteAsked)
	exported, err := d.ready(ctx)
	if err != nil {
		return d.rollBack(ctx, err)
	}
	if err := d.keep(ctx, noteSent); err != nil {
		return d.rollBack(ctx, fmt.Errorf("noting that the session is sent: %w", err))
	}
	if _, err := d.mg.tellHost(ctx, d.to, d.message(&migrationMessage{Import: exported})); err != nil {
		return d.settled(ctx, fmt.Errorf("handing over the session: %w", err))
	}
	return d.cleanUp(ctx)
}

// settled goes on when it is known what became of a session that was sent.
func (d *departure) settled(ctx context.Context, cause error) error {
	fate, err := d.settle(ctx)
	switch {
	case err != nil:
		return err
	case fate == fateImported:
		return d.cleanUp(ctx)
	default:
		return d.rollBack(ctx, cause)
	}
}

// recall reads the plan of a departure as it was noted, and reports whether it was.
func (d *departure) recall(kind noteKind) bool {
	text, ok := d.mg.ports.read(note{Kind: kind, Of: d.id, Session: d.session})
	if !ok {
		return false
	}
	if err := json.Unmarshal([]byte(text), &d.plan); err != nil {
		panic("host: a note on a migration cannot be read: " + err.Error()) // it was written by keep
	}
	return true
}

// keep notes the plan of a departure.
func (d *departure) keep(ctx context.Context, kind noteKind) error {
	text, err := json.Marshal(&d.plan)
	if err != nil {
		return err
	}
	_, err = d.mg.ports.write(ctx, note{Kind: kind, Of: d.id, Session: d.session}, string(text))
	return err
}

// ready brings everything but the conversation to the destination, and returns that.
func (d *departure) ready(ctx context.Context) (*sessionExport, error) {
	if err := d.freeze(ctx); err != nil {
		return nil, fmt.Errorf("shutting down the session: %w", err)
	}
	exported, err := d.export(ctx)
	if err != nil {
		return nil, fmt.Errorf("exporting the session: %w", err)
	}
	names, err := d.toolsets(ctx, exported)
	if err != nil {
		return nil, err
	}
	reply, err := d.mg.tellHost(ctx, d.to, d.message(&migrationMessage{Offer: &migrationOffer{Toolsets: names}}))
	if err != nil {
		return nil, fmt.Errorf("offering the session: %w", err)
	}
	exported.Ticket = reply.Ticket
	return exported, d.moveTools(ctx, reply.Servers)
}

// freeze stops the threads, root first so that no new ones come, and their calls.
func (d *departure) freeze(ctx context.Context) error {
	if err := d.mg.settleIn(ctx, d.session); err != nil {
		return err
	}
	d.Threads = []string{d.session}
	for i := 0; i < len(d.Threads); i++ {
		children, err := d.mg.freezeThread(ctx, d.id, d.Threads[i])
		if err != nil {
			return fmt.Errorf("thread %s: %w", quote.Text(d.Threads[i]), err)
		}
		d.mg.freeze(d.Threads[i:i+1], true)
		for _, c := range children {
			if !slices.Contains(d.Threads, c) {
				d.Threads = append(d.Threads, c)
			}
		}
	}
	return nil
}

// settle asks the destination what became of the migration until it is known: it has the
// session, or it never will. Until then nobody may go on with it.
func (d *departure) settle(ctx context.Context) (fate string, err error) {
	again := edge.Curve{First: []time.Duration{time.Second}, Most: 30 * time.Second}
	for failed := 1; ; failed++ {
		reply, err := d.mg.tellHost(ctx, d.to, d.message(&migrationMessage{Abort: true}))
		if err == nil {
			return reply.Fate, nil
		}
		d.mg.Log.Warn("what became of a session on its way is not known", "session", quote.Text(d.session), "error", err)
		if !again.Wait(ctx, failed, 0, nil) {
			return "", context.Cause(ctx)
		}
	}
}

func (d *departure) message(m *migrationMessage) *migrationMessage {
	m.Migration, m.Session = d.id, d.session
	return m
}

func (d *departure) export(ctx context.Context) (*sessionExport, error) {
	all := &sessionExport{}
	for _, t := range d.Threads {
		e, err := d.mg.exportThread(ctx, d.id, t)
		if err != nil {
			return nil, fmt.Errorf("thread %s: %w", quote.Text(t), err)
		}
		all.Threads = append(all.Threads, *e)
	}
	if root := &all.Threads[0]; root.Conversation == nil && len(root.Calls.Calls) == 0 && !root.Calls.Closed {
		return nil, errors.New("there is no such session")
	}
	return all, nil
}

// toolsets returns the names of the toolsets that the destination has to have: those that
// migrate, and those with calls that are not over.
func (d *departure) toolsets(ctx context.Context, e *sessionExport) (names []string, err error) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, s := range d.mg.Peers.All {
		set := d.mg.Catalog.Last(s)
		if set == nil {
			if set, err = d.mg.Catalog.Fresh(ctx, s); err != nil {
				return nil, fmt.Errorf("tool server %s: whether it has to migrate is not known: %w", s.Base, err)
			}
		}
		if !set.Manifest.NeedsMigration {
			continue
		}
		if slices.Contains(names, set.Manifest.Name) {
			return nil, fmt.Errorf("two tool servers have the toolset %s: which is which at the destination cannot be told", quote.Text(set.Manifest.Name))
		}
		add(set.Manifest.Name)
	}
	for _, t := range e.Threads {
		for _, c := range t.Calls.Calls {
			if c.State != agentproto.Completed || c.Subscribed {
				add(t.Toolsets[c.Key.ID])
			}
		}
	}
	return names, nil
}

// moveTools has the tool servers that need it hand the session over, all at once, and
// waits for all of them. One that is the same at both hosts has nothing to hand over. That
// they are asked is noted first: who takes the migration back has to know.
func (d *departure) moveTools(ctx context.Context, servers map[string]string) error {
	moving := map[*peer.Server]string{}
	var asked []movedTool
	for _, s := range d.mg.Peers.All {
		set := d.mg.Catalog.Last(s)
		if set == nil || !set.Manifest.NeedsMigration {
			continue
		}
		to := strings.TrimSuffix(servers[set.Manifest.Name], "/")
		switch moved := (movedTool{Base: s.Base, To: to}); {
		case d.mg.needsTunnel(to, d.to):
			moved.Tunnel, moved.Toolset = true, set.Manifest.Name
			moving[s] = d.mg.tunnelTo(d.to, d.session, moved.Toolset)
			asked = append(asked, moved)
		case to != s.Base:
			moving[s] = to
			asked = append(asked, moved)
		}
	}
	if d.again && !slices.Equal(asked, d.Tools) {
		return errors.New("other tool servers would have to move now than before the interruption")
	}
	d.Tools = asked
	if err := d.keep(ctx, noteAsked); err != nil {
		return fmt.Errorf("noting that tool servers are asked: %w", err)
	}
	var mu sync.Mutex
	var failures []error
	var wg sync.WaitGroup
	for s, to := range moving {
		wg.Go(func() {
			err := d.mg.moveTool(ctx, s, s.Base, d.session, to)
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, fmt.Errorf("tool server %s: %w", s.Base, err))
			if _, stayed := errors.AsType[*migrateError](err); stayed && !d.again {
				d.Tools = slices.DeleteFunc(d.Tools, func(t movedTool) bool { return t.Base == s.Base })
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// rollBack undoes the migration: the destination will not take the session any more, tool
// servers that have moved it, or may have, take it back, and the session goes on here. From
// the note on this is what becomes of the migration, whatever interrupts it.
func (d *departure) rollBack(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return cause // the runtime stops: the next process begins anew
	}
	d.Failure = cause.Error()
	if err := d.keep(ctx, noteBack); err != nil {
		return errors.Join(cause, fmt.Errorf("noting that the migration is taken back: %w", err))
	}
	// A destination that cannot be told needs the import to go on, and that never comes.
	_, _ = d.mg.tellHost(ctx, d.to, d.message(&migrationMessage{Abort: true}))
	return d.takeBack(ctx)
}

// takeBack does what rollBack has decided.
func (d *departure) takeBack(ctx context.Context) error {
	failures := []error{errors.New(d.Failure)}
	for _, g := range d.Tools {
		if err := d.handBack(ctx, g); err != nil {
			failures = append(failures, fmt.Errorf("tool server %s did not hand the session back: %w", g.To, err))
		}
	}
	if len(failures) == 1 {
		d.mg.tunnels.closes(d.session) // those that it came back through
	}
	d.mg.freeze(d.Threads, false)
	for _, t := range d.Threads {
		if err := d.mg.abortThread(ctx, d.id, t); err != nil {
			failures = append(failures, fmt.Errorf("thread %s is still shut down: %w", quote.Text(t), err))
		}
	}
	return errors.Join(failures...)
}

// handBack has a tool server move the session to where it was. One that does not have it
// has nothing to do, so this can be asked of any that may have.
func (d *departure) handBack(ctx context.Context, moved movedTool) (err error) {
	i := slices.IndexFunc(d.mg.Peers.All, func(s *peer.Server) bool { return s.Base == moved.Base })
	if i < 0 {
		return fmt.Errorf("%s is not configured any more", moved.Base)
	}
	for attempt := 1; ; attempt++ {
		if moved.Tunnel {
			err = d.askBack(ctx, moved.Toolset)
		} else {
			err = d.mg.moveTool(ctx, d.mg.Peers.All[i], moved.To, d.session, moved.Base)
		}
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*migrateError](err); ok && refused.status < 500 || !d.mg.Peers.Retry().Wait(ctx, attempt, 0, nil) {
			return err
		}
	}
}

// cleanUp leaves behind what late callbacks need: tombstones, and where the session is.
func (d *departure) cleanUp(ctx context.Context) error {
	for _, t := range d.Threads {
		err := d.mg.ports.place(ctx, d.id, t, d.to)
		if err == nil {
			err = d.mg.commitThread(ctx, d.id, t)
		}
		if err != nil {
			return fmt.Errorf("the session has moved, but thread %s was not cleaned up: %w", quote.Text(t), err)
		}
		d.mg.Display.Forget(t)
	}
	d.mg.freeze(d.Threads, false)
	for _, s := range d.mg.Peers.All {
		if !slices.ContainsFunc(d.Tools, func(t movedTool) bool { return t.Base == s.Base }) {
			continue // what it has goes on where it is
		}
		for _, t := range d.Threads {
			d.mg.Peers.Notify(s, purpose.Close, "/close_thread", &agentproto.CloseThread{ThreadID: t})
		}
	}
	return nil
}
