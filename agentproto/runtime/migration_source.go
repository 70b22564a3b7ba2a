package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
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
// done again: after a crash the migration begins anew.
type departure struct {
	rt      *Runtime
	session string
	id      string
	to      string

	threads []string // root first
	sent    bool     // the import may have reached the destination
	gone    []gone   // tool servers that have moved the session, or may have
}

// gone is a tool server that has moved a session to another, or may have.
type gone struct {
	server *server
	to     string // base URL
}

// migrate performs a migration, in the order that the protocol prescribes (seed part 4):
// the loop is shut down; the destination has its tool servers ready and reachable; each
// server that needs it migrates; all of them are waited for; the conversation moves; the
// source is cleaned up. Whatever fails before the destination has the session undoes what
// was done.
func (rt *Runtime) migrate(ctx context.Context, o order, to string) outcome {
	select {
	case <-rt.running:
	case <-ctx.Done():
		return outcome{Failure: "the runtime stopped"}
	}
	d := &departure{rt: rt, session: o.Session, id: o.Migration, to: to}
	rt.moves.enter(d)
	defer rt.moves.leave(d)
	err := d.run(ctx)
	if err == nil {
		rt.log.Info("session moved", "session", quoted(d.session), "to", quoted(to))
		return outcome{}
	}
	if ctx.Err() == nil {
		rt.log.Warn("session not moved", "session", quoted(d.session), "to", quoted(to), "error", err)
	}
	return outcome{Failure: err.Error()}
}

func (d *departure) run(ctx context.Context) error {
	if err := d.freeze(ctx); err != nil {
		return errors.Join(fmt.Errorf("shutting down the session: %w", err), d.thaw(ctx))
	}
	imported, err := d.transfer(ctx)
	if !imported {
		return errors.Join(err, d.rollBack(ctx))
	}
	return d.cleanUp(ctx)
}

// freeze stops the threads, root first so that no new ones come, and their calls.
func (d *departure) freeze(ctx context.Context) error {
	threads := []string{d.session}
	for i := 0; i < len(threads); i++ {
		children, err := d.rt.freezeThread(ctx, d.id, threads[i])
		if err != nil {
			return fmt.Errorf("thread %s: %w", quoted(threads[i]), err)
		}
		d.threads = append(d.threads, threads[i])
		d.rt.moves.freeze(d.threads[i:], true)
		for _, c := range children {
			if !slices.Contains(threads, c) {
				threads = append(threads, c)
			}
		}
	}
	return nil
}

// transfer brings the session to the destination. It reports whether it is there.
func (d *departure) transfer(ctx context.Context) (bool, error) {
	if imported, err := d.resume(ctx); err != nil || imported {
		return imported, err
	}
	exported, err := d.export(ctx)
	if err != nil {
		return false, fmt.Errorf("exporting the session: %w", err)
	}
	offer := &migrationOffer{Toolsets: d.toolsets(exported)}
	reply, err := d.rt.tellHost(ctx, d.to, d.message(&migrationMessage{Offer: offer}))
	if err != nil {
		return false, fmt.Errorf("offering the session: %w", err)
	}
	if err := d.moveTools(ctx, reply.Servers); err != nil {
		return false, err
	}
	if _, err := d.rt.moves.ports.write(ctx, note{Kind: noteSent, Of: d.id}, d.to); err != nil {
		return false, fmt.Errorf("noting that the session is sent: %w", err)
	}
	d.sent = true
	exported.Ticket = reply.Ticket
	_, err = d.rt.tellHost(ctx, d.to, d.message(&migrationMessage{Import: exported}))
	if err == nil {
		return true, nil
	}
	fate, unknown := d.settle(ctx)
	if unknown != nil {
		return false, unknown
	}
	return fate == fateImported, fmt.Errorf("handing over the session: %w", err)
}

// resume finds out what became of a migration that a crash interrupted.
func (d *departure) resume(ctx context.Context) (imported bool, err error) {
	if _, d.sent = d.rt.moves.ports.read(note{Kind: noteSent, Of: d.id}); !d.sent {
		return false, nil
	}
	fate, err := d.settle(ctx)
	if err == nil && fate == fateAborted {
		err = errors.New("it was interrupted before the destination had the session")
	}
	return fate == fateImported, err
}

// settle asks the destination what became of the migration until it is known: it has the
// session, or it never will. Until then nobody may go on with it.
func (d *departure) settle(ctx context.Context) (fate string, err error) {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		reply, err := d.rt.tellHost(ctx, d.to, d.message(&migrationMessage{Abort: true}))
		if err == nil {
			return reply.Fate, nil
		}
		d.rt.log.Warn("what became of a session on its way is not known", "session", quoted(d.session), "error", err)
		if !pause(ctx, jitter(wait)) {
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
	for _, t := range d.threads {
		e, err := d.rt.exportThread(ctx, d.id, t)
		if err != nil {
			return nil, fmt.Errorf("thread %s: %w", quoted(t), err)
		}
		all.Threads = append(all.Threads, *e)
	}
	return all, nil
}

// toolsets returns the names of the toolsets that the destination has to have: those that
// migrate, and those with calls that are not over.
func (d *departure) toolsets(e *sessionExport) (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, s := range d.rt.servers {
		if set := s.lastGood(); set != nil && set.manifest.NeedsMigration {
			add(set.manifest.Name)
		}
	}
	for _, t := range e.Threads {
		for _, c := range t.Calls.Calls {
			if c.State != agentproto.Completed || c.Subscribed {
				add(t.Toolsets[c.Key.ID])
			}
		}
	}
	return names
}

// moveTools has the tool servers that need it hand the session over, all at once, and
// waits for all of them. One that is the same at both hosts has nothing to hand over.
func (d *departure) moveTools(ctx context.Context, servers map[string]string) error {
	var mu sync.Mutex
	var failures []error
	var wg sync.WaitGroup
	for _, s := range d.rt.servers {
		set := s.lastGood()
		if set == nil || !set.manifest.NeedsMigration {
			continue
		}
		to := strings.TrimSuffix(servers[set.manifest.Name], "/")
		if to == s.base {
			continue
		}
		wg.Go(func() {
			err := d.rt.moveTool(ctx, s, s.base, d.session, to)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, fmt.Errorf("tool server %s: %w", s.base, err))
			}
			if _, stayed := errors.AsType[*migrateError](err); !stayed {
				d.gone = append(d.gone, gone{s, to})
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// rollBack undoes the migration: the destination will not take the session any more, tool
// servers that had moved it take it back, and the session goes on here.
func (d *departure) rollBack(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // the runtime stops: after the restart it begins anew
	}
	var failures []error
	if !d.sent {
		// A destination that cannot be told needs the import to go on, and that never comes.
		_, _ = d.rt.tellHost(ctx, d.to, d.message(&migrationMessage{Abort: true}))
	}
	for _, g := range d.gone {
		if err := d.rt.moveTool(ctx, g.server, g.to, d.session, g.server.base); err != nil {
			failures = append(failures, fmt.Errorf("tool server %s did not hand the session back: %w", g.to, err))
		}
	}
	return errors.Join(append(failures, d.thaw(ctx))...)
}

func (d *departure) thaw(ctx context.Context) error {
	var failures []error
	d.rt.moves.freeze(d.threads, false)
	for _, t := range d.threads {
		if err := d.rt.thawThread(ctx, d.id, t); err != nil {
			failures = append(failures, fmt.Errorf("thread %s is still shut down: %w", quoted(t), err))
		}
	}
	return errors.Join(failures...)
}

// cleanUp leaves behind what late callbacks need: tombstones, and where the session is.
func (d *departure) cleanUp(ctx context.Context) error {
	for _, t := range d.threads {
		if err := d.rt.leaveThread(ctx, d.id, t, d.to); err != nil {
			return fmt.Errorf("the session has moved, but thread %s was not cleaned up: %w", quoted(t), err)
		}
	}
	d.rt.moves.freeze(d.threads, false)
	for _, g := range d.gone {
		for _, t := range d.threads {
			d.rt.notify(g.server, "/close_thread", &agentproto.CloseThread{ThreadID: t})
		}
	}
	return nil
}
