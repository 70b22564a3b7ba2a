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

// A sessionExport is a complete session, as sent to its destination.
type sessionExport struct {
	Ticket  string // of the offer
	Threads []threadExport
}

// A threadExport is a complete thread.
type threadExport struct {
	Thread       string
	Conversation *conversation.Export // nil for a thread whose conversation another program holds
	Calls        *agentproto.ThreadSnapshot
	// Toolsets maps the ID of each call to the name of its toolset, because the address of its tool server may differ at the
	// destination.
	Toolsets map[string]string
}

// A departure is a migration away from here. Its methods are the steps, and each can be repeated: after a crash the migration
// starts again, unless a note says how far it got.
type departure struct {
	mg      *Migrator
	session string
	id      string
	to      string
	plan

	again bool // tool servers were asked before a crash
}

// A plan is the part of a departure that has to survive a crash.
type plan struct {
	Threads []string    // root first
	Tools   []movedTool // tool servers that have moved the session, or may have
	Failure string      // why the migration is taken back
}

// A movedTool is a tool server that has moved a session to the same server at another host.
type movedTool struct {
	Base, To string
	// Tunnel says that the two servers reach each other only through their runtimes. Toolset is then their name.
	Tunnel  bool
	Toolset string
}

// Perform performs a migration, in the order that the protocol prescribes (doc/protocol.md §10.2). The session is frozen. The
// destination prepares its tool servers and makes them reachable. Each server that needs it migrates, and all of them are
// awaited. The conversation moves, and the source is cleaned up. A failure before the destination has the session undoes what was
// done.
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
		<-ctx.Done() // no outcome: the next process continues the migration
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

// settled continues once the outcome of a session that was sent is known.
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

// recall reads the recorded plan of a departure. It reports whether one was recorded.
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

// keep records the plan of a departure.
func (d *departure) keep(ctx context.Context, kind noteKind) error {
	text, err := json.Marshal(&d.plan)
	if err != nil {
		return err
	}
	_, err = d.mg.ports.write(ctx, note{Kind: kind, Of: d.id, Session: d.session}, string(text))
	return err
}

// ready moves everything but the conversation to the destination, and returns the conversation.
func (d *departure) ready(ctx context.Context) (*sessionExport, error) {
	if err := d.freeze(ctx); err != nil {
		return nil, fmt.Errorf("shutting down the session: %w", err)
	}
	if err := d.nameToolsets(ctx); err != nil {
		return nil, err
	}
	exported, err := d.export(ctx)
	if err != nil {
		return nil, fmt.Errorf("exporting the session: %w", err)
	}
	names, err := d.toolsets(exported)
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

// freeze stops the threads and their calls, the root thread first so that no new threads appear.
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

// settle asks the destination for the outcome of the migration until it is known: the destination has the session, or never will.
// Until then neither host may go on with it.
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

// moveTools lets the tool servers that need it hand over the session, all at once, and waits for all of them. A server that is
// the same at both hosts has nothing to hand over. The list of the servers asked is recorded first, because taking the migration
// back requires it.
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

// rollBack undoes the migration: the destination will no longer accept the session, tool servers that have moved it, or may have,
// take it back, and the session goes on here. Once the note is written, this is the outcome of the migration, even if it is
// interrupted.
func (d *departure) rollBack(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return cause // the runtime stops: the next process starts again
	}
	d.Failure = cause.Error()
	if err := d.keep(ctx, noteBack); err != nil {
		return errors.Join(cause, fmt.Errorf("noting that the migration is taken back: %w", err))
	}
	// An unreachable destination could go on only with the import, which never comes.
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
		d.mg.tunnels.closes(d.session) // those through which the session came back
	}
	d.mg.freeze(d.Threads, false)
	for _, t := range d.Threads {
		if err := d.mg.abortThread(ctx, d.id, t); err != nil {
			failures = append(failures, fmt.Errorf("thread %s is still shut down: %w", quote.Text(t), err))
		}
	}
	return errors.Join(failures...)
}

// handBack makes a tool server move the session back. A server that does not have it does nothing, so this may be requested of
// any that may have it.
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

// cleanUp keeps what late callbacks need: the records of finished calls, and where the session is.
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
