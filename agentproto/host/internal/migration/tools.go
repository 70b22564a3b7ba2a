package migration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/internal/purpose"
)

// nameToolsets fetches the manifests that this process has not seen yet, since a call leaves with the name of its toolset. It records
// all names: callbacks are forwarded with them, even when this process has ended and the tool servers here have, too.
func (d *departure) nameToolsets(ctx context.Context) error {
	for _, s := range d.mg.Peers.All {
		set := d.mg.Catalog.Last(s)
		if set == nil {
			var err error
			if set, err = d.mg.Catalog.Fresh(ctx, s); err != nil {
				return fmt.Errorf("tool server %s: whether it has to migrate is not known: %w", s.Base, err)
			}
		}
		if err := d.mg.ports.nameToolset(ctx, d.session, s.Name(), set.Manifest.Name); err != nil {
			return fmt.Errorf("noting the toolset of tool server %s: %w", s.Base, err)
		}
	}
	return nil
}

// toolsets returns the names of the toolsets that the destination needs: those that migrate, and those with unfinished calls.
func (d *departure) toolsets(e *sessionExport) (names []string, err error) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, s := range d.mg.Peers.All {
		set := d.mg.Catalog.Last(s)
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

// moveTool makes a tool server hand the state of a session to the instance of the same server at another base URL. It returns
// when that instance serves the session. It asks once; if the outcome is unknown, the caller has to ask again.
//
// The request is signed with the secrets of s, which is the server or the other instance of it.
func (mg *Migrator) moveTool(ctx context.Context, s *peer.Server, base, session, to string) error {
	body, err := agentproto.Encode(&agentproto.Migrate{SessionID: session, DestinationURL: to})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mg.Migrate)
	defer cancel()
	const path = "/migrate"
	a, err := mg.Peers.Post(ctx, s, base+path, peer.FreshID(purpose.Migrate), body, peer.MaxReply)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("/migrate took more than %v", mg.Migrate)
	case err != nil:
		return fmt.Errorf("/migrate: %w", err)
	}
	if a.Status == http.StatusOK {
		return nil
	}
	return &migrateError{a.Status, strings.TrimSpace(string(a.Body))}
}

// A toolReturn asks a host to make one of its tool servers hand a session back to the same server at the host that the session
// came from.
type toolReturn struct {
	Toolset string // the name in its manifest
	To      string // public URL of that host
}

// askBack asks the destination to make its tool server, which the source cannot reach, hand the session back through a tunnel.
func (d *departure) askBack(ctx context.Context, toolset string) error {
	if err := d.mg.tunnels.opens(d.session, toolset, d.mg.Migrate); err != nil {
		return err
	}
	_, err := d.mg.tellHost(ctx, d.to, d.message(&migrationMessage{Return: &toolReturn{toolset, d.mg.publicURL}}))
	return err
}

// returnTool makes a tool server of this host hand back a session that did not move here after all.
func (mg *Migrator) returnTool(ctx context.Context, m *migrationMessage) error {
	reply, err := mg.abort(ctx, m)
	if err != nil {
		return err
	}
	if reply.Fate != fateAborted {
		return errors.New("the session is here")
	}
	s := mg.Catalog.WithToolset(ctx, m.Return.Toolset)
	if s == nil {
		return fmt.Errorf("it has no tool server with the toolset %s that can be reached", quote.Text(m.Return.Toolset))
	}
	// The tool server of the other host may be unsure about the session, and ask here.
	if err := mg.tunnels.opens(m.Session, m.Return.Toolset, mg.Migrate); err != nil {
		return err
	}
	return mg.moveTool(ctx, s, s.Base, m.Session, mg.tunnelTo(m.Return.To, m.Session, m.Return.Toolset))
}

// A migrateError is an answer to /migrate which says that the state was not handed over. After any other error it may have been.
type migrateError struct {
	status int
	text   string
}

func (e *migrateError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("/migrate was answered %d", e.status)
	}
	return fmt.Sprintf("/migrate was answered %d: %s", e.status, quote.Text(e.text))
}
